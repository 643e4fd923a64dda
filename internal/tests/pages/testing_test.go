// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pages

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/edge"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

type Pool struct{ Name, Backends string }

func (p *Pool) String() string { return p.Name + "=[" + p.Backends + "]" }

func newPools(db *statedb.DB) (statedb.RWTable[*Pool], error) {
	return statedb.NewTableAny(db, "pools", nil, nil, indexBy("name", true, func(p *Pool) string { return p.Name }))
}

// Slots is the target. Each change is a step, at which Check lets it fail, or kills the program.
type Slots struct {
	mu sync.Mutex
	at map[string]string
}

func (s *Slots) change(ctx context.Context, step string, change func() error) error {
	return edge.Do(ctx, step, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return change()
	})
}

func (s *Slots) Set(ctx context.Context, key, value string) error {
	return s.change(ctx, "set "+key, func() error { s.at[key] = value; return nil })
}

func (s *Slots) Remove(ctx context.Context, key string) error {
	return s.change(ctx, "remove "+key, func() error { delete(s.at, key); return nil })
}

func (s *Slots) Dump() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.at)
}

type Operations struct{ slots *Slots }

func (o *Operations) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, p *Pool) error {
	backends := strings.Fields(p.Backends)
	for i, b := range backends {
		if err := o.slots.Set(ctx, fmt.Sprintf("%s/%d", p.Name, i), b); err != nil {
			return err
		}
	}
	return o.trim(ctx, p.Name, len(backends))
}

func (o *Operations) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, p *Pool) error {
	return o.trim(ctx, p.Name, 0)
}

// trim removes the slots of a pool from the n-th on.
func (o *Operations) trim(ctx context.Context, name string, n int) error {
	for key := range o.slots.Dump() {
		var i int
		if _, err := fmt.Sscanf(key, name+"/%d", &i); err != nil || i < n {
			continue
		}
		if err := o.slots.Remove(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

func (o *Operations) Prune(ctx context.Context, _ statedb.ReadTxn, pools iter.Seq2[*Pool, statedb.Revision]) error {
	wanted := map[string]bool{}
	for p := range pools {
		wanted[p.Name] = true
	}
	for key := range o.slots.Dump() {
		if name, _, _ := strings.Cut(key, "/"); !wanted[name] {
			if err := o.slots.Remove(ctx, key); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestPools(t *testing.T) {
	reconcilertest.Check(t, reconcilertest.Subject[*Pool, *Slots]{
		Target: func(testing.TB) *Slots { return &Slots{at: map[string]string{}} },
		Dump:   (*Slots).Dump,
		Table:  newPools,
		States: func(*rand.Rand) [][]*Pool {
			return [][]*Pool{{{"a", "A B"}, {"b", "A"}}, {{"a", "B"}, {"b", "A"}}}
		},
		Config: func(s *Slots) reconciler.Config[*Pool] {
			return reconciler.Config[*Pool]{Operations: &Operations{s}}
		},
	})
}
