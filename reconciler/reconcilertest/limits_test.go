// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// failed checks a subject that has to fail.
func failed(t *testing.T, s sub) string {
	t.Helper()
	failure := check.Expect(t, "", func() { reconcilertest.Check(t, s) })
	require.NotNil(t, failure)
	return failure.Text
}

func TestAPlanOfOtherCodeFails(t *testing.T) {
	s := subject(func(s *store) reconciler.Operations[*entry] { return healthy{s} })
	s.Plan = `0; error at "update nothing" 1`
	require.Contains(t, failed(t, s), "did not come to each of its faults")
}

func TestAProgramWithoutAReconcilerFails(t *testing.T) {
	require.Contains(t, failed(t, started(func(e *reconcilertest.Env[*entry], s *store) {
		loop, err := reconciler.New(reconciler.Config[*entry]{DB: e.DB, Table: e.Table, Operations: plain{s}})
		require.NoError(e, err)
		reconcilertest.Go(e, loop.Run)
	})), "the program has no reconciler")
}

func TestTwoReconcilersOfOneTablePass(t *testing.T) {
	reconcilertest.Check(t, started(func(e *reconcilertest.Env[*entry], s *store) {
		for _, name := range []string{"one", "two"} {
			e.Start(reconciler.Config[*entry]{Operations: plain{s}, Options: []reconciler.Option{reconciler.WithName(name)}})
		}
	}))
}

// dated is a row with a time, which the first format of any time fills in.
type dated struct {
	Name string
	At   time.Time
}

func TestARowWithATimePasses(t *testing.T) {
	reconcilertest.Check(t, reconcilertest.Subject[*dated, *store]{
		Target: func(testing.TB) *store { return &store{data: map[string]string{}} }, Dump: (*store).dump, Runs: 50,
		Table: func(db *statedb.DB) (statedb.RWTable[*dated], error) {
			return statedb.NewTableAny(db, "dated", nil, nil, statedb.Index[*dated, string]{Name: "name", Unique: true,
				FromObject: func(d *dated) index.KeySet { return index.NewKeySet(index.String(d.Name)) }})
		},
		States: func(*rand.Rand) [][]*dated { return [][]*dated{{{"a", time.Now()}}} },
		Start: func(e *reconcilertest.Env[*dated], s *store) {
			e.Start(reconciler.Config[*dated]{BatchOperations: datedOperations{s}, Lister: datedOperations{s}, OrphansOnly: true})
		},
	})
}

type datedOperations struct{ *store }

func (o datedOperations) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*dated]) {
	for i, e := range batch {
		_ = e.Object.At.Local().String()
		batch[i].Result = o.set(ctx, e.Object.Name, "here")
	}
}

func (o datedOperations) DeleteBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*dated]) {
	for i, e := range batch {
		batch[i].Result = o.remove(ctx, e.Object.Name)
	}
}

func (o datedOperations) List(_ context.Context, _ statedb.ReadTxn, yield func(*dated) bool) error {
	for name := range o.dump() {
		if !yield(&dated{Name: name}) {
			break
		}
	}
	return nil
}

// bisecting loads all entries or none, and sorts them before.
type bisecting struct{ plain }

func (b bisecting) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*entry]) {
	slices.Reverse(batch)
	reconciler.Bisect(ctx, batch, func(some []reconciler.BatchEntry[*entry]) error {
		var errs []error
		for _, e := range some {
			errs = append(errs, b.Update(ctx, nil, 0, e.Object))
		}
		return errors.Join(errs...)
	}, nil)
}

func (b bisecting) DeleteBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*entry]) {
	for i, e := range batch {
		batch[i].Result = b.Delete(ctx, nil, 0, e.Object)
	}
}

func TestABatchThatIsSortedAndBisectedPasses(t *testing.T) {
	s := subject(nil)
	s.Runs = 400
	s.Config = func(s *store) reconciler.Config[*entry] {
		return reconciler.Config[*entry]{BatchOperations: bisecting{plain{s}}}
	}
	reconcilertest.Check(t, s)
}

// The deletions of all orphans of a resync have one revision.
func TestDeletionsOfOrphansAreToldApart(t *testing.T) {
	s := batched(func(s *store) reconciler.BatchOperations[*entry] { return bisecting{plain{s}} }, "a b", "c", "a b")
	s.Plan = `0 1 2; kill and rewrite at "update batch" 1`
	reconcilertest.Check(t, s)
}

// lazy takes 20 seconds for each update, and for each listing.
type lazy struct{ plain }

func (l lazy) rest(ctx context.Context) error {
	select {
	case <-time.After(20 * time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l lazy) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	return errors.Join(l.rest(ctx), l.plain.Update(ctx, txn, revision, e))
}

func (l lazy) List(ctx context.Context, _ statedb.ReadTxn, yield func(*entry) bool) error {
	if err := l.rest(ctx); err != nil {
		return err
	}
	for key, value := range l.dump() {
		if !yield(&entry{key, strings.Fields(value)}) {
			break
		}
	}
	return nil
}

func TestTimeoutIsHowLongACallMayTake(t *testing.T) {
	s := configured(func(s *store) reconciler.Config[*entry] {
		return reconciler.Config[*entry]{Operations: lazy{plain{s}}, Lister: lazy{plain{s}}, Equal: equalEntries}
	})
	s.Runs = long.Times(100)
	require.Contains(t, failed(t, s), "deadline exceeded")
	s.Timeout = 30 * time.Second
	reconcilertest.Check(t, s)
}
