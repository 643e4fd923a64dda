// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Mutants breaks one promise at a time and says which test notices.
//
// The files in testdata list mutants: a promise, the line of code that keeps it, and a line that does not. For each
// one, the program runs the tests of the packages that should fail, with the changed file laid over the true one
// (go test -overlay): the tree stays as it is. A mutant that no test fails for is a promise without a test.
//
//	go run ./internal/tests/mutants              all of them: hours
//	go run ./internal/tests/mutants -run retry   those whose name or promise matches
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	matching := flag.String("run", "", "only mutants whose name or promise matches this regular `expression`")
	list := flag.Bool("list", false, "list the mutants, and run nothing")
	root := flag.String("root", ".", "the `folder` of the repository")
	flag.Parse()
	survivors, err := run(*root, *matching, *list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if survivors > 0 {
		fmt.Printf("%d survived\n", survivors)
		os.Exit(1)
	}
}

// run tries the mutants that match, and returns how many survived.
func run(root, matching string, list bool) (survivors int, err error) {
	wanted, err := regexp.Compile(matching)
	if err != nil {
		return 0, err
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return 0, err
	}
	mutants, err := readAll(root)
	if err != nil {
		return 0, err
	}
	for _, m := range mutants {
		if !wanted.MatchString(m.name) && !wanted.MatchString(m.promise) {
			continue
		}
		if list {
			fmt.Printf("%-40s %s\n", m.name, m.promise)
			continue
		}
		began := time.Now()
		verdict, killed := m.try(root)
		if !killed {
			survivors++
		}
		fmt.Printf("%-40s %4.0fs  %s\n", m.name, time.Since(began).Seconds(), verdict)
	}
	return survivors, nil
}

// limit bounds the tests of one mutant: one that hangs is killed as well.
const limit = 8 * time.Minute

var (
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	notBuilt   = regexp.MustCompile(`(?m)\[(build|setup) failed\]`)
	endedEarly = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*|WARNING: DATA RACE)$`)
)

// try runs the tests of m, package by package until one fails, and says which test failed. A mutant that does not
// compile counts as one that survived: it proves nothing.
func (m mutant) try(root string) (verdict string, killed bool) {
	folder, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return err.Error(), false
	}
	defer os.RemoveAll(folder)
	overlay, err := m.overlay(root, folder)
	if err != nil {
		return err.Error(), false
	}
	for _, tests := range m.tests {
		verdict, killed = judge(filepath.Join(root, m.module), overlay, tests)
		if verdict != survived {
			return verdict, killed
		}
	}
	return survived, false
}

const survived = "SURVIVED"

// judge runs the tests of one package with an overlay.
func judge(folder, overlay, tests string) (verdict string, killed bool) {
	command := exec.Command("go", "test", "-vet=off", "-count=1", "-failfast", "-timeout", limit.String(), "-overlay", overlay, tests)
	command.Dir = folder
	output, err := command.CombinedOutput()
	switch {
	case notBuilt.Match(output):
		return "DOES NOT COMPILE\n" + string(output), false
	case err == nil:
		return survived, false
	}
	for _, sign := range []*regexp.Regexp{failedTest, endedEarly} {
		if found := sign.FindSubmatch(output); found != nil {
			return string(found[1]), true
		}
	}
	return "FAILED WITHOUT A TEST\n" + string(output), false
}

// overlay writes the changed file and the list that go test -overlay reads into folder, and returns the list's path.
func (m mutant) overlay(root, folder string) (string, error) {
	changed, err := m.apply(root)
	if err != nil {
		return "", err
	}
	file := filepath.Join(folder, "mutant.go")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		return "", err
	}
	replace := map[string]map[string]string{"Replace": {filepath.Join(root, m.file): file}}
	text, err := json.Marshal(replace)
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// apply returns the text of the file with the mutant's change.
func (m mutant) apply(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("mutant %s: its lines occur %d times in %s, want 1", m.name, n, m.file)
	}
	return strings.Replace(string(text), m.old, m.new, 1), nil
}
