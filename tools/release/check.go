// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/statekeel/statekeel/internal/tests/doctest"
)

// check prepares the release of a copy of HEAD, and uses it as a new user does: the programs of the first pages, each in
// a folder that was empty; all packages of each module that is a library; and the commands of the examples.
func check(dir, temp, version string, p proxy) (err error) {
	tree := filepath.Join(temp, "tree")
	if err := command(dir, nil, nil, "git", "clone", "-q", ".", tree); err != nil {
		return err
	}
	if err := prepare(tree, version, "today", p, cached); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, forget()) }()
	// Our packages are compiled for this check alone: without optimisation that takes half the time.
	flags := "-ldflags=-w '-gcflags=" + root + "/...=-N -l'"
	u := user{version: version, dir: filepath.Join(temp, "user"), env: append(p.environment(cached, flags),
		"GOSUMDB=off", "GOBIN="+filepath.Join(temp, "bin"))}
	for _, page := range []string{"README.md", "docs/GUIDE.md"} {
		if err := u.page(filepath.Join(tree, page)); err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
	}
	all, err := modules(tree)
	if err != nil {
		return err
	}
	for _, m := range all {
		if !m.released() {
			continue
		}
		fmt.Println("check", m.path)
		if err := u.module(m); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return compare(dir, filepath.Join(temp, "last"), version, all, p)
}

// compare lets gorelease compare the released modules of a tree with those of the last tag: whether the version may have
// what has changed for users. The tag is on a branch, beside HEAD.
func compare(dir, last, version string, tree []*aModule, p proxy) error {
	var tags, gorelease strings.Builder
	if err := command(dir, nil, &tags, "git", "tag", "--list", "v*", "--sort=-v:refname"); err != nil {
		return err
	}
	known := strings.Fields(tags.String())
	i := slices.IndexFunc(known, func(tag string) bool { return semver.IsValid(tag) && semver.Compare(tag, version) < 0 })
	if i < 0 {
		return nil
	}
	tag := known[i]
	if err := command(dir, nil, nil, "git", "clone", "-q", "--branch", tag, ".", last); err != nil {
		return err
	}
	before, err := modules(last)
	if err != nil {
		return err
	}
	if err := command(dir, nil, &gorelease, "go", "tool", "-modfile=tools/go.mod", "-n", "gorelease"); err != nil {
		return err
	}
	for _, m := range before {
		now := slices.IndexFunc(tree, func(now *aModule) bool { return now.path == m.path })
		if !m.released() || now < 0 {
			continue
		}
		fmt.Println("compare", m.path, tag)
		if err := p.add(m, tag); err != nil {
			return err
		}
		err := command(tree[now].dir, p.environment(cached, ""), nil, strings.TrimSpace(gorelease.String()), "-base", tag, "-version", version)
		if err != nil {
			return err
		}
	}
	return nil
}

// user is somebody who uses a version.
type user struct {
	version, dir string
	env          []string
	programs     int
}

// begin makes an empty folder, and a module in it that requires others.
func (u *user) begin(modules ...string) (dir string, err error) {
	u.programs++
	dir = filepath.Join(u.dir, fmt.Sprint(u.programs))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := command(dir, u.env, nil, "go", "mod", "init", "example"); err != nil {
		return "", err
	}
	for _, m := range modules {
		if err := command(dir, u.env, nil, "go", "get", m+"@"+u.version); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// page builds and runs the programs of a page.
func (u *user) page(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	programs, err := doctest.Parse(filepath.Base(path), string(text))
	if err != nil {
		return err
	}
	for _, program := range programs {
		fmt.Println("check", filepath.Base(path), program.Files[0].Name)
		dir, err := u.begin(root)
		if err != nil {
			return err
		}
		if err := program.Write(dir, path); err != nil {
			return err
		}
		if err := u.runs(dir, program); err != nil {
			return err
		}
	}
	return nil
}

// runs vets, tests and runs a program.
func (u *user) runs(dir string, program *doctest.Program) error {
	if err := u.vets(dir); err != nil {
		return err
	}
	if program.HasTests() {
		if err := command(dir, u.env, nil, "go", "test", "-vet=off", "./..."); err != nil {
			return err
		}
	}
	if !program.HasMain() {
		return nil
	}
	want := ""
	if program.Output != nil {
		want = program.Output.Text
	}
	var printed strings.Builder
	if err := command(dir, u.env, &printed, "go", "run", "."); err != nil {
		return err
	}
	if printed.String() != want {
		return fmt.Errorf("the program prints\n%s\nbut the page shows\n%s", &printed, want)
	}
	return nil
}

func (u *user) vets(dir string) error {
	if err := command(dir, u.env, nil, "go", "mod", "tidy"); err != nil {
		return err
	}
	return command(dir, u.env, nil, "go", "vet", "./...")
}

// module installs the commands of a module, or builds a package that imports all of its packages if it has none: a library.
func (u *user) module(m *aModule) error {
	var listed strings.Builder
	if err := command(m.dir, u.env, &listed, "go", "list", "-f", "{{.Name}} {{.ImportPath}}", "./..."); err != nil {
		return err
	}
	var commands []string
	library := "package example\n\nimport (\n"
	for line := range strings.Lines(listed.String()) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.Contains(path+"/", "/internal/"):
		case name == "main":
			commands = append(commands, path+"@"+u.version)
		default:
			library += fmt.Sprintf("\t_ %q\n", path)
		}
	}
	if len(commands) > 0 {
		return command(u.dir, u.env, nil, "go", slices.Concat([]string{"install"}, commands)...)
	}
	dir, err := u.begin(m.path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "example.go"), []byte(library+")\n"), 0o644); err != nil {
		return err
	}
	if err := u.vets(dir); err != nil {
		return err
	}
	return command(dir, u.env, nil, "go", "build", ".")
}
