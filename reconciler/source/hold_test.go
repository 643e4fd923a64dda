// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/source"
)

// bounded returns a sink with a bound on vanishing rows.
func (e *env) bounded(bound source.Bound) *source.Sink[*row] {
	return e.sink("a", func(c *source.Config[*row]) { c.MaxDeletions = bound })
}

func (e *env) held(s *source.Sink[*row]) *inspect.HeldDeletions {
	e.Helper()
	held := s.Snapshot().Held
	require.NotNil(e, held)
	require.Equal(e, held.Rows, s.State().Held)
	require.Equal(e, held.Rows, e.input("a").Held)
	return held
}

func TestBoundHoldsTheDeletionsOfACall(t *testing.T) {
	for _, c := range []struct {
		bound   source.Bound
		deleted int
		held    bool
	}{
		{source.Bound{}, 10, false},
		{source.Bound{Rows: 3}, 3, false},
		{source.Bound{Rows: 3}, 4, true},
		{source.Bound{Fraction: 0.3}, 3, false},
		{source.Bound{Fraction: 0.3}, 4, true},
		{source.Bound{Rows: 3, Fraction: 1}, 4, true},
		{source.Bound{Rows: 10, Fraction: 0.3}, 4, true},
		{source.Bound{Rows: 10, Fraction: 1}, 10, false},
		{source.Bound{Fraction: 0.01}, 1, false}, // a single deletion is never held
		{source.Bound{Fraction: 0.01}, 2, true},
		{source.Bound{Fraction: 0.1, Min: 3}, 3, false},
		{source.Bound{Fraction: 0.1, Min: 3}, 4, true},
		{source.Bound{Fraction: 0.5, Min: 3}, 5, false},
		{source.Bound{Rows: 3, Fraction: 0.1, Min: 3}, 4, true},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			for name, call := range map[string]func(*env, *source.Sink[*row]) (int, error){
				"Replace": func(e *env, s *source.Sink[*row]) (int, error) {
					return s.Replace(e.Context(), append(many(10, "a")[c.deleted:], &row{Key: "new", Owner: "a"}), 2)
				},
				"Apply": func(e *env, s *source.Sink[*row]) (int, error) {
					changes := []source.Change[*row]{put(&row{Key: "new", Owner: "a"})}
					for _, r := range many(c.deleted, "a") {
						changes = append(changes, remove(r.Key))
					}
					return s.Apply(e.Context(), changes, 2)
				},
			} {
				run(t, func(e *env) {
					e.write(&row{Key: "other", Owner: "b"})
					s := e.bounded(c.bound)
					e.replace(s, 10, 1, many(10, "a")...)
					n, err := call(e, s)
					require.Equal(e, c.held, errors.Is(err, source.ErrHeld), "%s: %v", name, err)
					if c.held {
						require.Equal(e, []int{1, 10}, []int{n, s.State().Rows - 1}, "all else is applied")
						require.EqualValues(e, 1, e.input("a").Input)
						require.Len(e, s.Snapshot().Held.Examples, c.deleted)
					} else {
						require.NoError(e, err)
						require.Equal(e, 1+c.deleted, n)
						require.EqualValues(e, 2, e.input("a").Input)
						require.Nil(e, s.Snapshot().Held)
					}
				})
			}
		})
	}
}

func TestHeldDeletionsAreNamedAndApprovedAsASet(t *testing.T) {
	run(t, func(e *env) {
		s := e.bounded(source.Bound{Rows: 3})
		e.replace(s, 20, 1, many(20, "a")...)
		began := time.Now()
		_, err := s.Replace(e.Context(), many(8, "a"), 2)
		held := e.held(s)
		require.Equal(e, []any{12, 20, began}, []any{held.Rows, held.Of, held.Since})
		require.Equal(e, []string{"k1000008", "k1000009", "k1000010"}, held.Examples[:3])
		require.Len(e, held.Examples, 10)
		said := "12 of 20 rows are not in the source any more, such as k1000008, k1000009, k1000010: they stay until the source has " +
			"them again, or somebody approves their deletion: reconciler/approve rows/a " + held.Set
		require.EqualError(e, err, `source "a" of table "rows": more deletions than Config.MaxDeletions allows are held: `+said)
		require.Equal(e, "Degraded: 12 deletion(s) held\n"+said, e.told())
		require.Equal(e, said, e.input("a").Problems().First[0])
		require.Equal(e, said, e.input("a").Problems().Of["k1000019"])
		require.Empty(e, e.input("a").Problems().Of["k1000000"])

		// The same again is the same set; another is another.
		time.Sleep(time.Second)
		_, err = s.Replace(e.Context(), many(8, "a"), 3)
		require.ErrorIs(e, err, source.ErrHeld)
		require.Equal(e, held, e.held(s))
		_, err = s.Replace(e.Context(), many(7, "a"), 4)
		require.ErrorIs(e, err, source.ErrHeld)
		next := e.held(s)
		require.NotEqual(e, held.Set, next.Set)
		_, err = s.Approve(e.Context(), held.Set)
		require.ErrorContains(e, err, "the deletions that are held are not "+held.Set+": 13 of 20 rows are not in the source")
		require.Len(e, e.rows(), 20)

		e.apply(s, 1, 5, put(&row{Key: "k1000000", Owner: "a", Value: 9}))
		require.EqualValues(e, 1, e.input("a").Input)
		n, err := s.Approve(e.Context(), next.Set)
		require.NoError(e, err)
		require.Equal(e, 13, n)
		require.Len(e, e.rows(), 7)
		require.EqualValues(e, 5, e.input("a").Input, "the table includes the source as it is")
		require.Equal(e, e.revision(), e.input("a").Output)
		require.Equal(e, "OK: OK", e.told())
		_, err = s.Approve(e.Context(), next.Set)
		require.EqualError(e, err, `source "a" of table "rows": no deletions are held, there is nothing to approve`)
		e.apply(s, 1, 6, remove("k1000000"))
		require.EqualValues(e, 6, e.input("a").Input, "an approval that fails is no gap")
	})
}

func TestFirstListThatIsHeldDoesNotInitialise(t *testing.T) {
	run(t, func(e *env) {
		e.write(many(10, "a")...)
		s := e.bounded(source.Bound{Rows: 3})
		_, err := s.Replace(e.Context(), many(2, "a"), 1)
		require.ErrorIs(e, err, source.ErrHeld)
		require.False(e, e.initialized())
		require.True(e, s.State().Connected)
		held := e.held(s)
		ctx, cancel := context.WithCancel(e.Context())
		cancel()
		_, err = s.Approve(ctx, held.Set)
		require.ErrorIs(e, err, context.Canceled)
		require.Equal(e, held, e.held(s))
		_, err = s.Approve(e.Context(), held.Set)
		require.NoError(e, err)
		require.True(e, e.initialized())
		require.EqualValues(e, 1, e.input("a").Input)
	})
}

// Whichever comes first: what a person has not seen is not deleted by an approval.
func TestApprovalWhileTheNextStateArrivesIsForWhatWasShown(t *testing.T) {
	for i := range 100 {
		e := newEnv(t, nil)
		s := e.bounded(source.Bound{Rows: 3})
		e.replace(s, 20, 1, many(20, "a")...)
		_, err := s.Replace(e.Context(), many(8, "a"), 2)
		require.ErrorIs(t, err, source.ErrHeld)
		shown := e.held(s).Set
		next := []int{20, 8, 4}[i%3]
		var approved, replaced error
		var both sync.WaitGroup
		both.Go(func() { _, approved = s.Approve(e.Context(), shown) })
		both.Go(func() { _, replaced = s.Replace(e.Context(), many(next, "a"), 3) })
		both.Wait()
		want := map[bool]int{true: 20, false: 8}[approved != nil]
		if next == 20 {
			want = 20
			require.NoError(t, replaced)
		}
		require.Len(t, e.rows(), want, "next %d, approved: %v, replaced: %v", next, approved, replaced)
		s.Close()
	}
}

func TestReportedProblemsAreCountedAndNamed(t *testing.T) {
	run(t, func(e *env) {
		s := e.sink("a", nil)
		e.replace(s, 1, 1, &row{Key: "1", Owner: "a"})
		var problems []source.Problem
		for i := range 12 {
			problems = append(problems, source.Problem{Err: fmt.Errorf("f:%d:1: no", i), Keys: []string{"1"}})
		}
		s.Report(problems...)
		in := e.input("a")
		require.Equal(e, 12, in.Rejected)
		require.Equal(e, 12, s.State().Rejected)
		require.Equal(e, "f:11:1: no", in.Problems().Of["1"])
		require.Len(e, in.Problems().First, 10)
		require.Contains(e, e.told(), "Degraded: 12 problem(s) of the source\nf:0:1: no\n")
		require.Contains(e, e.told(), "\n2 further problems omitted")
		require.Equal(e, in.Problems().First, s.Snapshot().Problems)
		_, err := s.Replace(e.Context(), []*row{{Key: "1", Owner: "b"}}, 2)
		require.Error(e, err)
		require.Equal(e, 13, e.input("a").Rejected)
		require.Contains(e, e.input("a").Problems().Of["1"], "the object belongs to")
		s.Report()
		require.Equal(e, 1, e.input("a").Rejected)
		e.replace(s, 0, 3, &row{Key: "1", Owner: "a"})
		require.Zero(e, e.input("a").Rejected)
		require.Equal(e, "OK: OK", e.told())
		n := e.inputs.Meta().Revision(e.db.ReadTxn())
		s.Report()
		require.Equal(e, n, e.inputs.Meta().Revision(e.db.ReadTxn()), "what is known is not written again")
		require.True(e, slices.Equal(e.input("a").Problems().First, nil))
	})
}

func TestBoundsAreChecked(t *testing.T) {
	run(t, func(e *env) {
		for want, bound := range map[string]source.Bound{
			"Config.MaxDeletions.Rows is -1, must not be negative":      {Rows: -1},
			"Config.MaxDeletions.Fraction is -0.1, must be from 0 to 1": {Fraction: -0.1},
			"Config.MaxDeletions.Fraction is 1.1, must be from 0 to 1":  {Fraction: 1.1},
			"Config.MaxDeletions.Min is -1, must not be negative":       {Min: -1},
			"Config.MaxDeletions.Min is 3, must not be above Rows, 2":   {Rows: 2, Min: 3},
		} {
			_, err := source.New(source.Config[*row]{Name: "a", DB: e.db, Table: e.table, MaxDeletions: bound})
			require.EqualError(e, err, want)
		}
	})
}
