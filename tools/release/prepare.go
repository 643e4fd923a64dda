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
	if err := editPages(dir, version, date); err != nil {
		return err
	}
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
		if !m.released() {
			continue
		}
		if err := m.require(version); err != nil {
			return err
		}
		if err := m.tidy(p, others); err != nil {
			return err
		}
		if err := p.add(m, version); err != nil {
			return fmt.Errorf("zip %s: %w", m.path, err)
		}
	}
	for _, m := range all {
		// Others keep their replace. A module that they require may require a later version now. Users do not see that,
		// and it needs modules that this machine may not have.
		if !m.released() && others == online {
			if err := m.tidy(p, others); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *aModule) tidy(p proxy, others source) error {
	if err := command(m.dir, p.environment(others, ""), nil, "go", "mod", "tidy"); err != nil {
		return fmt.Errorf("tidy %s: %w", m.path, err)
	}
	return nil
}

var (
	unreleased = regexp.MustCompile(`(?m)^## [0-9.]+ \(unreleased\)$`)
	// untilThen is what the README says for as long as there is no version.
	untilThen = regexp.MustCompile(`(?s)<!-- until the first release -->\n.*?<!-- end -->\n\n?`)
)

// editPages gives the CHANGELOG the date, and takes out of the README what it says for as long as there is no version.
func editPages(dir, version, date string) error {
	changes, readme := filepath.Join(dir, "CHANGELOG.md"), filepath.Join(dir, "README.md")
	if n, err := edit(changes, unreleased, "## "+version[1:]+" ("+date+")"); err != nil {
		return err
	} else if n != 1 {
		return fmt.Errorf("CHANGELOG.md has %d sections with the heading \"## VERSION (unreleased)\": a release needs one", n)
	}
	_, err := edit(readme, untilThen, "")
	return err
}

// edit replaces what matches in a file, and returns how often it does.
func edit(path string, what *regexp.Regexp, by string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return len(what.FindAll(data, -1)), os.WriteFile(path, what.ReplaceAll(data, []byte(by)), 0o644)
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
