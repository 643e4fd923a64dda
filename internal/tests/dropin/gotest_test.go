// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package dropin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/exported"
)

// testRun is the result of one "go test -json".
type testRun struct {
	passed bool
	// output is the output outside of tests: of the compiler, of TestMain, of a crash.
	output string
	// tests are the tests that were started, by full name.
	tests map[string]*testResult
}

// testResult is the result of one test. A test that was skipped or ended by a crash did not pass.
type testResult struct {
	// passed reports whether the last run passed.
	passed bool
	// passes counts the runs that passed; with -count there are several.
	passes int
	// output is the output of the last run and of all earlier runs that did not pass.
	output string
	// transcript has the records of all runs.
	transcript []string
	// kept is the length of the output of the earlier runs that did not pass.
	kept int
}

// testEvent is a line of "go test -json"; see "go doc test2json".
type testEvent struct {
	Action, Test, Output, Key, Value string
}

// runPrograms runs the programs with "go test" and additional arguments.
func runPrograms(t *testing.T, args ...string) testRun {
	t.Helper()
	return runTests(t, slices.Concat([]string{"-count=1", "-timeout=5m"}, args, []string{"./" + programsDir})...)
}

// runTests runs the tests of one package with "go test" and additional arguments.
func runTests(t *testing.T, args ...string) testRun {
	t.Helper()
	args = slices.Concat([]string{"test", "-json", "-vet=off"}, exported.BuildFlags(), args)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("go %s: %s", strings.Join(args, " "), err)
	}
	run := parseEvents(t, &stdout)
	run.passed = run.passed && err == nil
	run.output += stderr.String()
	return run
}

// parseEvents reads the output of "go test -json" of one package.
func parseEvents(t *testing.T, events io.Reader) testRun {
	t.Helper()
	run := testRun{tests: map[string]*testResult{}}
	for decoder := json.NewDecoder(events); ; {
		var e testEvent
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			return run
		}
		require.NoError(t, err)
		if e.Test == "" {
			run.output += e.Output
			run.passed = run.passed || e.Action == "pass"
			continue
		}
		test := run.tests[e.Test]
		if test == nil {
			test = &testResult{}
			run.tests[e.Test] = test
		}
		switch e.Action {
		case "run":
			if test.passed {
				test.output = test.output[:test.kept]
			}
			test.passed, test.kept = false, len(test.output)
		case "output":
			test.output += e.Output
		case "pass":
			test.passed = true
			test.passes++
		case "attr":
			if e.Key == "transcript" {
				test.transcript = append(test.transcript, e.Value)
			}
		}
	}
}

// children returns the names of the direct subtests of a test, sorted; for "" those of the top-level tests.
func (run testRun) children(parent string) []string {
	prefix := ""
	if parent != "" {
		prefix = parent + "/"
	}
	var names []string
	for name := range run.tests {
		rest, found := strings.CutPrefix(name, prefix)
		if found && !strings.Contains(rest, "/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
