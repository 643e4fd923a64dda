// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

// TestMain runs the test binary as the child process too, as the program does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == series.ChildFlag {
		os.Exit(run())
	}
	// With -race a process waits a second before it exits: children need not.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func TestFlagErrorsNameTheValidNames(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"-workloads noop-single,nope", []string{`unknown workload "nope"; known are noop-single, noop-batch, `, "refresh, refresh-batch, idle, restart-equal, restart-1-percent, resync, slow-1ms, "}},
		{"-contenders peer", []string{`unknown contender "peer"; known are statekeel, statekeel+inf, statekeel-2, `, "statekeel+bare, statekeel+beside, statekeel+beside-8, statedb/reconciler, "}},
		{"-runs -1", []string{"-runs -1: must not be negative"}},
		{"-runs -1 -workloads x -contenders y", []string{"-runs -1", `"x"`, `"y"`}},
		{"noop-single", []string{`unexpected argument "noop-single"`}},
		{"-fast", []string{"-fast"}},
	} {
		_, err := parse(strings.Fields(c.args), io.Discard)
		for _, want := range c.want {
			assert.ErrorContains(t, err, want, c.args)
		}
	}
}

func TestHelpDoesNotMentionTheChild(t *testing.T) {
	var usage strings.Builder
	_, err := parse([]string{"-h"}, &usage)
	assert.ErrorIs(t, err, flag.ErrHelp)
	assert.Contains(t, usage.String(), "-workloads names")
	assert.NotContains(t, usage.String(), "child")
}

func TestFlagsSelectTheRuns(t *testing.T) {
	cfg, err := parse(nil, io.Discard)
	require.NoError(t, err)
	assert.Len(t, cfg.workloads, len(workload.All()))
	assert.Len(t, cfg.contenders, len(subject.Contenders()))
	assert.Zero(t, cfg.runs, "as often as the workload says")
	assert.Equal(t, workload.Full(), cfg.sizes)

	cfg, err = parse([]string{"-quick", "-workloads", "idle, delete", "-contenders", "floor"}, io.Discard)
	require.NoError(t, err)
	require.Len(t, cfg.workloads, 2)
	assert.Equal(t, "delete", cfg.workloads[0].Name, "in the order of the catalogue")
	assert.Equal(t, []string{"floor"}, cfg.contenders)
	assert.Equal(t, 1, cfg.runs)
	assert.Equal(t, workload.Quick(), cfg.sizes)

	cfg, err = parse([]string{"-quick", "-runs", "4"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 4, cfg.runs)
}

// tiny returns the configuration of the flags, at the smallest sizes.
func tiny(t *testing.T, args ...string) config {
	cfg, err := parse(args, io.Discard)
	require.NoError(t, err)
	cfg.sizes = workload.Tiny()
	return cfg
}

func TestSeriesPrintsJSON(t *testing.T) {
	var out, messages bytes.Buffer
	cfg := tiny(t, "-workloads", "noop-single", "-contenders", "statekeel,floor", "-runs", "2", "-json")
	require.NoError(t, cfg.measure(t.Context(), &out, &messages))

	var figures, ratios int
	for line := range strings.Lines(out.String()) {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &object), line)
		assert.Equal(t, "noop-single", object["workload"])
		if _, isRatio := object["ratio_of"]; isRatio {
			ratios++
			assert.Equal(t, "statekeel", object["ratio_of"])
			assert.Equal(t, "floor", object["ratio_to"])
			continue
		}
		figures++
		assert.EqualValues(t, 2, object["runs"])
	}
	assert.Equal(t, 2*5, figures, "five metrics of each contender")
	assert.Positive(t, ratios)
	assert.Contains(t, messages.String(), "run 2 of 2: noop-single by floor")
}

func TestSeriesWritesReportAndProfiles(t *testing.T) {
	dir := t.TempDir()
	profiles := filepath.Join(dir, "profiles")
	cfg := tiny(t, "-workloads", "statusset-1,latency-b2b", "-contenders", "statekeel,statedb/reconciler", "-runs", "1",
		"-report", filepath.Join(dir, "page.md"), "-cpuprofile", profiles)
	var out bytes.Buffer
	require.NoError(t, cfg.measure(t.Context(), &out, io.Discard))
	assert.Contains(t, out.String(), "latency-b2b\n")
	assert.Contains(t, out.String(), "ratio ")

	page, err := os.ReadFile(filepath.Join(dir, "page.md"))
	require.NoError(t, err)
	assert.Contains(t, string(page), "| [statusset-1](page/statusset-1.json) |")
	assert.FileExists(t, filepath.Join(dir, "page", "statusset-1.json"))
	assert.FileExists(t, filepath.Join(dir, "page.svg"))

	var names []string
	entries, err := os.ReadDir(profiles)
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	assert.Equal(t, []string{
		"latency-b2b.statedb-reconciler.burst.prof", "latency-b2b.statedb-reconciler.latency.prof",
		"latency-b2b.statekeel.burst.prof", "latency-b2b.statekeel.latency.prof",
		"statusset-1.statedb-reconciler.prof", "statusset-1.statekeel.prof",
	}, names)
}

func TestSeriesWithoutRunsIsAnError(t *testing.T) {
	cfg := tiny(t, "-workloads", "refresh", "-contenders", "floor")
	assert.ErrorContains(t, cfg.measure(t.Context(), io.Discard, io.Discard), "none of the contenders takes part")
}

func TestFailedCheckEndsTheSeriesAndNamesTheRun(t *testing.T) {
	cfg := tiny(t, "-workloads", "noop-single", "-contenders", "floor", "-runs", "1")
	cfg.sizes.Limit = time.Nanosecond
	err := cfg.measure(t.Context(), io.Discard, io.Discard)
	assert.ErrorContains(t, err, "noop-single by floor, run 1 of 1: ")
	assert.ErrorContains(t, err, "the run is stuck")
}
