// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/internal/usercall"
	"github.com/statekeel/statekeel/reconciler/source"
)

func TestEqualRowsAreNotWritten(t *testing.T) {
	run(t, func(e *env) {
		const n = 100_000
		s := e.sink("a", nil)
		e.replace(s, n, 1, many(n, "a")...)
		before, input := e.revision(), *e.input("a")
		e.spy.holds, e.spy.inputs = nil, 0
		e.replace(s, 0, 1, many(n, "a")...)
		require.Equal(e, before, e.revision())
		require.Empty(e, e.spy.holds, "the table is not locked")
		require.Zero(e, e.spy.inputs)
		require.Equal(e, input, *e.input("a"))
		e.spy.holds, e.spy.inputs = nil, 0

		e.replace(s, 0, 2, many(n, "a")...)
		require.Equal(e, before, e.revision())
		require.Empty(e, e.spy.holds)
		require.Equal(e, 1, e.spy.inputs, "only that a new revision is included")
		require.EqualValues(e, 2, e.input("a").Input)
		e.apply(s, 0, 3, put(many(1, "a")[0]), remove("none"))
		require.Equal(e, before, e.revision())
	})
}

func TestOnlyDifferencesAreWritten(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.replace(s, 3, 1, &row{Key: "1", Owner: "a"}, &row{Key: "2", Owner: "a"}, &row{Key: "3", Owner: "a"})
		first := e.get("1")
		e.replace(s, 3, 2, &row{Key: "1", Owner: "a"}, &row{Key: "2", Owner: "a", Value: 7}, &row{Key: "4", Owner: "a"})
		require.Equal(e, []row{{Key: "1", Owner: "a"}, {Key: "2", Owner: "a", Value: 7}, {Key: "4", Owner: "a"}}, e.rows())
		require.Same(e, first, e.get("1"))
		e.apply(s, 2, 3, put(&row{Key: "1", Owner: "a"}), put(&row{Key: "2", Owner: "a", Value: 8}), remove("4"), remove("5"))
		require.Equal(e, []row{{Key: "1", Owner: "a"}, {Key: "2", Owner: "a", Value: 8}}, e.rows())
	})
}

func TestRemovalsComeAfterTheWrites(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.replace(s, 1, 1, &row{Key: "1", Owner: "a"})
		wtxn := e.db.WriteTxn(e.table)
		changes, err := e.table.Changes(wtxn)
		require.NoError(e, err)
		defer changes.Close()
		wtxn.Commit()
		e.replace(s, 3, 2, &row{Key: "2", Owner: "a"}, &row{Key: "0", Owner: "a"})
		seq, _ := changes.Next(e.db.ReadTxn())
		var order []string
		for change := range seq {
			order = append(order, fmt.Sprint(change.Object.Key, change.Deleted))
		}
		require.Equal(e, []string{"2false", "0false", "1true"}, order)
	})
}

func TestLastOfSeveralChangesOfAKeyCounts(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.apply(s, 1, 1, put(&row{Key: "1", Owner: "a", Value: 1}), put(&row{Key: "1", Owner: "a", Value: 2}),
			put(&row{Key: "2", Owner: "a"}), remove("2"))
		require.Equal(e, []row{{Key: "1", Owner: "a", Value: 2}}, e.rows())
	})
}

func TestKeyTwiceInAListIsAnErrorAndTheFirstWins(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		n, err := s.Replace(e.Context(), []*row{{Key: "1", Owner: "a", Value: 1}, {Key: "1", Owner: "a", Value: 2}, {Key: "2", Owner: "a"}}, 1)
		require.EqualError(e, err, `source "a" of table "rows": 1 is in the list twice, the first one counts`)
		require.Equal(e, 2, n)
		require.Equal(e, 1, e.get("1").Value)
		require.Equal(e, 1, s.State().Rejected)
		require.EqualValues(e, 1, s.State().Input, "the list is in")
	})
}

func TestRowsOfAnotherSourceAreLeftAlone(t *testing.T) {
	run(t, func(e *env) {
		a, b := e.sink("a", nil), e.sink("b", nil)
		e.write(&row{Key: "0", Owner: "by hand"})
		e.replace(a, 2, 1, &row{Key: "1", Owner: "a"}, &row{Key: "2", Owner: "a"})
		e.replace(b, 1, 1, &row{Key: "3", Owner: "b"})
		e.replace(a, 1, 2, &row{Key: "1", Owner: "a"})

		n, err := b.Replace(e.Context(), []*row{{Key: "1", Owner: "b", Value: 7}, {Key: "4", Owner: "b"}, {Key: "5", Owner: "c"}}, 2)
		require.EqualError(e, err, "source \"b\" of table \"rows\": 1: the row belongs to \"a\"\n5: the object belongs to \"c\", not to this source")
		require.Equal(e, 2, n, "the others are applied")
		require.Equal(e, []row{{Key: "0", Owner: "by hand"}, {Key: "1", Owner: "a"}, {Key: "4", Owner: "b"}}, e.rows())
		require.Equal(e, 2, b.State().Rejected)
		require.Equal(e, 2, e.input("b").Rejected)

		n, err = b.Apply(e.Context(), []source.Change[*row]{remove("1"), put(&row{Key: "0", Owner: "b"}), put(&row{Key: "6", Owner: "b"})}, 3)
		require.ErrorContains(e, err, `0: the row belongs to "by hand"`)
		require.ErrorContains(e, err, `1: the row belongs to "a"`)
		require.Equal(e, 1, n)
		require.Equal(e, 2, b.State().Rejected, "5 and 0; the source does not want 1 any more")
		require.Equal(e, 2, e.input("b").Rejected)
		require.Equal(e, []int{1, 2}, []int{a.State().Rows, b.State().Rows})

		n, err = b.Replace(e.Context(), []*row{{Key: "4", Owner: "b"}, {Key: "6", Owner: "b"}}, 4)
		require.NoError(e, err)
		require.Zero(e, n)
		require.Zero(e, b.State().Rejected)
		require.Zero(e, e.input("b").Rejected)
	})
}

func TestListedObjectOfAnotherOwnerKeepsItsRow(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.replace(s, 2, 1, &row{Key: "1", Owner: "a"}, &row{Key: "2", Owner: "a"})
		_, err := s.Replace(e.Context(), []*row{{Key: "1", Owner: "b"}, {Key: "3", Owner: "a"}}, 2)
		require.ErrorContains(e, err, `1: the object belongs to "b"`)
		require.Equal(e, []row{{Key: "1", Owner: "a"}, {Key: "3", Owner: "a"}}, e.rows())
	})
}

func TestWithoutOwnersAllRowsAreTheSources(t *testing.T) {
	run(t, func(e *env) {
		e.write(&row{Key: "0"}, &row{Key: "1", Owner: "x"})
		s := e.sink("a", func(c *source.Config[*row]) { c.Owner = nil })
		require.Equal(e, 2, s.State().Rows)
		e.replace(s, 2, 1, &row{Key: "1", Owner: "y"})
		require.Equal(e, []row{{Key: "1", Owner: "y"}}, e.rows())
	})
}

// While the index of a written row takes a millisecond, a transaction holds the lock for 3 ms, and a
// row.
func TestTableIsLockedForAFewMilliseconds(t *testing.T) {
	run(t, func(e *env) {
		e.spy.indexed = func(*row) { time.Sleep(time.Millisecond) }
		s := e.sink("a", nil)
		between := 0
		e.spy.committed = func() { between++ }
		e.replace(s, 100, 1, many(100, "a")...)
		e.replace(s, 60, 2, many(40, "a")...)
		require.Len(e, e.spy.holds, between)
		require.Greater(e, between, 20)
		for _, hold := range e.spy.holds {
			require.LessOrEqual(e, hold, 4*time.Millisecond)
		}
	})
}

func TestInitialiserEndsWithTheFirstFullList(t *testing.T) {
	run(t, func(e *env) {
		a, b := e.sink("a", nil), e.sink("b", nil)
		require.Equal(e, []string{"a", "b"}, e.table.PendingInitializers(e.db.ReadTxn()))
		e.apply(a, 1, 1, put(&row{Key: "1", Owner: "a"}))
		_, err := a.Replace(e.Context(), nil, 2)
		require.ErrorIs(e, err, source.ErrEmpty)
		require.Equal(e, []string{"a", "b"}, e.table.PendingInitializers(e.db.ReadTxn()))

		_, err = a.Replace(e.Context(), []*row{{Key: "2", Owner: "x"}, {Key: "1", Owner: "a"}}, 3)
		require.Error(e, err)
		require.Equal(e, []string{"b"}, e.table.PendingInitializers(e.db.ReadTxn()), "also with objects in error")
		require.False(e, e.initialized())
		e.replace(b, 0, 1)
		require.True(e, e.initialized(), "an empty list of a source without rows is full")
		e.replace(a, 1, 4, &row{Key: "2", Owner: "a"}, &row{Key: "1", Owner: "a"})
		require.True(e, e.initialized())
	})
}

func TestInitialiserEndsWithTheLastRow(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.spy.indexed = func(*row) { time.Sleep(time.Millisecond) }
		pieces := 0
		e.spy.committed = func() {
			pieces++
			require.Equal(e, e.table.NumObjects(e.db.ReadTxn()) == 30, e.initialized())
		}
		e.replace(s, 30, 1, many(30, "a")...)
		require.Greater(e, pieces, 3)
	})
}

func TestEmptyListIsRefused(t *testing.T) {
	run(t, func(e *env) {
		a, b := e.sink("a", nil), e.sink("b", func(c *source.Config[*row]) { c.AllowEmpty = true })
		e.replace(a, 1, 1, &row{Key: "1", Owner: "a"})
		e.replace(b, 1, 1, &row{Key: "2", Owner: "b"})
		before := e.revision()
		n, err := a.Replace(e.Context(), []*row{}, 2)
		require.ErrorIs(e, err, source.ErrEmpty)
		require.EqualError(e, err, `source "a" of table "rows": the list is empty, and the source has rows: Config.AllowEmpty is false, 1 row(s) stay`)
		require.Zero(e, n)
		require.Equal(e, before, e.revision())
		require.EqualValues(e, 1, e.input("a").Input)
		require.EqualValues(e, 1, a.State().Input)

		e.replace(b, 1, 2)
		require.Equal(e, []row{{Key: "1", Owner: "a"}}, e.rows())
		e.apply(a, 1, 3, put(&row{Key: "3", Owner: "a"}))
		require.EqualValues(e, 1, a.State().Input, "the table does not include what the list said")
	})
}

func TestListOfRejectedObjectsIsRefusedAsAnEmptyOne(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.replace(s, 3, 1, many(3, "a")...)
		e.spy.indexed = func(r *row) {
			if r.Value == unlucky {
				panic("unlucky")
			}
		}
		for _, rejected := range []*row{{Key: "x", Owner: "b"}, {Key: "y", Owner: "a", Value: unlucky}} {
			n, err := s.Replace(e.Context(), []*row{rejected}, 2)
			require.ErrorIs(e, err, source.ErrEmpty)
			require.ErrorContains(e, err, rejected.Key)
			require.Zero(e, n)
			require.Len(e, e.rows(), 3)
			require.EqualValues(e, 1, s.State().Input)
			require.Contains(e, e.told(), "an empty list was refused")
		}
		// What is in error has a row of the source, and nothing is removed: the list is taken.
		_, err := s.Replace(e.Context(), []*row{{Key: "k1000000", Owner: "b"}, {Key: "k1000001", Owner: "b"}, {Key: "k1000002", Owner: "b"}}, 3)
		require.NotErrorIs(e, err, source.ErrEmpty)
		require.EqualValues(e, 3, s.State().Input)

		n, err := s.Clear(e.Context(), 4)
		require.NoError(e, err)
		require.Equal(e, 3, n)
		require.EqualValues(e, 4, s.State().Input)
	})
}

func TestDeletionThatPanicsIsCounted(t *testing.T) {
	run(t, func(e *env) {
		cursed := false
		s := e.sink("a", func(c *source.Config[*row]) {
			c.Owner = func(r *row) string {
				if cursed && r.Value == unlucky {
					panic("unlucky")
				}
				return r.Owner
			}
		})
		e.replace(s, 1, 1, &row{Key: "1", Owner: "a", Value: unlucky})
		cursed = true
		_, err := s.Apply(e.Context(), []source.Change[*row]{remove("1")}, 2)
		require.ErrorContains(e, err, "unlucky")
		require.Equal(e, []int{1, 1}, []int{s.State().Rejected, e.input("a").Rejected})
		cursed = false
		e.apply(s, 1, 3, remove("1"))
		require.Zero(e, s.State().Rejected)
	})
}

func TestHangingFunctionIsNamed(t *testing.T) {
	run(t, func(e *env) {
		for _, what := range []string{"Same", "Merge"} {
			hang := make(chan struct{})
			release := sync.OnceFunc(func() { close(hang) })
			defer release()
			wait := func(now string) {
				if now == what {
					<-hang
				}
			}
			s := e.sink("a", func(c *source.Config[*row]) {
				c.Same = func(r, obj *row) bool { wait("Same"); return sameWish(r, obj) }
				c.Merge = func(r, obj *row) *row { wait("Merge"); return mergeStatus(r, obj) }
			})
			e.write(&row{Key: "1", Owner: "a"})
			_, err := s.Clear(e.Context(), 1)
			require.NoError(e, err)
			e.replace(s, 1, 1, &row{Key: "1", Owner: "a", Value: 1})
			began := time.Now()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = s.Apply(e.Context(), []source.Change[*row]{put(&row{Key: "1", Owner: "a", Value: 2})}, 2)
			}()
			time.Sleep(usercall.LongAfter - 1)
			require.Empty(e, s.State().Running)
			time.Sleep(2 * time.Nanosecond)
			said := what + " of 1 runs since " + text.Stamp(began)
			require.Equal(e, said, s.State().Running)
			require.Equal(e, "Degraded: "+said, e.told())
			release()
			<-ended
			require.Empty(e, s.State().Running)
			require.Equal(e, "OK: OK", e.told())
			s.Close()
		}
	})
}

// The commit of a row takes a tenth of a millisecond here, as in a large table.
func TestCommitIsPartOfTheFewMilliseconds(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		written := 0
		e.spy.indexed = func(*row) { written++ }
		e.spy.committing = func() { time.Sleep(time.Duration(written) * 100 * time.Microsecond); written = 0 }
		e.replace(s, 2000, 1, many(2000, "a")...)
		for _, hold := range e.spy.holds {
			require.LessOrEqual(e, hold, 4*time.Millisecond)
		}
		require.Less(e, len(e.spy.holds), 100)
	})
}

func TestStaleIsNotEmpty(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.replace(s, 2, 1, many(2, "a")...)
		s.Disconnected(errors.New("no route"))
		time.Sleep(24 * time.Hour)
		require.Len(e, e.rows(), 2)
		state := s.State()
		require.False(e, state.Connected)
		require.EqualError(e, state.Err, "no route")
		require.Equal(e, 2, state.Rows)
	})
}

func TestStateTellsHowFarTheSourceIs(t *testing.T) {
	run(t, func(e *env) {
		began := time.Now()
		s := e.sink("a", nil)
		require.Equal(e, source.State{Since: began}, s.State())
		time.Sleep(time.Second)
		s.Connected()
		time.Sleep(time.Second)
		s.Connected()
		e.apply(s, 1, 4, put(&row{Key: "1", Owner: "a"}))
		connected := began.Add(time.Second)
		require.Equal(e, source.State{Connected: true, Since: connected, LastEvent: time.Now(), Rows: 1}, s.State(),
			"Input needs a full list")
		e.replace(s, 1, 5, &row{Key: "1", Owner: "a"}, &row{Key: "2", Owner: "a"})
		require.Equal(e, source.State{Connected: true, Since: connected, LastEvent: time.Now(), Rows: 2, Input: 5, Output: 2}, s.State())
		event := time.Now()
		time.Sleep(time.Second)
		gone := time.Now()
		no := errors.New("no")
		s.Disconnected(no)
		require.Equal(e, source.State{Since: gone, Err: no, LastEvent: event, Rows: 2, Input: 5, Output: 2}, s.State())
		require.Equal(e, gone, e.input("a").Since)
		require.False(e, e.input("a").Connected)
		time.Sleep(time.Second)
		e.apply(s, 1, 6, remove("2"))
		require.Equal(e, source.State{Since: gone, Err: no, LastEvent: time.Now(), Rows: 1, Input: 6, Output: 3}, s.State())
		e.replace(s, 0, 6, &row{Key: "1", Owner: "a"})
		require.Equal(e, source.State{Connected: true, Since: time.Now(), LastEvent: time.Now(), Rows: 1, Input: 6, Output: 3}, s.State(),
			"a full list means connected")
		require.True(e, e.input("a").Connected)
	})
}

func TestDisconnectedDuringAReplaceStays(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		s.Connected()
		e.spy.committed = func() { e.spy.committed = nil; s.Disconnected(nil) }
		e.replace(s, 1, 1, &row{Key: "1", Owner: "a"})
		require.False(e, s.State().Connected)
	})
}

// told returns the last report to health.
func (e *env) told() string {
	level, message, err := e.health.Now()
	if err != nil {
		return fmt.Sprintf("%s: %s\n%v", level, message, err)
	}
	return fmt.Sprintf("%s: %s", level, message)
}

func TestHealthIsDegradedByLongDisconnects(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		time.Sleep(59 * time.Second)
		require.Empty(e, e.health.History())
		time.Sleep(time.Second + 1)
		require.Equal(e, "Degraded: without a connection for 1 min, since 2000-01-01T00:00:00.000Z", e.told())
		s.Connected()
		time.Sleep(2*time.Minute + 1)
		require.Equal(e, "Degraded: connected without a full list for 2 min, since 2000-01-01T00:01:00.000Z", e.told())
		e.replace(s, 0, 1)
		require.Equal(e, "OK: OK", e.told())
		s.Disconnected(errors.New("no route"))
		require.Equal(e, "OK: OK", e.told())
		time.Sleep(3*time.Minute + time.Second)
		require.Equal(e, "Degraded: without a connection for 3 min, since 2000-01-01T00:03:00.000Z\nno route", e.told())
		s.Disconnected(errors.New("refused"))
		require.Equal(e, "Degraded: without a connection for 3 min, since 2000-01-01T00:03:00.000Z\nrefused", e.told())
		s.Connected()
		require.Equal(e, "OK: OK", e.told())
		n := len(e.health.History())
		time.Sleep(time.Hour)
		require.Len(e, e.health.History(), n)
		s.Disconnected(nil)
		s.Close()
		require.Equal(e, "Stopped: closed", e.told())
		time.Sleep(time.Hour)
		require.Equal(e, cell.StatusStopped, cell.Level(strings.Split(e.told(), ":")[0]))
	})
}

func TestHealthIsDegradedByRejectedObjects(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		list := many(12, "b")
		_, err := s.Replace(e.Context(), list, 1)
		require.Error(e, err)
		require.True(e, strings.HasPrefix(e.told(), "Degraded: 12 object(s) rejected\nk1000000: the object belongs to \"b\", not to this source\n"), e.told())
		require.True(e, strings.HasSuffix(e.told(), "\n2 further objects omitted"), e.told())
		e.apply(s, 1, 2, put(&row{Key: "k1000000", Owner: "a"}))
		require.True(e, strings.HasPrefix(e.told(), "Degraded: 11 object(s) rejected\nk1000001"), e.told())
		n := len(e.health.History())
		e.apply(s, 0, 2, put(&row{Key: "k1000000", Owner: "a"}))
		require.Len(e, e.health.History(), n, "what is known is not told again")
		e.replace(s, 0, 3, &row{Key: "k1000000", Owner: "a"})
		require.Equal(e, "OK: OK", e.told())
		_, err = s.Replace(e.Context(), nil, 4)
		require.Error(e, err)
		require.Equal(e, "Degraded: an empty list was refused\nthe list is empty, and the source has rows: Config.AllowEmpty is false", e.told())
		e.replace(s, 0, 5, &row{Key: "k1000000", Owner: "a"})
		require.Equal(e, "OK: OK", e.told())
	})
}

func TestRevisionsArePublishedWithTheLastRow(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.spy.indexed = func(*row) { time.Sleep(time.Millisecond) }
		var seen []string
		e.spy.committed = func() {
			txn := e.db.ReadTxn()
			in, _ := e.inputs.Get(txn, "a")
			seen = append(seen, fmt.Sprint(in.Input, in.Output, e.table.Revision(txn)))
		}
		e.replace(s, 12, 7, many(12, "a")...)
		require.Equal(e, []string{"0 0 3", "0 0 6", "0 0 9", "7 12 12"}, seen)
		_, changed, found := e.inputs.Watch(e.db.ReadTxn(), "a")
		require.True(e, found)
		seen = nil
		e.apply(s, 6, 8, put(&row{Key: "x", Owner: "a"}), put(&row{Key: "y", Owner: "a"}), remove("k1000000"), remove("k1000001"),
			remove("k1000002"), remove("k1000003"))
		require.Equal(e, "8 18 18", seen[len(seen)-1])
		<-changed
		// The revision includes what a later one of others cannot take away.
		e.write(&row{Key: "z", Owner: "b"})
		e.replace(s, 0, 9, slices.Concat(many(12, "a")[4:], []*row{{Key: "x", Owner: "a"}, {Key: "y", Owner: "a"}})...)
		require.EqualValues(e, 19, e.input("a").Output)
	})
}

func TestWritesBetweenPiecesAreMerged(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", func(c *source.Config[*row]) { c.Same, c.Merge = sameWish, mergeStatus })
		e.replace(s, 20, 1, many(20, "a")...)
		e.spy.indexed = func(*row) { time.Sleep(time.Millisecond) }
		statuses := 0
		e.spy.committed = func() {
			// A loop writes the status of all rows.
			committed := e.spy.committed
			e.spy.committed = nil
			statuses++
			for _, r := range e.rows() {
				r.Status++
				e.write(&r)
			}
			e.spy.committed = committed
		}
		list := many(20, "a")
		for _, r := range list {
			r.Value += 100
		}
		e.replace(s, 20, 2, list...)
		require.Greater(e, statuses, 3)
		for i, r := range e.rows() {
			require.Equal(e, i+100, r.Value)
			require.Equal(e, statuses, r.Status, r.Key)
		}
	})
}

func TestRowThatIsTakenBetweenPiecesIsLeftAlone(t *testing.T) {
	run(t, func(e *env) {
		a := e.sink("a", nil)
		e.replace(a, 20, 1, many(20, "a")...)
		e.spy.indexed = func(*row) { time.Sleep(time.Millisecond) }
		e.spy.committed = func() {
			e.spy.committed = nil
			e.write(&row{Key: "k1000010", Owner: "b"}, &row{Key: "k1000019", Owner: "b"})
		}
		list := many(15, "a")
		for _, r := range list {
			r.Value += 100
		}
		n, err := a.Replace(e.Context(), list, 2)
		require.EqualError(e, err, `source "a" of table "rows": k1000010: the row belongs to "b"`, "k1000019 is not in the list")
		require.Equal(e, 14+4, n)
		require.Equal(e, row{Key: "k1000010", Owner: "b"}, *e.get("k1000010"))
		require.Equal(e, row{Key: "k1000019", Owner: "b"}, *e.get("k1000019"))
		require.Equal(e, 1, e.input("a").Rejected)
	})
}

func TestEndOfContextEndsACallBetweenPieces(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.spy.indexed = func(*row) { time.Sleep(time.Millisecond) }
		ctx, cancel := context.WithCancel(e.Context())
		e.spy.committed = cancel
		n, err := s.Replace(ctx, many(20, "a"), 7)
		require.ErrorIs(e, err, context.Canceled)
		require.Equal(e, 3, n)
		require.Len(e, e.rows(), 3)
		require.False(e, e.initialized())
		require.Zero(e, e.input("a").Input)
		e.apply(s, 1, 8, put(&row{Key: "x", Owner: "a"}))
		require.Zero(e, e.input("a").Input, "the table does not include all that came before")
		require.False(e, e.initialized())

		e.replace(s, 17, 9, append(many(20, "a"), &row{Key: "x", Owner: "a"})...)
		require.True(e, e.initialized())
		require.EqualValues(e, 9, e.input("a").Input)

		var changes []source.Change[*row]
		for _, r := range many(20, "a") {
			changes = append(changes, source.Change[*row]{Object: r, Deleted: true})
		}
		ctx, cancel = context.WithCancel(e.Context())
		e.spy.committed = cancel
		e.spy.indexed = nil
		e.spy.indexed = func(*row) { time.Sleep(3 * time.Millisecond) }
		n, err = s.Apply(ctx, changes, 10)
		require.ErrorIs(e, err, context.Canceled)
		require.Positive(e, n)
		e.apply(s, 1, 11, remove("x"))
		require.EqualValues(e, 9, e.input("a").Input)
		e.replace(s, len(e.rows())-1, 12, e.get("k1000019"))
		before := e.revision()
		n, err = s.Apply(ctx, []source.Change[*row]{remove("k1000019")}, 13)
		require.ErrorIs(e, err, context.Canceled)
		require.Zero(e, n)
		require.Equal(e, before, e.revision())
		e.apply(s, 1, 14, put(&row{Key: "x", Owner: "a"}))
		require.EqualValues(e, 12, e.input("a").Input)
	})
}

func TestClosedSourceReturnsErrors(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.replace(s, 1, 1, &row{Key: "1", Owner: "a"})
		s.Close()
		s.Close()
		_, err := s.Replace(e.Context(), nil, 2)
		require.EqualError(e, err, `source "a" of table "rows": the source is closed`)
		_, err = s.Apply(e.Context(), nil, 2)
		require.ErrorContains(e, err, "the source is closed")
		before := *e.input("a")
		require.False(e, before.Connected)
		s.Connected()
		s.Disconnected(errors.New("no"))
		require.Equal(e, before, *e.input("a"))
		require.False(e, s.State().Connected)
		require.EqualError(e, s.State().Err, "the source is closed")
		require.Len(e, e.rows(), 1, "the rows stay")

		// The next source of the name begins at zero.
		again := e.sink("a", nil)
		require.False(e, e.initialized())
		require.Zero(e, e.input("a").Input)
		e.replace(again, 0, 5, &row{Key: "1", Owner: "a"})
		require.True(e, e.initialized())
		s.Close()
		require.True(e, e.input("a").Connected)
	})
}

func TestStateAfterCloseIsThatAtTheEnd(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.replace(s, 2, 1, &row{Key: "1", Owner: "a"}, &row{Key: "2", Owner: "a"})
		s.Close()
		closed := s.State()
		require.Equal(e, 2, closed.Rows)
		time.Sleep(time.Second)
		e.replace(e.sink("a", nil), 1, 5, &row{Key: "1", Owner: "a"})
		s.Close()
		require.Equal(e, closed, s.State())
	})
}

func TestCloseEndsARunningCall(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.spy.indexed = func(*row) { time.Sleep(time.Millisecond) }
		var closing sync.WaitGroup
		e.spy.committed = func() {
			e.spy.committed = nil
			closing.Go(s.Close)
			time.Sleep(time.Millisecond)
		}
		n, err := s.Replace(e.Context(), many(20, "a"), 1)
		require.ErrorContains(e, err, "the source is closed")
		require.Equal(e, 3, n)
		closing.Wait()
		require.False(e, e.initialized())
		require.Equal(e, []string{"a"}, e.table.PendingInitializers(e.db.ReadTxn()))
	})
}

func TestObjectsWithoutAKeyKeepAllRows(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.replace(s, 2, 1, &row{Key: "1", Owner: "a"}, &row{Key: "2", Owner: "a"})
		n, err := s.Replace(e.Context(), []*row{{Key: "3", Owner: "a"}, nil}, 2)
		require.ErrorContains(e, err, "object 1 of the call has no usable key: panic in the primary index")
		require.Equal(e, 1, n)
		require.Len(e, e.rows(), 3)
		require.EqualValues(e, 1, e.input("a").Input)
		require.Equal(e, 1, s.State().Rejected)
		require.Contains(e, e.told(), "1 object(s) without a usable key")
		e.apply(s, 1, 3, put(&row{Key: "4", Owner: "a"}))
		require.EqualValues(e, 1, e.input("a").Input)
		e.replace(s, 3, 4, &row{Key: "1", Owner: "a"})
		require.EqualValues(e, 4, e.input("a").Input)
		n, err = s.Apply(e.Context(), []source.Change[*row]{{}, put(&row{Key: "5", Owner: "a"})}, 5)
		require.ErrorContains(e, err, "object 0 of the call has no usable key")
		require.Equal(e, 1, n)
		require.EqualValues(e, 4, e.input("a").Input)
		require.Equal(e, 1, e.input("a").Rejected)
	})
}

func TestObjectWithoutAKeyIsNeverCountedAsChanged(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		list := []*row{{Key: "", Owner: "a"}, {Key: "keyless", Owner: "a"}, {Key: "1", Owner: "a"}}
		for i, changed := range []int{2, 0} {
			n, err := s.Replace(e.Context(), list, uint64(i))
			require.ErrorContains(e, err, "object 1 of the call has no usable key: the primary index makes no key of the object")
			require.Equal(e, changed, n)
			require.Equal(e, 1, s.State().Rejected)
		}
		_, err := s.Apply(e.Context(), []source.Change[*row]{{Object: &row{Key: "keyless"}, Deleted: true}}, 3)
		require.ErrorContains(e, err, "object 0 of the call has no usable key")
		e.replace(s, 1, 4, list[2])
		require.Len(e, e.rows(), 1, "the row with the empty key is deleted")
		_, err = s.KeyOf(list[1])
		require.ErrorContains(e, err, "the primary index makes no key of the object")
	})
}

func TestPanicIsAnErrorOfTheObjectOnly(t *testing.T) {
	bad := func(r *row) {
		if r.Value == 13 {
			panic("unlucky")
		}
	}
	for name, change := range map[string]func(*env, *source.Config[*row]){
		"Owner": func(_ *env, c *source.Config[*row]) { c.Owner = func(r *row) string { bad(r); return r.Owner } },
		"Same":  func(_ *env, c *source.Config[*row]) { c.Same = func(r, obj *row) bool { bad(obj); return *r == *obj } },
		"Merge": func(_ *env, c *source.Config[*row]) { c.Merge = func(_, obj *row) *row { bad(obj); return obj } },
		"index": func(e *env, _ *source.Config[*row]) { e.spy.indexed = bad },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(e *env) {
				var list []*row
				for i := range 30 {
					list = append(list, &row{Key: fmt.Sprint(100 + i), Owner: "a", Value: 1})
				}
				s := e.sink("a", func(c *source.Config[*row]) { change(e, c) })
				e.replace(s, 30, 1, list...)
				for i := range list {
					changed := *list[i]
					if changed.Value = 2; i == 0 || i == 7 || i == 8 || i == 29 {
						changed.Value = 13
					}
					list[i] = &changed
				}
				n, err := s.Replace(e.Context(), list, 2)
				require.ErrorContains(e, err, "unlucky")
				require.Equal(e, 26, n)
				require.Equal(e, 4, s.State().Rejected)
				require.Equal(e, 4, e.input("a").Rejected)
				require.EqualValues(e, 2, e.input("a").Input)
				for i, r := range e.rows() {
					if i == 0 || i == 7 || i == 8 || i == 29 {
						require.Equal(e, 1, r.Value)
					} else {
						require.Equal(e, 2, r.Value)
					}
				}
				n, err = s.Apply(e.Context(), []source.Change[*row]{put(&row{Key: "new", Owner: "a", Value: 13})}, 3)
				if name == "Owner" || name == "index" {
					require.ErrorContains(e, err, "unlucky")
					require.Zero(e, n)
				} else {
					require.NoError(e, err, "there is no row to compare with")
				}
				require.EqualValues(e, 3, e.input("a").Input)
			})
		})
	}
}

func TestWrongResultsOfMergeAreErrors(t *testing.T) {
	for want, merge := range map[string]func(r, obj *row) *row{
		"1: Same reports a difference, but what is to be written is the row itself": func(r, _ *row) *row { return r },
		"1: Merge returned a row with another key, 2":                               func(_, obj *row) *row { return &row{Key: "2", Owner: "a"} },
		`1: Merge returned a row that belongs to "b"`:                               func(_, obj *row) *row { return &row{Key: "1", Owner: "b"} },
	} {
		run(t, func(e *env) {
			s := e.sink("a", func(c *source.Config[*row]) { c.Merge = merge })
			e.replace(s, 1, 1, &row{Key: "1", Owner: "a"})
			n, err := s.Replace(e.Context(), []*row{{Key: "1", Owner: "a", Value: 1}, {Key: "3", Owner: "a"}}, 2)
			require.EqualError(e, err, `source "a" of table "rows": `+want)
			require.Equal(e, 1, n)
			require.Zero(e, e.get("1").Value)
		})
	}
}

func TestErrorsOfACallAreBounded(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		_, err := s.Replace(e.Context(), many(1000, "b"), 1)
		require.Equal(e, 100, strings.Count(err.Error(), "\n"))
		require.ErrorContains(e, err, "900 further errors omitted")
		require.Equal(e, 1000, s.State().Rejected)
	})
}

func TestBadConfigurationIsAnError(t *testing.T) {
	run(t, func(e *env) {
		_, err := source.New(source.Config[*row]{})
		require.EqualError(e, err, "Config.Name is \"\", must name the source\nConfig.DB is nil\nConfig.Table is nil")
		_, err = source.New(source.Config[*row]{Name: "a", DB: statedb.New(), Table: e.table})
		require.EqualError(e, err, `Config.Table is "rows", which is not a table of Config.DB`)
		e.sink("a", nil)
		_, err = source.New(source.Config[*row]{Name: "a", DB: e.db, Table: e.table, Owner: ownerOf})
		require.EqualError(e, err, `Config.Name is "a": another input with the name "a" is open`)
		_, err = source.New(source.Config[*row]{Name: "b", DB: e.db, Table: e.table})
		require.EqualError(e, err, `Config.Name is "b": the input "a" is open, and not both have rows with owners`)
		long, err := statedb.NewTable(e.db, strings.Repeat("x", 25), byKey)
		require.NoError(e, err)
		_, err = source.New(source.Config[*row]{Name: "a", DB: e.db, Table: long})
		require.ErrorContains(e, err, `Config.Table: the name of the table "xxxxx`)
	})
}

// Calls from several goroutines, with another writer of the same rows beside them.
func TestConcurrentCallsAreSerialised(t *testing.T) {
	e := newEnv(t)
	e.db = statedb.New()
	var err error
	e.table, err = statedb.NewTable(e.db, "rows", byKey)
	require.NoError(e, err)
	e.inputs, err = inputs.Open(e.db, "rows")
	require.NoError(e, err)
	const calls, n = 20, 50
	lists := func(owner string, value int) (list []*row) {
		for i := range n {
			list = append(list, &row{Key: fmt.Sprint(owner, i), Owner: owner, Value: value})
		}
		return list
	}
	var sinks []*source.Sink[*row]
	for _, name := range []string{"a", "b"} {
		sinks = append(sinks, e.sink(name, func(c *source.Config[*row]) { c.Same, c.Merge = sameWish, mergeStatus }))
	}
	stop := make(chan struct{})
	var writing, calling sync.WaitGroup
	writing.Go(func() {
		for {
			wtxn := e.db.WriteTxn(e.table)
			for r := range e.table.All(wtxn) {
				written := *r
				written.Status++
				if _, _, err := e.table.Insert(wtxn, &written); err != nil {
					panic(err)
				}
			}
			wtxn.Commit()
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for i, s := range sinks {
		owner := string(rune('a' + i))
		for value := range calls {
			calling.Go(func() {
				if _, err := s.Replace(e.Context(), lists(owner, value), uint64(value)); err != nil {
					panic(err)
				}
				s.Connected()
				s.State()
				if _, err := s.Apply(e.Context(), []source.Change[*row]{put(&row{Key: owner + "0", Owner: owner, Value: value})}, uint64(value)); err != nil {
					panic(err)
				}
				s.Disconnected(nil)
			})
		}
	}
	calling.Wait()
	close(stop)
	writing.Wait()
	require.Len(e, e.rows(), 2*n)
	values := map[string]int{}
	for _, r := range e.rows() {
		if r.Key[1:] != "0" {
			values[fmt.Sprint(r.Owner, r.Value)]++
		}
	}
	require.Len(e, values, 2, "all rows of a source are of one list")
	for i, s := range sinks {
		s.Close()
		require.Equal(e, s.State().Input, e.input(string(rune('a'+i))).Input)
	}
}

// An object without a key may stand for any row: a reconciler would prune what it stands for.
func TestListWithoutAKeyKeepsTheInitialiser(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		var none *row // the primary index panics
		_, err := s.Replace(e.Context(), []*row{{Key: "x", Owner: "a"}, none}, 7)
		require.ErrorContains(e, err, "has no usable key")
		require.Zero(e, s.State().Input, "the call is not complete")
		require.False(e, e.initialized())
		e.replace(s, 0, 8, &row{Key: "x", Owner: "a"})
		require.True(e, e.initialized())
	})
}

// What is no longer rejected has to be attempted, too, before the input counts as applied.
func TestObjectThatIsNoLongerRejectedIsPartOfOutput(t *testing.T) {
	run(t, func(e *env) {
		e.write(&row{Key: "k", Owner: "b", Value: 1})
		s := e.sink("a", nil)
		want := &row{Key: "k", Owner: "a", Value: 2}
		_, err := s.Replace(e.Context(), []*row{want}, 7)
		require.Error(e, err)
		_, err = s.Replace(e.Context(), nil, 8)
		require.NoError(e, err)
		_, err = s.Replace(e.Context(), []*row{want, {Key: "x", Owner: "a"}}, 9)
		require.Error(e, err)
		_, err = s.Replace(e.Context(), nil, 10) // refused
		require.ErrorIs(e, err, source.ErrEmpty)
		wtxn := e.db.WriteTxn(e.table)
		_, _, err = e.table.Delete(wtxn, &row{Key: "k"})
		require.NoError(e, err)
		wtxn.Commit()
		e.apply(s, 1, 11, put(want))
		in := e.input("a")
		require.EqualValues(e, 9, in.Input)
		require.Zero(e, in.Rejected)
		require.Equal(e, e.revision(), in.Output)
		require.Equal(e, in.Output, s.State().Output)
	})
}

func TestDisconnectedIsNeverLost(t *testing.T) {
	db := statedb.New()
	table, err := statedb.NewTable(db, "rows", byKey)
	require.NoError(t, err)
	during := func() {}
	s, err := source.New(source.Config[*row]{Name: "a", DB: db, Table: table, Merge: func(_, obj *row) *row {
		during()
		return obj
	}})
	require.NoError(t, err)
	defer s.Close()
	for i := range 3000 {
		s.Disconnected(nil)
		told := make(chan struct{})
		during = sync.OnceFunc(func() {
			go func() { defer close(told); s.Disconnected(nil) }()
		})
		_, err := s.Replace(t.Context(), []*row{{Key: "1", Owner: "a", Value: i}}, uint64(i))
		require.NoError(t, err)
		if i > 0 {
			<-told
			require.False(t, s.State().Connected, "after %d calls", i)
		}
	}
}
