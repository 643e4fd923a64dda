// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// withBreakers is a breaker for each class of errors, which one failure opens, and which
// probes for the first time after an hour.
func withBreakers() reconciler.Option {
	return reconciler.WithBreaker(reconciler.Breaker{
		Failures: 1, Probes: 1, MinInterval: time.Hour, MaxInterval: time.Hour, ByClass: true,
	})
}

// upToColon makes the class of an error be its text up to a colon.
func upToColon(then func(e *env, cfg *reconciler.Config[*object])) func(e *env, cfg *reconciler.Config[*object]) {
	return classed(func(err error) string {
		class, _, _ := strings.Cut(err.Error(), ":")
		return class
	}, then)
}

// openEach has objects in the table of which the first n fail with a class of errors each.
// Others succeed.
func (e *env) openEach(n, objects uint64) {
	e.target.deciding(func(c call) error {
		if c.id <= n {
			return fmt.Errorf("server %04d: no route", c.id)
		}
		return nil
	})
	e.put(1, ids(1, objects)...)
	e.pass(time.Second)
	require.Equal(e, int(n), e.loop.Figures().BreakersOpen)
}

// A round copies nothing of the open breakers and renders no text for them, however many they
// are (DESIGN section 6, no. 7).
func TestRoundAllocatesTheSameHoweverManyBreakersAreOpen(t *testing.T) {
	for _, kind := range []string{"single", "batches"} {
		for _, workers := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, %d worker(s)", kind, workers), func(t *testing.T) {
				few, many := allocatedBeside(t, kind, workers, 10), allocatedBeside(t, kind, workers, 5000)
				t.Logf("%d bytes a change with 10 open breakers, %d with 5000", few, many)
				require.Less(t, many, few+2000)
			})
		}
	}
}

// allocatedBeside returns how many bytes it takes to write an object and to apply it while n
// breakers are open.
func allocatedBeside(t *testing.T, kind string, workers int, n uint64) (bytes uint64) {
	const objects, changes = 5000, 20
	inBubble(t, func(e *env) {
		e.openEach(n, objects)
		write := func() {
			e.put(1, objects+1)
			synctest.Wait()
		}
		write()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range changes {
			write()
		}
		runtime.ReadMemStats(&after)
		require.Equal(e, reconciler.StatusKindDone, e.kind(objects+1))
		bytes = (after.TotalAlloc - before.TotalAlloc) / changes
	}, upToColon(operate(kind)), withBreakers(), reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
	return bytes
}

// Health, Snapshot and Explain name ten open breakers, the first by class, and count the
// others.
func TestManyOpenBreakersAreNamedInPart(t *testing.T) {
	everyWayWith(t, upToColon(nil), func(e *env) {
		e.openEach(25, 25)
		lines := func() []string {
			_, _, err := e.health.Now()
			return strings.Split(err.Error(), "\n")
		}
		require.Len(e, lines(), 11)
		require.Contains(e, lines()[0], `breaker for "server 0001" open since `)
		require.Contains(e, lines()[9], `breaker for "server 0010" open since `)
		require.Equal(e, "15 further breakers omitted", lines()[10])

		snapshot := e.loop.Snapshot(e.Context())
		require.Equal(e, lines()[:10], snapshot.Breakers)
		require.Equal(e, 15, snapshot.BreakersOmitted)
		require.Contains(e, snapshot.Summary(), "25 breaker(s) open")
		require.Contains(e, snapshot.String(), "15 further breakers omitted")

		// An object is explained by its own breaker, named or not.
		x := e.loop.Explain(e.Context(), "20")
		require.Equal(e, inspect.StateTripped, x.State)
		require.Contains(e, x.Why, `the breaker for "server 0020" to close`)
		require.Equal(e, lines(), x.Notes)

		// The text follows what the breakers that it names come to.
		e.target.deciding(func(c call) error {
			switch {
			case c.id == 1:
				return errors.New("server 0001: refused")
			case c.id <= 20:
				return nil
			}
			return fmt.Errorf("server %04d: no route", c.id)
		})
		e.pass(time.Hour)
		require.Len(e, lines(), 6)
		require.True(e, strings.HasSuffix(lines()[0], ": server 0001: refused"), lines()[0])
		require.Contains(e, lines()[1], "server 0021")
		require.Zero(e, e.loop.Snapshot(e.Context()).BreakersOmitted)
	}, withBreakers())
}

// Every text that a reader gets of a breaker is the latest error's, also if that came without
// the status of an object changing.
func TestHealthHasTheLatestErrorOfAnOpenBreaker(t *testing.T) {
	everyWayWith(t, upToColon(nil), func(e *env) {
		// Two objects of one class, each with a text of its own, probe in turn.
		e.target.deciding(func(c call) error { return fmt.Errorf("class: of %d", c.id) })
		e.put(1, 1, 2)
		e.pass(time.Second)
		seen := map[string]bool{}
		for range 4 {
			_, _, err := e.health.Now()
			seen[err.Error()[strings.LastIndex(err.Error(), " ")+1:]] = true
			e.pass(time.Hour)
		}
		require.Equal(e, map[string]bool{"1": true, "2": true}, seen)
	}, withBreakers())
}

// BenchmarkRoundBesideOpenBreakers is what it costs to write an object and to have it
// reconciled while breakers are open whose probes are not due.
func BenchmarkRoundBesideOpenBreakers(b *testing.B) {
	const objects = 5000
	for _, n := range []uint64{0, 1000, objects} {
		b.Run(fmt.Sprintf("open=%d", n), func(b *testing.B) {
			db := statedb.New()
			require.NoError(b, db.Start())
			defer func() { require.NoError(b, db.Stop()) }()
			table, err := statedb.NewTable(db, "objects", idIndex)
			require.NoError(b, err)
			l, err := reconciler.New(reconciler.Config[*object]{
				DB: db, Table: table, Operations: &unreachable{n: n}, Clone: (*object).Clone,
				SetStatus: (*object).SetStatus, GetStatus: (*object).GetStatus,
				Options: []reconciler.Option{
					reconciler.WithoutPruning(), reconciler.WithRefreshing(0, nil), withBreakers(),
				},
			})
			require.NoError(b, err)
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- l.Run(ctx) }()
			write := func(ids ...uint64) {
				wtxn := db.WriteTxn(table)
				for _, id := range ids {
					_, _, err := table.Insert(wtxn, &object{ID: id, Status: reconciler.StatusPending()})
					require.NoError(b, err)
				}
				revision := table.Revision(wtxn.Commit())
				_, _, err := l.WaitUntilReconciled(ctx, revision)
				require.NoError(b, err)
			}
			write(ids(1, objects)...)
			b.ReportAllocs()
			for b.Loop() {
				write(objects + 1)
			}
			stop()
			require.NoError(b, <-ended)
		})
	}
}

// unreachable is a target of which the first n objects are on a server each that is down.
type unreachable struct {
	idle
	n uint64
}

func (x *unreachable) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, o *object) error {
	if o.ID <= x.n {
		return fmt.Errorf("server %04d: no route", o.ID)
	}
	return nil
}
