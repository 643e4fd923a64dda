// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

const root = "github.com/statekeel/statekeel"

// isOurs reports whether a module is one of this repository.
func isOurs(path string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// aModule is a module of the tree.
type aModule struct {
	path, dir string
	file      *modfile.File
}

// released reports whether users can require the module.
func (m *aModule) released() bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(m.path, root+"/"), "/")
	return !slices.Contains([]string{"internal", "benchmarks", "tools"}, first)
}

// tag returns the tag of a version of the module.
func (m *aModule) tag(version string) string {
	return strings.TrimPrefix(strings.TrimPrefix(m.path, root)+"/"+version, "/")
}

// requires returns the modules of this repository that the module requires.
func (m *aModule) requires() (paths []string) {
	for _, r := range m.file.Require {
		if isOurs(r.Mod.Path) {
			paths = append(paths, r.Mod.Path)
		}
	}
	return paths
}

// modules returns the modules of the tree, each after those that it requires.
func modules(dir string) (ordered []*aModule, err error) {
	var rest []*aModule
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Name() == ".git", entry.Name() == "testdata":
			return fs.SkipDir
		case entry.Name() != "go.mod":
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := modfile.Parse(path, data, nil)
		if err != nil {
			return err
		}
		rest = append(rest, &aModule{path: file.Module.Mod.Path, dir: filepath.Dir(path), file: file})
		return nil
	})
	for err == nil && len(rest) > 0 {
		i := slices.IndexFunc(rest, func(m *aModule) bool {
			return !slices.ContainsFunc(m.requires(), func(path string) bool {
				return slices.ContainsFunc(rest, func(other *aModule) bool { return other.path == path })
			})
		})
		if i < 0 {
			return nil, fmt.Errorf("modules require each other in a cycle, %s among them", rest[0].path)
		}
		ordered, rest = append(ordered, rest[i]), slices.Delete(rest, i, i+1)
	}
	return ordered, err
}

// prepare changes a tree to that of a release, and puts each released module into the proxy. Released modules require
// each other by version: go install refuses a module with a replace.
func prepare(dir, version, date string, p proxy, others source) (err error) {
	all, err := modules(dir)
	if err != nil {
		return err
	}
	// The module cache may have the version as it was when it was prepared the last time.
	if err := forget(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, forget()) }()
	for _, m := range all {
		if m.released() {
			if err := m.require(version); err != nil {
				return err
			}
		}
		// Others keep their replace. A module that they require may require a later version now.
		if err := command(m.dir, p.environment(others), nil, "go", "mod", "tidy"); err != nil {
			return fmt.Errorf("tidy %s: %w", m.path, err)
		}
		if !m.released() {
			continue
		}
		if err := p.add(m, version); err != nil {
			return fmt.Errorf("zip %s: %w", m.path, err)
		}
	}
	for what, by := range words(version, date) {
		for _, page := range []string{"CHANGELOG.md", "README.md"} {
			if err := edit(filepath.Join(dir, page), what, by); err != nil {
				return err
			}
		}
	}
	return nil
}

// words returns what a release changes in pages: the date, and what they say for as long as there is no version.
func words(version, date string) map[*regexp.Regexp]string {
	return map[*regexp.Regexp]string{
		regexp.MustCompile(`(?m)^## [0-9.]+ \(unreleased\)$`):                            "## " + version[1:] + " (" + date + ")",
		regexp.MustCompile(`(?s)<!-- until the first release -->\n.*?<!-- end -->\n\n?`): "",
	}
}

// edit replaces what matches in a file.
func edit(path string, what *regexp.Regexp, by string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, what.ReplaceAll(data, []byte(by)), 0o644)
}

// require writes the go.mod of a released module: modules of this repository at a version, without replace.
func (m *aModule) require(version string) error {
	for _, r := range slices.Clone(m.file.Replace) {
		if !isOurs(r.Old.Path) {
			return fmt.Errorf("%s replaces %s: users would not get the replacement", m.path, r.Old.Path)
		}
		if err := m.file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return err
		}
	}
	for _, path := range m.requires() {
		if err := m.file.AddRequire(path, version); err != nil {
			return err
		}
	}
	m.file.Cleanup()
	data, err := m.file.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.dir, "go.mod"), data, 0o644)
}
