// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// A transaction has a snapshot of all tables. While an operation is stuck, the loop does not keep a
// transaction that the operation no longer uses: writes of other tables take no more memory than
// without the stuck operation.
func TestStuckOperationKeepsNoSnapshot(t *testing.T) {
	for _, kind := range operationKinds {
		t.Run(kind.name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				others, err := statedb.NewTable(e.db, "others", idIndex)
				require.NoError(e, err)
				write := func(o *object) {
					wtxn := e.db.WriteTxn(others)
					_, _, err := others.Insert(wtxn, o)
					require.NoError(e, err)
					wtxn.Commit()
				}
				old := &object{ID: 1, Note: "old"}
				write(old)
				kept := weak.Make(old)
				old = nil
				stuck := e.target.stick(1)
				e.put(1, 1)
				e.pass(time.Minute)
				// The loop has rounds with the new snapshots. statedb may keep the one before the
				// last.
				for i := range uint64(3) {
					write(&object{ID: 1, Note: "new"})
					e.put(1, 2+i)
					e.pass(time.Minute)
				}
				for range 3 {
					runtime.GC()
					synctest.Wait()
				}
				require.Nil(e, kept.Value())
				stuck.free(1)
				e.pass(time.Second)
				e.eachDone()
			}, kind.change, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.Timeout = 2, time.Second }), reconciler.WithRoundLimits(1, nil), reconciler.WithoutPruning())
		})
	}
}
