// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// operate makes the target's operations single ones, batches or rounds.
func operate(kind string) func(e *env, cfg *reconciler.Config[*object]) {
	return func(e *env, cfg *reconciler.Config[*object]) {
		switch kind {
		case "batches":
			cfg.BatchOperations = batchTarget{e.target}
		case "rounds":
			cfg.RoundOperations = roundTarget{e.target}
		}
	}
}

// everyWay runs a test with each kind of operations, each with one worker and with four,
// and without prunes.
func everyWay(t *testing.T, test func(e *env), opts ...reconciler.Option) {
	everyWayWith(t, nil, test, opts...)
}

// everyWayWith is everyWay with a further change of the configuration.
func everyWayWith(t *testing.T, change func(e *env, cfg *reconciler.Config[*object]), test func(e *env), opts ...reconciler.Option) {
	for _, kind := range []string{"single", "batches", "rounds"} {
		eachConcurrency(t, kind, test, func(e *env, cfg *reconciler.Config[*object]) {
			operate(kind)(e, cfg)
			if change != nil {
				change(e, cfg)
			}
		}, opts...)
	}
}

// singly runs a test with single operations, with one worker and with four.
func singly(t *testing.T, test func(e *env), opts ...reconciler.Option) {
	eachConcurrency(t, "single", test, nil, opts...)
}

func eachConcurrency(t *testing.T, name string, test func(e *env), change func(e *env, cfg *reconciler.Config[*object]), opts ...reconciler.Option) {
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprintf("%s, %d worker(s)", name, workers), func(t *testing.T) {
			all := slices.Concat([]reconciler.Option{reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers })}, opts)
			inBubble(t, test, change, all...)
		})
	}
}

// configure changes a configuration before it is used; nil changes nothing.
type configure = func(e *env, cfg *reconciler.Config[*object])

// both makes one change after the other.
func both(one, other configure) configure {
	return func(e *env, cfg *reconciler.Config[*object]) {
		for _, change := range []configure{one, other} {
			if change != nil {
				change(e, cfg)
			}
		}
	}
}

// serially makes objects of one group be worked on one at a time.
func serially(groupOf func(*object) string) configure {
	return func(_ *env, cfg *reconciler.Config[*object]) { cfg.SerialBy = groupOf }
}

// merging sets the merge function.
func merging(merge func(current, reconciled *object) *object) configure {
	return func(_ *env, cfg *reconciler.Config[*object]) { cfg.Merge = merge }
}

// classed makes a function tell the classes of errors, and then makes another change, if that is
// not nil.
func classed(class func(error) string, then func(e *env, cfg *reconciler.Config[*object])) func(e *env, cfg *reconciler.Config[*object]) {
	return func(e *env, cfg *reconciler.Config[*object]) {
		cfg.ErrorClass = class
		if then != nil {
			then(e, cfg)
		}
	}
}

// since returns when the calls came, counted from a time.
func since(start time.Time, calls []call) []time.Duration {
	var at []time.Duration
	for _, c := range calls {
		at = append(at, c.at.Sub(start))
	}
	return at
}

// seconds returns durations for tests to name in a row.
func seconds(of ...float64) []time.Duration {
	var out []time.Duration
	for _, s := range of {
		out = append(out, time.Duration(s*float64(time.Second)).Round(time.Millisecond))
	}
	return out
}

// status requires the row's status to be of a kind, with a text.
func (e *env) status(id uint64, kind reconciler.StatusKind, text string) {
	e.Helper()
	require.Equal(e, kind, e.kind(id), "object %d", id)
	require.Equal(e, text, e.get(id).Status.GetError(), "object %d", id)
}

// passTable counts the passes of the loop: each asks once how many objects there are.
type passTable struct {
	statedb.RWTable[*object]
	passes *atomic.Int64
}

// mostPasses ends a test whose loop goes round and round, which in a bubble would never
// end by itself.
const mostPasses = 1_000_000

func (p passTable) NumObjects(txn statedb.ReadTxn) int {
	if p.passes.Add(1) > mostPasses {
		panic("the loop spins")
	}
	return p.RWTable.NumObjects(txn)
}

// passes counts those of the loops of a test that is configured with it.
type passes struct{ atomic.Int64 }

func (p *passes) count(_ *env, cfg *reconciler.Config[*object]) {
	p.Store(0)
	cfg.Table = passTable{cfg.Table, &p.Int64}
}

// during returns how many passes there are while f runs.
func (p *passes) during(f func()) int64 {
	before := p.Load()
	f()
	return p.Load() - before
}
