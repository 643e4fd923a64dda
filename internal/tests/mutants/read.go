// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A mutant is one change of the code that breaks a promise.
type mutant struct {
	name    string
	promise string
	file    string   // from the root of the repository
	module  string   // the folder of the module whose tests run, empty for the root
	tests   []string // packages, in this order until one fails
	old     string   // whole lines, which occur once in the file
	new     string
}

// readAll reads the files in testdata, in the order of their names.
func readAll(root string) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(root, "internal/tests/mutants/testdata/*.txt"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	seen := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		mutants, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
		for _, m := range mutants {
			if other, twice := seen[m.name]; twice {
				return nil, fmt.Errorf("%s: mutant %s is in %s, too", filepath.Base(path), m.name, other)
			}
			seen[m.name] = filepath.Base(path)
		}
		all = append(all, mutants...)
	}
	return all, nil
}

// parse reads mutants, which are separated by an empty line:
//
//	mutant: deletion-is-given-up
//	promise: DESIGN 6.3, a failed delete is retried until it succeeds
//	file: internal/core/settle.go
//	tests: ./internal/core ./reconciler
//	-	if failed {
//	+	if failed && !deleted {
//
// Lines that begin with # are comments. "module:" names the folder of the tests' module if it is not the root. The
// lines after - are replaced by those after +, of which there may be none. They are lines of one function.
func parse(text string) ([]mutant, error) {
	var all []mutant
	var m mutant
	flush := func(line int) error {
		if m.name == "" && m.old == "" {
			return nil
		}
		if m.name == "" || m.promise == "" || m.file == "" || len(m.tests) == 0 || m.old == "" || m.old == m.new {
			return fmt.Errorf("line %d: the mutant %q before it lacks a name, promise, file, tests or change", line, m.name)
		}
		all = append(all, m)
		m = mutant{}
		return nil
	}
	for i, line := range strings.Split(text, "\n") {
		if line == "" {
			if err := flush(i + 1); err != nil {
				return nil, err
			}
			continue
		}
		switch line[0] {
		case '#':
			continue
		case '-':
			m.old += line[1:] + "\n"
			continue
		case '+':
			m.new += line[1:] + "\n"
			continue
		}
		key, value, _ := strings.Cut(line, ": ")
		switch key {
		case "mutant":
			m.name = value
		case "promise":
			m.promise = value
		case "file":
			m.file = value
		case "module":
			m.module = value
		case "tests":
			m.tests = strings.Fields(value)
		default:
			return nil, fmt.Errorf("line %d: %q is no key of a mutant", i+1, key)
		}
	}
	return all, flush(0)
}
