// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/request"
	"github.com/statekeel/statekeel/reconciler/source"
)

// Statekeel's own parts between the rows and a target.

// plain keeps the first value of an entry at its key.
type plain struct{ *store }

func (p plain) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	return p.set(ctx, e.Key, strings.Join(e.Values, " "))
}

func (p plain) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	return p.remove(ctx, e.Key)
}

func (p plain) Prune(ctx context.Context, _ statedb.ReadTxn, entries iter.Seq2[*entry, statedb.Revision]) error {
	kept := map[string]bool{}
	for e := range entries {
		kept[e.Key] = true
	}
	for key := range p.dump() {
		if !kept[key] {
			if err := p.remove(ctx, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// started is the subject with a program in place of a configuration.
func started(start func(e *reconcilertest.Env[*entry], s *store)) reconcilertest.Subject[*entry, *store] {
	s := subject(nil)
	s.Config, s.Start = nil, start
	return s
}

// reconciled starts a reconciler of the table "places", and returns the table.
func reconciled(e *reconcilertest.Env[*entry], s *store) statedb.RWTable[*entry] {
	places, err := statedb.NewTable(e.DB, "places", entryIndex)
	require.NoError(e, err)
	reconcilertest.Start(e, reconciler.Config[*entry]{Table: places, Operations: plain{s}})
	return places
}

// A derivation: each value of an entry is a place, and the entry with the smallest key has it.
func TestADerivationPasses(t *testing.T) {
	reconcilertest.Check(t, started(func(e *reconcilertest.Env[*entry], s *store) {
		derived, err := derive.Best(derive.Config[*entry]{DB: e.DB, Registry: e.Registry}, e.Table, reconciled(e, s),
			func(row *entry) (places []*entry, err error) {
				for _, v := range row.Values {
					places = append(places, &entry{Key: v, Values: []string{row.Key}})
				}
				return places, nil
			},
			func(row *entry) string { return row.Key })
		require.NoError(e, err)
		e.Cleanup(derived.Close)
		reconcilertest.Go(e, derived.Run)
	}))
}

// A source: the rows of the Env stand for a store outside, and are listed whenever they change.
func TestASourcePasses(t *testing.T) {
	reconcilertest.Check(t, started(func(e *reconcilertest.Env[*entry], s *store) {
		places, err := statedb.NewTable(e.DB, "places", entryIndex)
		require.NoError(e, err)
		sink, err := source.New(source.Config[*entry]{Name: "outside", DB: e.DB, Table: places, AllowEmpty: true})
		require.NoError(e, err)
		e.Cleanup(sink.Close)
		reconcilertest.Start(e, reconciler.Config[*entry]{Table: places, Operations: plain{s}})
		reconcilertest.Go(e, func(ctx context.Context) error {
			_, initialised := e.Table.Initialized(e.DB.ReadTxn())
			for watch := initialised; ; {
				select {
				case <-ctx.Done():
					return nil
				case <-watch:
				}
				txn := e.DB.ReadTxn()
				var rows iter.Seq2[*entry, statedb.Revision]
				rows, watch = e.Table.AllWatch(txn)
				list := slices.Collect(statedb.ToSeq(rows))
				if _, err := sink.Replace(ctx, list, e.Table.Revision(txn)); err != nil && ctx.Err() == nil {
					return fmt.Errorf("replacing: %w", err)
				}
			}
		})
	}))
}

// A controller of requests. It has no prune: at its start it requests what the target has.
func TestAControllerOfRequestsPasses(t *testing.T) {
	reconcilertest.Check(t, started(func(e *reconcilertest.Env[*entry], s *store) {
		operations := healthy{s}
		controller, err := request.New(request.Config[string]{
			DB: e.DB, Options: []reconciler.Option{reconciler.WithRegistry(e.Registry)},
			Sources: []request.Source[string]{request.For(e.Table, func(row *entry) string { return row.Key })},
			Reconciler: request.Func[string](func(ctx context.Context, key string) (request.Result, error) {
				row, revision, found := e.Table.Get(e.DB.ReadTxn(), entryIndex.Query(key))
				if !found {
					return request.Result{}, operations.Delete(ctx, nil, 0, &entry{Key: key})
				}
				return request.Result{}, operations.Update(ctx, nil, revision, row)
			}),
		})
		require.NoError(e, err)
		for name := range s.dump() {
			key, _, _ := strings.Cut(name, "/")
			controller.Add(key)
		}
		reconcilertest.Go(e, controller.Run)
	}))
}
