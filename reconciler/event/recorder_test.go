// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// env is a table recorder in a bubble of virtual time.
type env struct {
	*testing.T
	db       *statedb.DB
	table    statedb.RWTable[*event.Row]
	recorder *event.TableRecorder
	log      *strings.Builder
}

// inTable runs a test with a recorder that is not running yet.
func inTable(t *testing.T, test func(e *env)) {
	synctest.Test(t, func(t *testing.T) {
		e := &env{T: t, db: reconcilertest.NewDB(t), log: &strings.Builder{}}
		table, err := event.NewTable(e.db)
		require.NoError(t, err)
		e.table = table
		e.recorder = event.NewTableRecorder(e.db, table, slog.New(slog.NewTextHandler(e.log, nil)))
		test(e)
	})
}

// run runs the recorder until stop is called, which waits for its end.
func (e *env) run() (stop func()) { return reconcilertest.Go(e, e.recorder.Run) }

// written waits until all events are written.
func (e *env) written() {
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

// rows returns the table as one line for each row.
func (e *env) rows() (all []string) {
	for row := range e.table.All(e.db.ReadTxn()) {
		all = append(all, strings.Join(row.TableRow(), " | "))
	}
	return all
}

func TestRepeatedEventsAreFolded(t *testing.T) {
	inTable(t, func(e *env) {
		defer e.run()()
		start := time.Now()
		e.recorder.Event(named("web"), event.Normal("Created", "made it"))
		e.recorder.Event(named("web"), event.Normal("Created", "made it"))
		e.written()
		time.Sleep(time.Minute)
		e.recorder.Event(named("web"), event.Normal("Created", "made it again"))
		e.written()

		require.Equal(e, []*event.Row{{
			Namespace: "prod", Name: "web", Type: event.TypeNormal, Reason: "Created", Message: "made it again",
			Count: 3, First: start, Last: start.Add(time.Minute + 100*time.Millisecond),
		}}, statedb.Collect(e.table.All(e.db.ReadTxn())))
	})
}

// errText is an error with a text.
type errText string

func (e errText) Error() string { return string(e) }

func TestEventNeverBlocks(t *testing.T) {
	inTable(t, func(e *env) {
		defer e.run()()
		wtxn := e.db.WriteTxn(e.table)
		for i := range 10 * 1024 { // more than can be pending
			e.recorder.Event(nth(i), event.Normal("Created", "made it"))
		}
		wtxn.Abort()
		e.written()
		require.Len(e, e.rows(), 1000)
		require.Contains(e, e.log.String(), fmt.Sprint("dropped=", 9*1024))
	})
}

func TestManyEventsAreFewTransactions(t *testing.T) {
	inTable(t, func(e *env) {
		defer e.run()()
		for i := range 1000 {
			e.recorder.Event(named("web"), event.Normal("Created", "made it"))
			e.recorder.Event(nth(i%3), event.Normal("Created", "made it"))
			time.Sleep(time.Millisecond)
		}
		e.written()
		require.Len(e, e.rows(), 4)
		// One revision for each row of a transaction.
		require.LessOrEqual(e, e.table.Revision(e.db.ReadTxn()), uint64(4*(1000/20+1)))
	})
}

func TestRowsNotRepeatedForLongestAreDeleted(t *testing.T) {
	inTable(t, func(e *env) {
		defer e.run()()
		record := func(from, to int) {
			for i := from; i < to; i++ {
				e.recorder.Event(nth(i), event.Normal("Created", "made it"))
			}
			e.written()
		}
		has := func(i int) bool {
			return slices.ContainsFunc(statedb.Collect(e.table.All(e.db.ReadTxn())), func(r *event.Row) bool { return r.Name == nth(i).Name })
		}
		record(0, 1000)
		require.Len(e, e.rows(), 1000)
		record(0, 1) // it is repeated, so the next one is the oldest
		record(1000, 1001)
		require.Len(e, e.rows(), 1000)
		require.True(e, has(0))
		require.False(e, has(1))
		record(2000, 3000)
		require.Len(e, e.rows(), 1000)
		require.False(e, has(0))
		require.True(e, has(2000))
		require.Empty(e, e.log.String())
	})
}

func TestEventsBeyondWhatMayBePendingAreDroppedAndCounted(t *testing.T) {
	inTable(t, func(e *env) {
		for i := range 1024 + 3 {
			e.recorder.Event(nth(i), event.Normal("Created", "made it"))
			e.recorder.Event(nth(0), event.Normal("Created", "made it")) // fits: its row is pending already
		}
		stop := e.run()
		e.written()
		require.Len(e, e.rows(), 1000)
		require.Contains(e, e.log.String(), "dropped=3\n")

		e.recorder.Event(nth(5000), event.Normal("Created", "made it"))
		stop()
		require.Contains(e, e.rows(), "prod/web5000 | Normal | Created | 1 | 2000-01-01T00:00:00.100Z | made it")
		require.Equal(e, 1, strings.Count(e.log.String(), "\n"), "logged once: %s", e.log)
	})
}

func TestATableRecorderIsSafeForConcurrentUse(t *testing.T) {
	inTable(t, func(e *env) {
		stop := e.run()
		from := event.From(e.recorder, "tunnels")
		inParallel(8, 100, func(i int) {
			from.Event(nth(i%5), event.Normal("Created", "made it"))
			time.Sleep(time.Duration(i%7) * time.Millisecond)
		})
		stop()
		total := uint64(0)
		for row := range e.table.All(e.db.ReadTxn()) {
			total += row.Count
			require.False(e, row.Last.Before(row.First))
		}
		require.Equal(e, uint64(800), total)
		require.Len(e, e.rows(), 5)
	})
}

func TestUnprintableTextsAreEscapedInTheTable(t *testing.T) {
	inTable(t, func(e *env) {
		defer e.run()()
		e.recorder.Event(&object.Meta{Name: "a\x1b[2J"}, event.Normal("r\n", "two\nlines\x07"))
		e.written()
		require.Equal(e, []string{`a\x1b[2J | Normal | r\n | 1 | 2000-01-01T00:00:00.000Z | two\nlines\a`}, e.rows())
	})
}

// hook is a log handler that calls a function.
type hook struct {
	slog.Handler
	do func()
}

func (h hook) Handle(context.Context, slog.Record) error {
	h.do()
	return nil
}

func TestEventsRecordedDuringTheLastWriteAreWritten(t *testing.T) {
	inTable(t, func(e *env) {
		ctx, stop := context.WithCancel(e.Context())
		var r *event.TableRecorder
		// It is called between the last take of the pending events and the end of the recorder.
		log := slog.New(hook{slog.NewTextHandler(e.log, nil), func() {
			r.Event(named("last"), event.Normal("Created", "made it"))
			stop()
		}})
		r = event.NewTableRecorder(e.db, e.table, log)
		for i := range 1025 { // one is dropped, which is logged
			r.Event(nth(i), event.Normal("Created", "made it"))
		}
		require.NoError(e, r.Run(ctx))
		require.Contains(e, strings.Join(e.rows(), "\n"), "prod/last", "it was recorded before the context ended")
	})
}
