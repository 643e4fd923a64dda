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

// operate configures the target's operations as single ones, batches or rounds.
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

// everyWay runs a test with each kind of operations, each with one worker and with four, without
// prunes.
func everyWay(t *testing.T, test func(e *env), opts ...reconciler.Option) {
	everyWayWith(t, nil, test, opts...)
}

// everyWayWith is everyWay with a change of the configuration.
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

// both applies two changes one after the other.
func both(one, other configure) configure {
	return func(e *env, cfg *reconciler.Config[*object]) {
		for _, change := range []configure{one, other} {
			if change != nil {
				change(e, cfg)
			}
		}
	}
}

// serially makes the objects of a group run one at a time.
func serially(groupOf func(*object) string) configure {
	return func(_ *env, cfg *reconciler.Config[*object]) { cfg.SerialBy = groupOf }
}

// merging sets the merge function.
func merging(merge func(current, reconciled *object) *object) configure {
	return func(_ *env, cfg *reconciler.Config[*object]) { cfg.Merge = merge }
}

// since returns the times of the calls relative to start.
func since(start time.Time, calls []call) []time.Duration {
	var at []time.Duration
	for _, c := range calls {
		at = append(at, c.at.Sub(start))
	}
	return at
}

// seconds returns durations from seconds, rounded to milliseconds.
func seconds(of ...float64) []time.Duration {
	var out []time.Duration
	for _, s := range of {
		out = append(out, time.Duration(s*float64(time.Second)).Round(time.Millisecond))
	}
	return out
}

// status requires that the row's status has the kind and the text.
func (e *env) status(id uint64, kind reconciler.StatusKind, text string) {
	e.Helper()
	require.Equal(e, kind, e.kind(id), "object %d", id)
	require.Equal(e, text, e.get(id).Status.GetError(), "object %d", id)
}

// passTable counts the passes of the loop: each pass calls NumObjects once.
type passTable struct {
	statedb.RWTable[*object]
	passes *atomic.Int64
}

// mostPasses ends a test whose loop spins. In a bubble it would never end by itself.
const mostPasses = 1_000_000

func (p passTable) NumObjects(txn statedb.ReadTxn) int {
	if p.passes.Add(1) > mostPasses {
		panic("the loop spins")
	}
	return p.RWTable.NumObjects(txn)
}

// passes counts the passes of the loops that are configured with count.
type passes struct{ atomic.Int64 }

func (p *passes) count(_ *env, cfg *reconciler.Config[*object]) {
	p.Store(0)
	cfg.Table = passTable{cfg.Table.(statedb.RWTable[*object]), &p.Int64}
}

// during returns the number of passes while f runs.
func (p *passes) during(f func()) int64 {
	before := p.Load()
	f()
	return p.Load() - before
}
