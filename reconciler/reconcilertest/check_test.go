// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/edge"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// entry is a row: a key with values.
type entry struct {
	Key    string
	Values []string
}

func (e *entry) String() string { return fmt.Sprintf("%s=%v", e.Key, e.Values) }

// TableHeader and TableRow implement [statedb.TableWritable].
func (*entry) TableHeader() []string { return []string{"Key", "Values"} }
func (e *entry) TableRow() []string  { return []string{e.Key, fmt.Sprint(e.Values)} }

func newEntries(db *statedb.DB) (statedb.RWTable[*entry], error) {
	return statedb.NewTable(db, "entries", entryIndex)
}

var entryIndex = statedb.Index[*entry, string]{
	Name: "key", Unique: true, FromString: index.FromString, FromKey: index.String,
	FromObject: func(e *entry) index.KeySet { return index.NewKeySet(index.String(e.Key)) },
}

// store is a target: a map of keys.
type store struct {
	mu    sync.Mutex
	data  map[string]string
	made  int      // objects with a name of their own
	calls []string // of tracing
}

func (s *store) set(ctx context.Context, key, value string) error {
	return edge.Do(ctx, "set "+key, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.data[key] = value
		return nil
	})
}

func (s *store) remove(ctx context.Context, key string) error {
	return edge.Do(ctx, "remove "+key, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.data, key)
		return nil
	})
}

func (s *store) dump() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.data)
}

// healthy keeps the values of an entry at key/0, key/1, and so on, and the number of them at key.
type healthy struct{ *store }

func (h healthy) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	for i, v := range e.Values {
		if err := h.set(ctx, fmt.Sprintf("%s/%d", e.Key, i), v); err != nil {
			return err
		}
	}
	if err := h.trim(ctx, e.Key, len(e.Values)); err != nil {
		return err
	}
	return h.set(ctx, e.Key, fmt.Sprint(len(e.Values)))
}

// trim removes the values from n on.
func (h healthy) trim(ctx context.Context, key string, n int) error {
	have := h.dump()
	for i := 9; i >= n; i-- {
		name := fmt.Sprintf("%s/%d", key, i)
		if _, ok := have[name]; !ok {
			continue
		}
		if err := h.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (h healthy) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	return errors.Join(h.trim(ctx, e.Key, 0), h.remove(ctx, e.Key))
}

func (h healthy) Prune(ctx context.Context, txn statedb.ReadTxn, objects iter.Seq2[*entry, statedb.Revision]) error {
	wanted := map[string]bool{}
	for e := range objects {
		wanted[e.Key] = true
		for i := range e.Values {
			wanted[fmt.Sprintf("%s/%d", e.Key, i)] = true
		}
	}
	for name := range h.dump() {
		if !wanted[name] {
			if err := h.remove(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func subject(operations func(s *store) reconciler.Operations[*entry]) reconcilertest.Subject[*entry, *store] {
	return reconcilertest.Subject[*entry, *store]{
		Target: func(testing.TB) *store { return &store{data: map[string]string{}} },
		Dump:   (*store).dump,
		Table:  newEntries,
		States: func(*rand.Rand) [][]*entry {
			return [][]*entry{
				{{"a", []string{"1", "2"}}, {"b", []string{"1"}}},
				{{"a", []string{"2"}}, {"c", nil}},
				{{"b", []string{"2", "3", "4"}}},
			}
		},
		Config: func(s *store) reconciler.Config[*entry] { return reconciler.Config[*entry]{Operations: operations(s)} },
	}
}

func TestHealthyOperationsPass(t *testing.T) {
	s := subject(func(s *store) reconciler.Operations[*entry] { return healthy{s} })
	s.Runs = long.Times(200)
	reconcilertest.Check(t, s)
}

type leaky struct{ healthy }

func (l leaky) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	return l.remove(ctx, e.Key)
}

func TestALeakIsFound(t *testing.T) {
	s := subject(func(s *store) reconciler.Operations[*entry] { return leaky{healthy{s}} })
	failure := check.Expect(t, "", func() { reconcilertest.Check(t, s) })
	require.NotNil(t, failure)
	t.Log(failure.Text)
}
