// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/hive/script"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/statekeel/statekeel/reconciler/event"
)

func archive(t *testing.T) *txtar.Archive {
	a, err := txtar.ParseFile("testdata/events.txtar")
	require.NoError(t, err)
	return a
}

func comment(t *testing.T) io.Reader { return bytes.NewReader(archive(t).Comment) }

func newState(t *testing.T) *script.State {
	state, err := script.NewState(t.Context(), t.TempDir(), nil)
	require.NoError(t, err)
	require.NoError(t, state.ExtractFiles(archive(t)))
	return state
}

// lastWords is a job that records when it is stopped.
func lastWords(jobs job.Group, r event.Recorder) {
	jobs.Add(job.OneShot("last-words", func(ctx context.Context, _ cell.Health) error {
		<-ctx.Done()
		r.Event(named("web"), event.Normal("Stopped", "was stopped"))
		return nil
	}))
}
