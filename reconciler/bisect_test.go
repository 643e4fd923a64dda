// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
)

// atomicTarget applies all entries of a call or none.
type atomicTarget struct {
	bad     map[uint64]bool
	holds   map[uint64]bool
	calls   int
	downAt  int
	downFor error
}

func (x *atomicTarget) apply(entries []reconciler.BatchEntry[*object]) error {
	x.calls++
	if x.downAt > 0 && x.calls >= x.downAt {
		return errors.New("connection refused")
	}
	for _, e := range entries {
		if x.bad[e.Object.ID] {
			return fmt.Errorf("entry %d of %d is refused", e.Object.ID, len(entries))
		}
	}
	for _, e := range entries {
		x.holds[e.Object.ID] = true
	}
	return nil
}

func (x *atomicTarget) alive() error {
	if x.downAt > 0 && x.calls >= x.downAt {
		return x.downFor
	}
	return nil
}

func entriesOf(n int) []reconciler.BatchEntry[*object] {
	batch := make([]reconciler.BatchEntry[*object], n)
	for i := range batch {
		batch[i].Object = &object{ID: uint64(i + 1)}
	}
	return batch
}

// All good entries are applied, each bad entry gets the error of a call with this entry alone, and the
// number of calls stays within the documented bound.
func TestBisectAppliesAllButTheBad(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range long.Times(100) {
		n := rng.IntN(300)
		x := &atomicTarget{bad: map[uint64]bool{}, holds: map[uint64]bool{}}
		for range rng.IntN(6) {
			if n > 0 {
				x.bad[1+rng.Uint64N(uint64(n))] = true
			}
		}
		batch := entriesOf(n)
		reconciler.Bisect(t.Context(), batch, x.apply, x.alive)
		for _, e := range batch {
			if x.bad[e.Object.ID] {
				require.EqualError(t, e.Result, fmt.Sprintf("entry %d of 1 is refused", e.Object.ID))
			} else {
				require.NoError(t, e.Result)
				require.True(t, x.holds[e.Object.ID])
			}
		}
		require.LessOrEqual(t, x.calls, 1+2*len(x.bad)*bits.Len(uint(n)), "%d entries, %d bad", n, len(x.bad))
	}
}

// When alive reports that the target is down, Bisect makes no further calls.
func TestBisectGivesUpWhenTheTargetIsDown(t *testing.T) {
	down := errors.New("the target is down")
	for _, at := range []int{1, 4} {
		x := &atomicTarget{bad: map[uint64]bool{100: true}, holds: map[uint64]bool{}, downAt: at, downFor: down}
		batch := entriesOf(100)
		reconciler.Bisect(t.Context(), batch, x.apply, x.alive)
		require.Equal(t, at, x.calls)
		for _, e := range batch {
			if x.holds[e.Object.ID] {
				require.NoError(t, e.Result)
			} else {
				require.ErrorIs(t, e.Result, down)
			}
		}
	}
}

// All calls of Bisect share the deadline of the batch.
func TestBisectEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	x := &atomicTarget{bad: map[uint64]bool{1: true}, holds: map[uint64]bool{}}
	batch := entriesOf(64)
	late := errors.New("too late")
	reconciler.Bisect(ctx, batch, func(entries []reconciler.BatchEntry[*object]) error {
		if x.calls == 2 {
			cancel(late)
		}
		return x.apply(entries)
	}, nil)
	require.Equal(t, 3, x.calls)
	for _, e := range batch {
		require.ErrorIs(t, e.Result, late)
		require.ErrorContains(t, e.Result, "the target had refused 16 of the batch: ", "the timeout alone would hide the refusal")
	}
}

// An apply function that appends to its entries does not change other entries of the batch.
func TestBisectToleratesAppendsToItsEntries(t *testing.T) {
	batch := entriesOf(8)
	applied := map[uint64]int{}
	reconciler.Bisect(t.Context(), batch, func(entries []reconciler.BatchEntry[*object]) error {
		for _, x := range entries {
			if x.Object.ID == 1 {
				return errors.New("bad")
			}
		}
		for _, x := range entries {
			applied[x.Object.ID]++
		}
		_ = append(entries, reconciler.BatchEntry[*object]{Object: &object{ID: 99}})
		return nil
	}, nil)
	for i, x := range batch {
		require.Equal(t, uint64(i+1), x.Object.ID)
		require.Equal(t, i == 0, x.Result != nil, "%d: %v", i, x.Result)
	}
	for id := uint64(2); id <= 8; id++ {
		require.Equal(t, 1, applied[id], "%d", id)
	}
}

// An entry that already has a result, such as that of a missing dependency, is not applied.
func TestBisectKeepsResultsThatAreSet(t *testing.T) {
	batch := entriesOf(6)
	missing := reconciler.Blocked("device eth0 is missing")
	batch[1].Result, batch[4].Result = missing, missing
	x := &atomicTarget{bad: map[uint64]bool{4: true}, holds: map[uint64]bool{}}
	reconciler.Bisect(t.Context(), batch, x.apply, nil)
	require.Equal(t, map[uint64]bool{1: true, 3: true, 6: true}, x.holds)
	results := map[uint64]error{}
	for _, e := range batch {
		results[e.Object.ID] = e.Result
	}
	require.NoError(t, results[1])
	require.ErrorContains(t, results[4], "entry 4 of 1")
	require.Equal(t, missing, results[2])
	require.Equal(t, missing, results[5])

	all := entriesOf(1)
	all[0].Result = missing
	reconciler.Bisect(t.Context(), all, func([]reconciler.BatchEntry[*object]) error { panic("called") }, nil)
}

// A target that names one bad entry a call, as nginx -t names a file, costs a call for each bad entry, and one.
func TestBisectTakesTheWordOfATargetThatBlames(t *testing.T) {
	const n, bad = 500, 5
	x := &atomicTarget{bad: map[uint64]bool{}, holds: map[uint64]bool{}}
	for i := range uint64(bad) {
		x.bad[1+i*97] = true
	}
	batch := entriesOf(n)
	reconciler.Bisect(t.Context(), batch, func(entries []reconciler.BatchEntry[*object]) error {
		err := x.apply(entries)
		for i, e := range entries {
			if x.bad[e.Object.ID] {
				return fmt.Errorf("nginx -t: %w", reconciler.Blame(reconciler.TerminalError(err), i))
			}
		}
		return err
	}, x.alive)
	require.Equal(t, bad+1, x.calls)
	require.Len(t, x.holds, n-bad)
	for _, e := range batch {
		require.Equal(t, x.bad[e.Object.ID], reconciler.IsTerminal(e.Result), "%d: %v", e.Object.ID, e.Result)
		if e.Result != nil {
			require.ErrorContains(t, e.Result, fmt.Sprintf("entry %d of ", e.Object.ID))
		}
	}
}

// On random batches, with a target that blames all, some or none of the bad entries, or places that do not
// exist, every good entry is applied, and every bad one has an error about itself.
func TestBisectWithBlameAppliesAllButTheBad(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range long.Times(100) {
		n := 1 + rng.IntN(100)
		x := &atomicTarget{bad: map[uint64]bool{}, holds: map[uint64]bool{}}
		for range rng.IntN(10) {
			x.bad[1+rng.Uint64N(uint64(n))] = true
		}
		batch := entriesOf(n)
		reconciler.Bisect(t.Context(), batch, func(entries []reconciler.BatchEntry[*object]) error {
			err := x.apply(entries)
			if err == nil {
				return nil
			}
			errs := []error{err, reconciler.Blame(errors.New("elsewhere"), -1, len(entries))}
			for i, e := range entries {
				if x.bad[e.Object.ID] && rng.IntN(3) == 0 {
					errs = append(errs, reconciler.Blame(fmt.Errorf("%d is bad", e.Object.ID), i, i))
				}
			}
			return errors.Join(errs...)
		}, x.alive)
		for _, e := range batch {
			require.Equal(t, x.bad[e.Object.ID], e.Result != nil, "%d: %v", e.Object.ID, e.Result)
			require.Equal(t, e.Result == nil, x.holds[e.Object.ID])
			if e.Result != nil && e.Result.Error() != fmt.Sprintf("%d is bad", e.Object.ID) {
				require.ErrorContains(t, e.Result, fmt.Sprintf("entry %d of 1 is refused", e.Object.ID))
			}
		}
	}
}

// What an operation returns around Blame, such as TerminalError or more text, counts for the entries that it
// blames, in a call of many entries as in a call of one: the status of a bad entry does not change at its retry.
func TestOutcomeAroundBlameCountsForTheBlamed(t *testing.T) {
	syntax := errors.New("syntax")
	blame := func(places ...int) error { return reconciler.Blame(syntax, places...) }
	for name, test := range map[string]struct {
		refusal error
		text    string
		check   func(error) bool
	}{
		"terminal": {reconciler.TerminalError(blame(0)), "syntax", reconciler.IsTerminal},
		"terminal text": {reconciler.TerminalError(fmt.Errorf("nginx -t: %w", blame(0))),
			"nginx -t: syntax", reconciler.IsTerminal},
		"terminal join": {reconciler.TerminalError(errors.Join(blame(0), blame(1))), "syntax", reconciler.IsTerminal},
		"text": {fmt.Errorf("nginx -t: %w", blame(0)), "nginx -t: syntax",
			func(err error) bool { return !reconciler.IsTerminal(err) }},
		"blocked beside": {errors.Join(reconciler.Blocked("elsewhere"), blame(0)), "syntax",
			func(err error) bool { return !reconciler.IsBlocked(err) }},
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; n < 4; n++ {
				batch := entriesOf(n)
				calls := 0
				reconciler.Bisect(t.Context(), batch, func(entries []reconciler.BatchEntry[*object]) error {
					if calls++; calls == 1 {
						return test.refusal
					}
					return nil
				}, nil)
				bad := 0
				for _, e := range batch {
					if e.Result != nil {
						bad++
						require.EqualError(t, e.Result, test.text, "%d entries", n)
						require.ErrorIs(t, e.Result, syntax)
						require.True(t, test.check(e.Result), "%d entries: %v", n, e.Result)
					}
				}
				require.NotZero(t, bad)
			}
		})
	}
}
