// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package follow_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/follow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type row struct {
	name  string
	value int
}

func (r *row) TableHeader() []string { return []string{"Name"} }
func (r *row) TableRow() []string    { return []string{r.name} }

// env is a followed table in a bubble of virtual time.
type env struct {
	*testing.T
	db    *statedb.DB
	table statedb.RWTable[*row]
	rows  *follow.Table[*row]
}

func inBubble(t *testing.T, test func(e *env)) {
	synctest.Test(t, func(t *testing.T) {
		e := &env{T: t, db: statedb.New()}
		require.NoError(t, e.db.Start())
		defer func() { require.NoError(t, e.db.Stop()) }()
		var err error
		e.table, err = statedb.NewTable(e.db, "rows", statedb.Index[*row, string]{
			Name: "name", FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.name)) },
			FromKey: index.String, Unique: true,
		})
		require.NoError(t, err)
		e.put(1, "a")
		e.rows, err = follow.New(e.db, e.table)
		require.NoError(t, err)
		defer e.rows.Close()
		test(e)
	})
}

func (e *env) put(value int, names ...string) {
	wtxn := e.db.WriteTxn(e.table)
	defer wtxn.Commit()
	for _, name := range names {
		_, _, err := e.table.Insert(wtxn, &row{name, value})
		require.NoError(e, err)
	}
}

func (e *env) remove(name string) {
	wtxn := e.db.WriteTxn(e.table)
	defer wtxn.Commit()
	_, _, err := e.table.Delete(wtxn, &row{name: name})
	require.NoError(e, err)
}

// read returns the names of the rows of up to n changes, and whether there may be more.
func (e *env) read(n int) (names []string, more bool) {
	changes, watch := e.rows.Next()
	for change := range changes {
		name := e.rows.Key(change.Object)
		if change.Deleted {
			name = "no " + name
		}
		names = append(names, name)
		if n--; n == 0 {
			break
		}
	}
	select {
	case <-watch:
		return names, true
	default:
		return names, false
	}
}

// requireRead requires the next changes to be these, and no others.
func (e *env) requireRead(want ...string) {
	e.Helper()
	var names []string
	for more := true; more; {
		var some []string
		some, more = e.read(1000)
		names = append(names, some...)
	}
	require.Equal(e, want, names)
}

func TestRowsAtTheStartAndLaterChangesAreRead(t *testing.T) {
	inBubble(t, func(e *env) {
		e.requireRead("a")
		e.put(1, "b")
		e.put(2, "a")
		e.put(3, "a")
		e.requireRead("b", "a")
		e.remove("a")
		time.Sleep(time.Minute) // deleted rows are collected meanwhile
		e.requireRead("no a")
		require.False(e, e.rows.Closed())
		e.rows.Close()
		e.rows.Close()
		require.True(e, e.rows.Closed())
	})
}

func TestChangesThatWereNotReadComeNext(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, "b", "c")
		names, more := e.read(1)
		require.Equal(e, []string{"a"}, names)
		require.True(e, more)
		e.put(2, "b")
		e.requireRead("c", "b")
	})
}

func TestWaitEndsForAChangeAFailureOrTheContext(t *testing.T) {
	inBubble(t, func(e *env) {
		e.requireRead("a")
		_, watch := e.rows.Next()
		waits := func(ctx context.Context) time.Duration {
			from := e.rows.Now()
			e.rows.Wait(ctx, watch)
			return e.rows.Now() - from
		}
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		require.Equal(e, time.Second, waits(ctx))

		now := e.rows.Now()
		e.rows.Keep("a", statedb.Change[*row]{}, errNo, now, follow.After(now, time.Minute))
		require.Equal(e, time.Minute, waits(e.Context()))
		require.Len(e, e.rows.TakeDue(e.rows.Now(), 1), 1)

		time.AfterFunc(time.Hour, func() { e.put(2, "a") })
		require.Equal(e, time.Hour, waits(e.Context()))
	})
}

// teller is a health that records reports.
type teller struct {
	cell.Health
	told []string
}

func (h *teller) OK(message string) { h.told = append(h.told, message) }
func (h *teller) Degraded(message string, err error) {
	h.told = append(h.told, message+": "+err.Error())
}

func TestReportIsMadeOnlyWhenErrorsChange(t *testing.T) {
	inBubble(t, func(e *env) {
		e.rows.Report() // no health is set
		h := &teller{}
		e.rows.SetHealth(h)
		const ok = `OK, following table "rows"`
		report := func(want ...string) {
			e.Helper()
			h.told = nil
			e.rows.Report()
			require.Equal(e, want, h.told)
		}
		report(ok)
		report()
		e.rows.Keep("a", statedb.Change[*row]{Revision: 1}, errNo, 0, 10)
		report("1 error(s): no")
		e.rows.Keep("a", statedb.Change[*row]{Revision: 1}, errNo, 10, 20)
		report()
		e.rows.Forget("a", 2)
		report(ok)
		e.rows.SetHealth(h)
		report(ok)
	})
}

type change = statedb.Change[string]

var errNo = errors.New("no")

func at(revision statedb.Revision) change {
	return change{Object: fmt.Sprint("version ", revision), Revision: revision}
}

func TestLongestWaitDoesNotOverflow(t *testing.T) {
	require.EqualValues(t, 30, follow.After(10, 20))
	require.EqualValues(t, math.MaxInt64, follow.After(10, math.MaxInt64))
	k := follow.NewKept[string]()
	k.Keep("a", at(1), errNo, 10, follow.After(10, math.MaxInt64))
	require.True(t, k.Supersede("a", at(2), math.MaxInt64))
	require.Empty(t, k.TakeDue(math.MaxInt64-1, 1))
}

// There is at most one kept change for a row, the last that was kept or superseded it, and it is due
// at the time that was given for it.
func TestRandomWalkOfKeptChanges(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	type model struct {
		change    change
		last, due time.Duration
		waits     bool
		failures  int
	}
	k, want := follow.NewKept[string](), map[string]*model{}
	var now time.Duration
	for revision := range statedb.Revision(20_000) {
		now += time.Duration(dice.IntN(5))
		key := fmt.Sprint(dice.IntN(20))
		m := want[key]
		switch dice.IntN(4) {
		case 0:
			if m == nil {
				m = &model{}
				want[key] = m
			}
			m.change, m.last, m.due, m.waits = at(revision), now, now+time.Duration(dice.IntN(30)), true
			m.failures++
			k.Keep(key, m.change, errNo, now, m.due)
		case 1:
			waits := m != nil && m.waits
			require.Equal(t, waits, k.Supersede(key, at(revision), 7))
			if waits {
				m.change, m.due = at(revision), m.last+7
			}
		case 2:
			most := dice.IntN(5)
			taken := k.TakeDue(now, most)
			require.LessOrEqual(t, len(taken), most)
			last := time.Duration(0)
			for _, c := range taken {
				found := false
				for _, m := range want {
					if m.change == c {
						require.True(t, m.waits && m.due <= now && m.due >= last)
						m.waits, found, last = false, true, m.due
					}
				}
				require.True(t, found)
			}
		default:
			dealt := statedb.Revision(dice.Uint64N(revision + 1))
			if m != nil && dice.IntN(2) == 0 {
				dealt = m.change.Revision
			}
			if m != nil && (m.change.Revision < dealt || m.change.Revision == dealt && !m.waits) {
				delete(want, key)
			}
			k.Forget(key, dealt)
		}
		require.Equal(t, len(want), k.Len())
		next, waits := time.Duration(math.MaxInt64), false
		for key, m := range want {
			require.Equal(t, m.failures, k.Failures(key))
			if m.waits {
				next, waits = min(next, m.due), true
			}
		}
		due, ok := k.NextDue()
		require.Equal(t, waits, ok)
		if waits {
			require.Equal(t, next, due)
		}
		require.Equal(t, len(want) > 0, k.Errors() != nil)
	}
}
