// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package series

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

func thisProgram(t *testing.T) string {
	program, err := os.Executable()
	require.NoError(t, err)
	return program
}

func tinyRun(name string) Run {
	return Run{Workload: name, Contender: subject.Floor, Sizes: workload.Tiny()}
}

func TestChildReturnsItsFigures(t *testing.T) {
	run := tinyRun("noop-single")
	run.Profile = filepath.Join(t.TempDir(), "noop.prof")
	figures, err := InChild(thisProgram(t))(t.Context(), run)
	require.NoError(t, err)
	assert.Positive(t, figures.Find("throughput"))
	assert.Equal(t, workload.More, figures[0].Better)

	profile, err := os.Stat(run.Profile)
	require.NoError(t, err)
	assert.Positive(t, profile.Size())
}

func TestFailingChildReportsItsError(t *testing.T) {
	// The floor has no retries: it gives up at the first failure.
	run := tinyRun("failing-100k")
	run.Sizes.Limit = 200 * time.Millisecond
	_, err := InChild(thisProgram(t))(t.Context(), run)
	assert.ErrorContains(t, err, "waited for a first attempt at every row: the run is stuck")

	_, err = InChild(thisProgram(t))(t.Context(), tinyRun("no-such-workload"))
	assert.ErrorContains(t, err, "there is no no-such-workload by floor")
}

func TestChildThatDoesNotStartIsAnError(t *testing.T) {
	_, err := InChild(filepath.Join(t.TempDir(), "nothing"))(t.Context(), tinyRun("idle"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// endless is a run that does not end by itself.
func endless() Run {
	run := Run{Workload: "idle", Contender: subject.Peer, Sizes: workload.Tiny()}
	run.Sizes.Window, run.Sizes.Limit = time.Hour, 2*time.Hour
	return run
}

func TestCancelKillsTheChild(t *testing.T) {
	interrupt := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	run := endless()
	run.Profile = filepath.Join(t.TempDir(), "idle.prof")
	ended := make(chan error)
	go func() {
		_, err := InChild(thisProgram(t))(ctx, run)
		ended <- err
	}()
	// The profile exists once the child has begun the hour that is to be interrupted.
	require.Eventually(t, func() bool {
		_, err := os.Stat(run.Profile)
		return err == nil
	}, time.Minute, time.Millisecond)
	cancel(interrupt)
	assert.ErrorIs(t, <-ended, interrupt, "only after the child has ended")
}

func TestChildEndsWithItsParent(t *testing.T) {
	spec, err := json.Marshal(endless())
	require.NoError(t, err)
	var out bytes.Buffer
	// A parent that ended is a standard input that ended.
	err = Child([]string{string(spec)}, strings.NewReader(""), &out)
	assert.ErrorContains(t, err, "the parent process ended")
	assert.Empty(t, out.String())
}

func TestChildRejectsAnInvalidRun(t *testing.T) {
	assert.ErrorContains(t, Child(nil, strings.NewReader(""), nil), "wants one argument, got 0")
	assert.ErrorContains(t, Child([]string{"{"}, strings.NewReader(""), nil), ChildFlag)
}
