// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
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
	program := exec.Command(self, "-services", "40", "-endpoints", "3", "-udp-every", "5", "-gap", "100ms", "-changes", "3",
		"-duration", "1s", "-rate", "30", "-json")
	program.Env = append(os.Environ(), asProgram+"=1")
	program.Stderr = os.Stderr
	out, err := program.Output()
	if err != nil {
		t.Fatal(err)
	}
	var f measure.Figures
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if f.First == nil || f.Quiet == nil || f.Churn == nil || f.Restart == nil || f.Memory == nil || f.RestartMemory == nil {
		t.Fatalf("phases are missing: %s", out)
	}
	// A service is an element in one map, with one for each endpoint in the other.
	if w := f.First.Writes; w.NewElements < 40*(3+1) || w.DeletedElements != 0 {
		t.Errorf("the first load wrote %v", w)
	}
	if want := (measure.Writes{Commits: 3, NewElements: 3, DeletedElements: 3}); f.Quiet.Writes != want {
		t.Errorf("%d quiet changes wrote %v", f.Quiet.Count, f.Quiet.Writes)
	}
	if f.Churn.Count != 30 || f.Churn.After != f.First.After || f.Churn.CPUEach <= 0 {
		t.Errorf("many changes: %+v", f.Churn)
	}
	if f.Restart.Writes != (measure.Writes{}) || f.Restart.After != f.First.After {
		t.Errorf("the restart wrote %v, and the kernel has %+v", f.Restart.Writes, f.Restart.After)
	}
	if m := f.Memory; m.Heap <= 0 || m.Heap > m.Now || m.Together <= 0 || m.Child != 0 || f.RestartMemory.Together <= 0 {
		t.Errorf("memory: %+v, after the restart %+v", m, f.RestartMemory)
	}
	if len(f.Versions) != 2 {
		t.Errorf("versions %v", f.Versions)
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
