// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Release prepares a release of all modules, and proves that a program of a user can be built from it.
//
//	go run ./release prepare VERSION   changes the tree in the current folder: go.mod, go.sum, CHANGELOG, README
//	go run ./release check VERSION     prepares a copy of HEAD, and uses it as a new user would, without a network
//
// A module is released unless it is in internal/, benchmarks/ or tools/. RELEASING.md says what follows.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/semver"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 || semver.Canonical(args[1]) != args[1] {
		return fmt.Errorf("arguments are %q: want prepare or check, and a version such as v0.1.0", args)
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "statekeel-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	p := proxy(filepath.Join(temp, "proxy"))
	switch args[0] {
	case "prepare":
		if err := prepare(dir, args[1], time.Now().Format(time.DateOnly), p, online); err != nil {
			return err
		}
		all, err := modules(dir)
		for _, m := range all {
			if m.released() {
				fmt.Println("git tag", m.tag(args[1]))
			}
		}
		return err
	case "check":
		return check(dir, temp, args[1], p)
	}
	return fmt.Errorf("%q is no command: want prepare or check", args[0])
}
