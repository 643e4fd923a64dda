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

// withBreakers returns a breaker for each class of errors. One failure opens it, and its first probe
// comes after an hour.
func withBreakers() reconciler.Option {
	return reconciler.WithBreaker(reconciler.Breaker{
		Failures: 1, Probes: 1, MinInterval: time.Hour, MaxInterval: time.Hour, ByClass: true,
	})
}

// upToColon makes the text of an error up to its first colon the class.
func upToColon(then func(e *env, cfg *reconciler.Config[*object])) func(e *env, cfg *reconciler.Config[*object]) {
	return classed(func(err error) string {
		class, _, _ := strings.Cut(err.Error(), ":")
		return class
	}, then)
}

// openEach inserts objects. The first n fail, each with its own class of errors; the others succeed.
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

// A round neither copies the open breakers nor renders a text for them, however many they are
// (invariant 7 in DESIGN, section 6).
func TestRoundAllocatesNoMoreBesideManyOpenBreakers(t *testing.T) {
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

// allocatedBeside returns how many bytes are allocated to write and apply an object while n breakers
// are open.
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

// Health, Snapshot and Explain name the first ten open breakers, sorted by class, and count the others.
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

		// Explain names the breaker of its object, even if the list omits it.
		x := e.loop.Explain(e.Context(), "20")
		require.Equal(e, inspect.StateTripped, x.State)
		require.Contains(e, x.Why, `the breaker for "server 0020" to close`)
		require.Equal(e, lines(), x.Notes)

		// The text is current after a probe of a listed breaker.
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

// The text of an open breaker has its latest error, even if that error changed no status.
func TestHealthHasTheLatestErrorOfAnOpenBreaker(t *testing.T) {
	everyWayWith(t, upToColon(nil), func(e *env) {
		// Two objects of one class, each with its own text, probe in turn.
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

// BenchmarkRoundBesideOpenBreakers measures the write of an object until it is reconciled, while
// breakers are open whose probes are not due.
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

// unreachable is a target whose first n objects are each on a server of its own, which is down.
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
