// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
)

// The owner of a table may keep it locked for as long as it likes. A lock is no wait that virtual time knows,
// so this test runs in real time; it waits for events, and its limits are for a failure only.
func TestLoopBesideALockedTableGoesOnAndStops(t *testing.T) {
	h := harness.New(t, idIndex, nil)
	e := &env{T: t, Env: h, db: h.DB, table: h.Table, target: newTarget(), stop: func() {}}
	e.hook(func(context.Context, call) { time.Sleep(100 * time.Microsecond) })
	cfg := e.config()
	beside(e, &cfg)
	loop, err := reconciler.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)

	const rows = 200
	for id := range uint64(rows) {
		e.writeRows(1, id)
	}
	go func() { ended <- loop.Run(ctx) }()
	wait, stopWait := context.WithTimeout(ctx, time.Minute)
	defer stopWait()
	_, err = loop.WaitFor(wait, reconciler.Attempted, &object{ID: 0})
	require.NoError(t, err)
	// Run needs the lock once, to begin.
	locked := e.db.WriteTxn(e.table)
	defer locked.Abort()
	_, err = loop.WaitAll(wait, reconciler.Applied)
	require.NoError(t, err, "the loop does not go on while the table is locked")
	require.Len(t, e.target.holds(), rows)

	cancel()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the loop does not stop while the table is locked")
	}
}
