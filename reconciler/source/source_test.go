// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler/source"
)

func TestWithoutOwnersAllRowsAreTheSources(t *testing.T) {
	run(t, func(e *env) {
		e.write(&row{Key: "0"}, &row{Key: "1", Owner: "x"})
		s := e.sink("a", func(c *source.Config[*row]) { c.Owner = nil })
		require.Equal(e, 2, s.State().Rows)
		e.replace(s, 2, 1, &row{Key: "1", Owner: "y"})
		require.Equal(e, []row{{Key: "1", Owner: "y"}}, e.rows())
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
		time.Sleep(time.Hour)
		require.Equal(e, "Stopped: closed", e.told())
	})
}

// Whether the source says why, and in which order, the log has one line.
func TestTheLogHasOneLineForEachChangeOfTheConnection(t *testing.T) {
	run(t, func(e *env) {
		log := &testlog.Buffer{}
		s := e.sink("a", func(c *source.Config[*row]) { c.Log = slog.New(slog.NewTextHandler(log, nil)) })
		lines := func(want ...int) {
			e.Helper()
			require.Equal(e, want, []int{strings.Count(log.String(), "source connected"), strings.Count(log.String(), "source disconnected")}, log)
		}
		s.Disconnected(nil)
		lines(0, 0)
		s.Disconnected(errors.New("a new source cannot connect"))
		s.Disconnected(nil)
		s.Disconnected(errors.New("it still cannot"))
		lines(0, 1)
		e.replace(s, 0, 1)
		s.Connected()
		lines(1, 1)
		s.Disconnected(nil)
		s.Disconnected(errors.New("no route"))
		s.Disconnected(nil)
		s.Disconnected(errors.New("refused"))
		lines(1, 2)
		s.Close()
		s.Disconnected(errors.New("it has stopped"))
		lines(1, 2)
	})
}

func TestHealthIsDegradedByRejectedObjects(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		_, err := s.Replace(e.Context(), many(1000, "b"), 1)
		require.ErrorContains(e, err, "\n900 further errors omitted")
		require.Equal(e, 100, strings.Count(err.Error(), "\n"))
		require.True(e, strings.HasPrefix(e.told(), "Degraded: 1000 object(s) rejected\nk1000000: the object belongs to \"b\", not to this source\n"), e.told())
		require.True(e, strings.HasSuffix(e.told(), "\n990 further objects omitted"), e.told())
		e.apply(s, 1, 2, put(&row{Key: "k1000000", Owner: "a"}))
		require.True(e, strings.HasPrefix(e.told(), "Degraded: 999 object(s) rejected\nk1000001"), e.told())
		n := len(e.health.History())
		e.apply(s, 0, 2, put(&row{Key: "k1000000", Owner: "a"}))
		require.Len(e, e.health.History(), n, "what is known is not told again")
		e.replace(s, 0, 3, &row{Key: "k1000000", Owner: "a"})
		require.Equal(e, "OK: OK", e.told())
		_, err = s.Replace(e.Context(), nil, 4)
		require.EqualError(e, err, `source "a" of table "rows": the list is empty, and the source has rows: Config.AllowEmpty is false, 1 row(s) stay`)
		require.Equal(e, "Degraded: an empty list was refused\nthe list is empty, and the source has rows: Config.AllowEmpty is false", e.told())
		e.replace(s, 0, 5, &row{Key: "k1000000", Owner: "a"})
		require.Equal(e, "OK: OK", e.told())
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

func TestErrorNamesTheObject(t *testing.T) {
	own := &row{Key: "1", Owner: "a", Value: 1}
	merge := func(merge func(r, obj *row) *row) func(*source.Config[*row]) {
		return func(c *source.Config[*row]) { c.Merge = merge }
	}
	for _, c := range []struct {
		want   string
		bad    *row
		change func(*source.Config[*row])
	}{
		{`0: the row belongs to "by hand"`, &row{Key: "0", Owner: "a"}, nil},
		{`5: the object belongs to "c", not to this source`, &row{Key: "5", Owner: "c"}, nil},
		{"9 is in the list twice, the first one counts", &row{Key: "9", Owner: "a", Value: 1}, nil},
		{"object 1 of the call has no usable key: panic in the primary index: ", nil, nil},
		{"object 1 of the call has no usable key: the primary index makes no key of the object", &row{Key: "keyless"}, nil},
		{"panic in a function of the source: same", own, func(c *source.Config[*row]) {
			c.Same = func(_, _ *row) bool { panic("same") }
		}},
		{"panic in a function of the source: merge", own, merge(func(_, _ *row) *row { panic("merge") })},
		{
			"1: Same reports a difference, but what is to be written is the row itself", own,
			merge(func(r, _ *row) *row { return r }),
		},
		{
			"1: Merge returned a row with another key, 2", own,
			merge(func(_, _ *row) *row { return &row{Key: "2", Owner: "a"} }),
		},
		{
			`1: Merge returned a row that belongs to "b"`, own,
			merge(func(_, _ *row) *row { return &row{Key: "1", Owner: "b"} }),
		},
	} {
		t.Run(c.want, func(t *testing.T) {
			run(t, func(e *env) {
				e.write(&row{Key: "0", Owner: "by hand"})
				s := e.sink("a", c.change)
				e.replace(s, 1, 1, &row{Key: "1", Owner: "a"})
				_, err := s.Replace(e.Context(), []*row{{Key: "9", Owner: "a"}, c.bad}, 2)
				require.ErrorContains(e, err, `source "a" of table "rows": `+c.want)
				require.Equal(e, 1, s.State().Rejected)
				_, err = s.KeyOf(c.bad)
				require.Equal(e, strings.Contains(c.want, "no usable key"), err != nil)
				require.Equal(e, row{Key: "0", Owner: "by hand"}, *e.get("0"))
				require.Equal(e, row{Key: "9", Owner: "a"}, *e.get("9"))
				if c.bad == own {
					require.Equal(e, row{Key: "1", Owner: "a"}, *e.get("1"))
				}
			})
		})
	}
}

func TestTableIsLockedForAFewMilliseconds(t *testing.T) {
	for name, slow := range map[string]func(*spy){
		"index": func(s *spy) { s.indexed = func(*row) { time.Sleep(time.Millisecond) } },
		// The commit of a row takes a tenth of a millisecond, as in a large table.
		"commit": func(s *spy) {
			written := 0
			s.indexed = func(*row) { written++ }
			s.committing = func() { time.Sleep(time.Duration(written) * 100 * time.Microsecond); written = 0 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(e *env) {
				s := e.sink("a", nil)
				slow(e.spy)
				e.replace(s, 100, 1, many(100, "a")...)
				e.replace(s, 60, 2, many(40, "a")...)
				require.Greater(e, len(e.spy.holds), 3)
				require.Less(e, len(e.spy.holds), 60)
				for _, hold := range e.spy.holds {
					require.LessOrEqual(e, hold, 4*time.Millisecond)
				}
			})
		})
	}
}

func TestClosedSourceKeepsItsRowsAndItsState(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.replace(s, 2, 1, &row{Key: "1", Owner: "a"}, &row{Key: "2", Owner: "a"})
		s.Close()
		_, err := s.Replace(e.Context(), nil, 2)
		require.EqualError(e, err, `source "a" of table "rows": the source is closed`)
		closed, input := s.State(), *e.input("a")
		require.Equal(e, 2, closed.Rows)
		require.EqualError(e, closed.Err, "the source is closed")
		require.False(e, input.Connected)
		s.Connected()
		s.Disconnected(errors.New("no"))
		require.Equal(e, input, *e.input("a"))

		// The next source of the name begins at zero.
		time.Sleep(time.Second)
		again := e.sink("a", nil)
		require.False(e, e.initialized())
		require.Zero(e, e.input("a").Input)
		e.replace(again, 1, 5, &row{Key: "1", Owner: "a"})
		s.Close()
		require.True(e, e.input("a").Connected)
		require.Equal(e, closed, s.State())
	})
}
