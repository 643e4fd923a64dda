// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/statekeel/statekeel/benchmarks/kubeproxy/measure"
)

// asProgram makes the test's binary be the program.
const asProgram = "SERVICES_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestKernelHasAll measures the real thing with a real kernel: that fails if the kernel is not as it should be.
func TestKernelHasAll(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a network namespace takes root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := exec.Command(self, "-services", "40", "-endpoints", "3", "-gap", "100ms", "-changes", "3",
		"-duration", "1s", "-rate", "30")
	program.Env = append(os.Environ(), asProgram+"=1")
	program.Stderr = os.Stderr
	out, err := program.Output()
	if err != nil {
		t.Fatal(err)
	}
	// A service is an element in one map, with one for each endpoint in the other: 160. The first sync also writes the 121
	// elements of the constant set, and the table with its sets, chains and rules. A change writes an element and deletes one;
	// a restart on an equal kernel writes nothing.
	for _, line := range []string{
		`/first/impl=services 1 .* CPU-ns .* RSS-MiB 4[34][0-9] writes`,
		`/change/impl=services 1 .* p99-ns .* CPU-ns/change 2 writes/change`,
		`/changes/s=30/impl=services 1 .* p99-ns .* CPU-ns/change 2 writes/change`,
		`/restart/impl=services 1 .* CPU-ns .* RSS-MiB 0 writes`,
	} {
		want := regexp.MustCompile(`(?m)^BenchmarkServices/of=40x3` + line)
		if !want.Match(out) {
			t.Errorf("no line is like %s:\n%s", want, out)
		}
	}
}

// TestTurnsAreMeasured makes changes twice, with a library that has in-force times, of which the command is told otherwise.
func TestTurnsAreMeasured(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a network namespace takes root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := exec.Command(self, "-services", "10", "-endpoints", "2", "-gap", "50ms", "-changes", "0", "-duration", "500ms",
		"-turns", "-in-force=false")
	program.Env = append(os.Environ(), asProgram+"=1")
	program.Stdin = strings.NewReader("\n\n")
	var messages strings.Builder
	program.Stderr = &messages
	out, err := program.Output()
	if n := strings.Count(string(out), "CPU-ns/change"); n != 2 {
		t.Errorf("there are %d turns:\n%s", n, out)
	}
	if want := "-in-force is false, and the library has "; err == nil || !strings.Contains(messages.String(), want) {
		t.Errorf("%v: no line has %q:\n%s", err, want, &messages)
	}
}

// TestServiceThatRejectsIsNotThere reads an element that makes connections be refused: all services of the workload have
// endpoints that are ready.
func TestServiceThatRejectsIsNotThere(t *testing.T) {
	layout := new(contender).Layout()
	key := []byte{6, 0, 0, 0, 10, 96, 0, 1, 0, 80, 0, 0}
	if a, ok := layout.Service(measure.Element{Set: []byte("services"), Key: key}); !ok || a.String() != "10.96.0.1:80" {
		t.Errorf("the service is %v, %v", a, ok)
	}
	if a, ok := layout.Service(measure.Element{Set: []byte("empty"), Key: key}); ok {
		t.Errorf("a service that rejects is taken for %v", a)
	}
}
