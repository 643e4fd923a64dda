// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/statekeel/statekeel/benchmarks/kubeproxy/measure"
)

// figures returns figures in which each time is so many milliseconds.
func figures(ms measure.Millis) *measure.Figures {
	load := measure.Load{Kernel: ms, BelievedFromStart: ms, CPU: ms, Others: 0.5}
	changes := measure.Changes{Count: 7, P50: ms, P99: 2 * ms, Max: 3 * ms, CPUEach: ms}
	return &measure.Figures{
		Shape: measure.Shape{Services: 40, Endpoints: 3}, Versions: map[string]string{"nft": "v1"},
		First: &load, Quiet: &changes, Churn: &changes, Memory: &measure.Memory{Loaded: 10, Most: 20, Together: 30, Heap: 5},
		Restart: &measure.Load{BelievedFromStart: ms, Writes: measure.Writes{NewRules: 1, DeletedRules: 2, NewElements: 4}},
	}
}

func TestTableHasRatios(t *testing.T) {
	text := table([][]*measure.Figures{{figures(2), figures(4), figures(2000)}})
	for _, line := range []string{
		"- Statekeel: nft v1",
		"| 40 of 3 | first sync | 2 ms (50%) | 4 ms (50%) | 0.5 x | 2 s (50%) | 0.001 x |",
		"| 40 of 3 | a quiet change, p50 / p99 / max | 2 ms / 4 ms / 6 ms of 7 (0%) | 4 ms / 8 ms / 12 ms of 7 (0%) | 0.5 x | " +
			"2 s / 4 s / 6 s of 7 (0%) | 0.001 x |",
		"| 40 of 3 | RSS at most, with processes that it started | 30 MiB | 30 MiB | 1 x | 30 MiB | 1 x |",
		"| 40 of 3 | writes of it: rules / sets / elements | 3 / 0 / 4 | 3 / 0 / 4 | | 3 / 0 / 4 | |",
	} {
		if !slices.Contains(strings.Split(text, "\n"), line) {
			t.Errorf("the table has no line %q:\n%s", line, text)
		}
	}
}

// TestRatioOfQuietChanges has figures of as many changes as each contender gets: the p99 of ten is the longest one.
func TestRatioOfQuietChanges(t *testing.T) {
	many, few := figures(2), figures(4)
	many.Quiet = &measure.Changes{Count: 200, P50: 2, P99: 10, Max: 40}
	few.Quiet = &measure.Changes{Count: 10, P50: 4, P99: 40, Max: 40}
	want := "| 2 ms / 10 ms / 40 ms of 200 (0%) | 4 ms / 40 ms / 40 ms of 10 (0%) | 0.5 x |"
	if text := table([][]*measure.Figures{{many, few, few}}); !strings.Contains(text, want) {
		t.Errorf("the table has no %q:\n%s", want, text)
	}
}

func TestKeptFiguresAreNotMeasuredAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	out, err := json.Marshal(figures(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := contenders[0].figures(t.Context(), "no such folder", 40, 0, file)
	if err != nil || f.First.Kernel != 2 {
		t.Errorf("%+v, %v", f, err)
	}
}
