// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Mutants breaks one promise at a time and says which test notices.
//
// The files in testdata list mutants: a promise, the line of code that keeps it, and a line that does not. The program
// compiles the tests once, with all mutants in them (go test -overlay: the tree stays as it is), and runs them for each
// mutant until one fails. A mutant that no test fails for is a promise without a test.
//
//	go run ./internal/tests/mutants              all of them: a quarter of an hour
//	go run ./internal/tests/mutants -run retry   those whose name or promise matches
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool {
		return !wanted.MatchString(m.name) && !wanted.MatchString(m.promise)
	})
	if list {
		for _, m := range mutants {
			fmt.Printf("%-40s %s\n", m.name, m.promise)
		}
		return 0, nil
	}
	folder, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	overlay, err := weave(root, folder, mutants)
	if err != nil {
		return 0, err
	}
	t := tests{root: root, folder: folder, overlay: overlay, binaries: map[string]string{}}
	for i, m := range mutants {
		began := time.Now()
		verdict, killed, err := t.try(i+1, &m)
		if err != nil {
			return survivors, err
		}
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
	endedEarly = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*|WARNING: DATA RACE)$`)
)

// tests are the compiled tests, by their folder.
type tests struct {
	root, folder, overlay string
	binaries              map[string]string
}

// try runs the tests of the mutant with a number, package by package until one fails, and says which test failed.
func (t *tests) try(number int, m *mutant) (verdict string, killed bool, err error) {
	for _, tests := range m.tests {
		folder := filepath.Join(t.root, m.module, tests)
		binary, err := t.compiled(folder)
		if err != nil {
			return "", false, err
		}
		// Examples have no limit: one that waits for ever would.
		command := exec.Command(binary, "-test.run=^Test", "-test.failfast", "-test.timeout="+limit.String())
		command.Dir = folder
		// A test that fails may leave a process behind.
		command.WaitDelay = time.Second
		// Long, so that a random test does not notice a mutant by luck.
		command.Env = append(os.Environ(), fmt.Sprintf("%s=%d", chosen, number), "STATEKEEL_LONG=4")
		output, err := command.CombinedOutput()
		if err == nil {
			continue
		}
		for _, sign := range []*regexp.Regexp{failedTest, endedEarly} {
			if found := sign.FindSubmatch(output); found != nil {
				return string(found[1]), true, nil
			}
		}
		return "FAILED WITHOUT A TEST\n" + string(output), false, nil
	}
	return survived, false, nil
}

// compiled returns the path of the compiled tests of a folder.
func (t *tests) compiled(folder string) (string, error) {
	if binary, ok := t.binaries[folder]; ok {
		return binary, nil
	}
	binary := filepath.Join(t.folder, fmt.Sprintf("%d.test", len(t.binaries)))
	command := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay", t.overlay, "-o", binary, ".")
	command.Dir = folder
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("tests of %s do not compile with all mutants: %w\n%s", folder, err, output)
	}
	t.binaries[folder] = binary
	return binary, nil
}

const survived = "SURVIVED"
