// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

// atStop is a log handler that calls do: in this test between the last take of the pending events
// and the end of the recorder.
type atStop struct {
	slog.Handler
	do func()
}

func (a atStop) Handle(context.Context, slog.Record) error {
	a.do()
	return nil
}

func TestEventsRecordedDuringTheLastWriteAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := statedb.New()
		table, err := event.NewTable(db)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var r *event.TableRecorder
		log := slog.New(atStop{slog.NewTextHandler(&strings.Builder{}, nil), func() {
			r.Event(named("last"), event.Normal("Created", "made it"))
			stop()
		}})
		r, err = event.NewTableRecorder(db, table, log, event.TableConfig{MaxPending: 1})
		require.NoError(t, err)
		r.Event(nth(0), event.Normal("Created", "made it"))
		r.Event(nth(1), event.Normal("Created", "made it")) // dropped, which is logged after the write
		require.NoError(t, r.Run(ctx))
		_, _, found := table.Get(db.ReadTxn(), event.ByKey(event.RowKey{
			Object: object.KeyOf(named("last")), Type: event.TypeNormal, Reason: "Created", Message: "made it",
		}))
		require.True(t, found, "recorded before the context ended")
	})
}
