// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// real is a subject in real time.
func real(s sub, runs int) sub {
	s.RealTime, s.Runs = true, runs
	return s
}

// compute keeps a processor busy for a while.
func compute() (n int) {
	for n < 200_000_000 && n >= 0 {
		n++
	}
	return n
}

// A goroutine of the program copies the rows to the table of a reconciler, and has so much to compute before that, that it has
// not read a change when the reconciler rests.
func TestASourceThatGetsNoProcessorIsWaitedFor(t *testing.T) {
	subject := real(started(func(e *reconcilertest.Env[*entry], s *store) {
		places := reconciled(e, s)
		whenever(e, func(_ context.Context, rows []*entry, _ statedb.Revision) (<-chan struct{}, error) {
			require.Positive(e, compute())
			wtxn := e.DB.WriteTxn(places)
			defer wtxn.Commit()
			for row := range places.All(wtxn) {
				if !slices.ContainsFunc(rows, func(e *entry) bool { return e.Key == row.Key }) {
					_, _, _ = places.Delete(wtxn, row)
				}
			}
			for _, row := range rows {
				copied := *row
				_, _, _ = places.Insert(wtxn, &copied)
			}
			return nil, nil
		})
	}), 1)
	subject.Plan = "0 1 2"
	reconcilertest.Check(t, subject)
}

// patient has no time to lose: it fails if it has less than its configuration gives it.
type patient struct{ plain }

func (p patient) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	if end, ok := ctx.Deadline(); ok && ctx.Err() == nil && time.Until(end) < time.Second {
		return fmt.Errorf("the operation has until %s only", end)
	}
	return p.plain.Update(ctx, txn, revision, e)
}

func TestOperationsKeepTheirTimeoutsInRealTime(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Hour} {
		s := real(timed(func(s *store) reconciler.Operations[*entry] { return patient{plain{s}} },
			func(s *reconciler.Settings) { s.Timeout = timeout }), 1)
		s.Plan = `0 1; timeout at "update a" 1`
		reconcilertest.Check(t, s)
	}
}

// Each kind of subject passes in real time, with its own timers.
func TestSubjectsPassInRealTime(t *testing.T) {
	listed := configured(func(s *store) reconciler.Config[*entry] {
		return reconciler.Config[*entry]{Operations: healthy{s}, Lister: lister{s}, Equal: equalEntries}
	})
	chain := timed(func(s *store) reconciler.Operations[*entry] { return chained{plain{s}} }, func(*reconciler.Settings) {})
	chain.States, chain.Plan = list("a b=1 c", "a=1 b"), `0 1; error at "update a" 1`
	for name, s := range map[string]sub{
		"a prune":                               subject(func(s *store) reconciler.Operations[*entry] { return healthy{s} }),
		"a listing":                             listed,
		"blocked rows that are told of nothing": chain,
		"a listing that fails for ever": func() sub {
			s := listed
			s.Plan = `0 1 2; lasting error at "list" 1`
			return s
		}(),
		"an operation that fails for ever": func() sub {
			s := listed
			s.Plan = `0 1; lasting error at "update a" 1`
			return s
		}(),
		"a timeout": func() sub {
			s := listed
			s.Plan = `0 1; timeout at "update a, set a/0" 1`
			return s
		}(),
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) { reconcilertest.Check(t, real(s, 15)) })
	}
}

// restless asks to be called again soon.
type restless struct{ plain }

func (r restless) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	if err := r.plain.Update(ctx, txn, revision, e); err != nil {
		return err
	}
	return reconciler.Requeue(2 * time.Millisecond)
}

// hanging is a subject of a derivation whose function waits until the stop.
func hanging() sub {
	s := started(func(e *reconcilertest.Env[*entry], s *store) {
		derived, err := derive.Best(derive.Config[*entry]{DB: e.DB, Registry: e.Registry}, e.Table, reconciled(e, s),
			func(*entry) ([]*entry, error) {
				<-e.Context().Done()
				return nil, nil
			},
			func(row *entry) string { return row.Key })
		require.NoError(e, err)
		e.Cleanup(derived.Close)
		reconcilertest.Go(e, derived.Run)
	})
	s.Plan = "0 1"
	return s
}

func TestADerivationThatHangsIsFound(t *testing.T) {
	failure := check.Expect(t, "", func() { reconcilertest.Check(t, hanging()) })
	require.NotNil(t, failure)
	require.Contains(t, failure.Text, "the rows do not converge")
	require.Contains(t, failure.Text, "the reconciler is busy")
}

// What never rests in real time is named, and ends the run at the first wait.
func TestAProgramThatNeverRestsIsFoundInRealTime(t *testing.T) {
	for name, c := range map[string]struct {
		s    sub
		said string
	}{
		"calls without end": {timed(func(s *store) reconciler.Operations[*entry] { return restless{plain{s}} }, func(*reconciler.Settings) {}),
			"the program does not rest"},
		"a goroutine that computes without end": {started(func(e *reconcilertest.Env[*entry], s *store) {
			e.Start(reconciler.Config[*entry]{Operations: healthy{s}})
			reconcilertest.Go(e, func(ctx context.Context) error {
				for ctx.Err() == nil {
					runtime.Gosched()
				}
				return nil
			})
		}), "TestAProgramThatNeverRestsIsFoundInRealTime"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			s := real(c.s, 1)
			s.Plan = "0 1"
			failure := check.Expect(t, "", func() { reconcilertest.Check(t, s) })
			require.NotNil(t, failure)
			require.Contains(t, failure.Text, c.said)
		})
	}
}
