// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/edge"
	"github.com/statekeel/statekeel/reconciler/object"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/stateful"
	"github.com/statekeel/statekeel/reconciler/stepper"
)

// batches sets and removes the keys of a batch, one by one.
type batches struct{ *store }

func (b batches) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*entry]) {
	for i := range batch {
		batch[i].Result = healthy(b).Update(ctx, nil, 0, batch[i].Object)
	}
}

func (b batches) DeleteBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*entry]) {
	for i := range batch {
		batch[i].Result = healthy(b).Delete(ctx, nil, 0, batch[i].Object)
	}
}

// committing stages the changes of a round, and commits them in one step.
type committing struct{ *store }

func (c committing) ProcessRound(ctx context.Context, _ statedb.ReadTxn, deletes, updates []reconciler.BatchEntry[*entry]) {
	err := edge.Do(ctx, "commit", func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, e := range deletes {
			delete(c.data, e.Object.Key)
		}
		for _, e := range updates {
			c.data[e.Object.Key] = fmt.Sprint(e.Object.Values)
		}
		return nil
	})
	for _, entries := range [][]reconciler.BatchEntry[*entry]{deletes, updates} {
		for i := range entries {
			entries[i].Result = err
		}
	}
}

// volume is a row that carries its status.
type volume struct {
	object.Meta
	Values  map[string]int
	Written int // how often it was written
	Status  reconciler.Status
	found   string // the values as the target has them; of what a listing has found
}

func (v *volume) Clone() *volume                        { c := *v; return &c }
func (v *volume) GetStatus() reconciler.Status          { return v.Status }
func (v *volume) SetStatus(s reconciler.Status) *volume { v.Status = s; return v }
func (v *volume) String() string                        { return fmt.Sprintf("%s=%v", v.Name, v.Values) }
func (*volume) TableHeader() []string                   { return []string{"Name", "Values"} }
func (v *volume) TableRow() []string                    { return []string{v.Name, fmt.Sprint(v.Values)} }
func newVolume(name string, values map[string]int) *volume {
	return &volume{Meta: object.Meta{Name: name}, Values: values, Status: reconciler.StatusPending()}
}

func newVolumes(db *statedb.DB) (statedb.RWTable[*volume], error) {
	return statedb.NewTable(db, "volumes", statedb.Index[*volume, string]{
		Name: "name", Unique: true, FromString: index.FromString, FromKey: index.String,
		FromObject: func(v *volume) index.KeySet { return index.NewKeySet(index.String(v.Name)) },
	})
}

func volumes(config func(s *store) reconciler.Config[*volume]) reconcilertest.Subject[*volume, *store] {
	return reconcilertest.Subject[*volume, *store]{
		Target: func(testing.TB) *store { return &store{data: map[string]string{}} },
		Dump:   (*store).dump,
		Table:  newVolumes,
		States: func(*rand.Rand) [][]*volume {
			return [][]*volume{
				{newVolume("a", map[string]int{"x": 1, "y": 2}), newVolume("b", map[string]int{"x": 1})},
				{newVolume("a", map[string]int{"y": 3}), newVolume("c", nil)},
				{newVolume("b", map[string]int{"x": 2, "z": 4})},
			}
		},
		Config: func(s *store) reconciler.Config[*volume] {
			cfg := config(s) // an adapter has set these
			cfg.Clone, cfg.GetStatus, cfg.SetStatus = (*volume).Clone, (*volume).GetStatus, (*volume).SetStatus
			return cfg
		},
	}
}

// volumeOperations keep a volume as one object of the target, and write a field of the row.
type volumeOperations struct{ *store }

func (o volumeOperations) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, v *volume) error {
	err := o.set(ctx, v.Name, fmt.Sprint(v.Values))
	v.Written++
	return err
}

func (o volumeOperations) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, v *volume) error {
	return o.remove(ctx, v.Name)
}

func (o volumeOperations) List(_ context.Context, _ statedb.ReadTxn, yield func(*volume) bool) error {
	seen := map[string]bool{}
	for name := range o.dump() {
		key, _, _ := strings.Cut(name, "/")
		if !seen[key] && !yield(newVolume(key, nil)) {
			return nil
		}
		seen[key] = true
	}
	return nil
}

// steps is the hook of a stepper.
type steps struct{ *store }

func (s steps) EnterInState(engine *stepper.Stepper[*volume]) {
	v := engine.Object()
	switch engine.GetState() {
	case stepper.Updater:
		if err := s.set(engine.Context(), v.Name, fmt.Sprint(v.Values)); err != nil {
			engine.AddOp(v.Name, "set", err, time.Second)
			return
		}
		engine.AddOpSuccess(v.Name, "set")
	case stepper.CRFinalizer:
		if err := s.remove(engine.Context(), v.Name); err != nil {
			engine.AddOp(v.Name, "remove", err, time.Second)
		}
	}
}

// differences applies what differs. It observes the target: the annotation may be behind after a kill.
type differences struct {
	stateful.MapDiff[string, int]
	*store
}

func (differences) GetStateAnnotationKey() string { return "test/values" }

func (differences) ExtractCurrentState(v *volume) (map[string]int, error) {
	return maps.Clone(v.Values), nil
}

func (d differences) ObserveState(_ context.Context, v *volume) (map[string]int, error) {
	have := map[string]int{}
	for name, value := range d.dump() {
		if key, found := strings.CutPrefix(name, v.Name+"/"); found {
			have[key], _ = strconv.Atoi(value)
		}
	}
	return have, nil
}

func (d differences) ApplyOperations(ctx context.Context, v *volume, ops stateful.StateChangeOperations[map[string]int, stateful.Entry[string, int]]) error {
	for _, e := range ops.ItemsToRemove {
		if err := d.remove(ctx, v.Name+"/"+e.Key); err != nil {
			return err
		}
	}
	for _, items := range [][]stateful.Entry[string, int]{ops.ItemsToUpdate, ops.ItemsToAdd} {
		for _, e := range items {
			if err := d.set(ctx, v.Name+"/"+e.Key, fmt.Sprint(e.Value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// lister lists what the target has, with the values: an entry that is not complete has what is there.
type lister struct{ *store }

func (l lister) List(_ context.Context, _ statedb.ReadTxn, yield func(*entry) bool) error {
	found := l.entries()
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if !yield(found[key]) {
			return nil
		}
	}
	return nil
}

// entries returns what the target has by key. Without the number of values, or with another one, an entry ends with "?".
func (l lister) entries() map[string]*entry {
	have, found := l.dump(), map[string]*entry{}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		key, _, part := strings.Cut(name, "/")
		if found[key] == nil {
			found[key] = &entry{Key: key}
		}
		if part {
			found[key].Values = append(found[key].Values, have[name])
		}
	}
	for key, e := range found {
		if have[key] != strconv.Itoa(len(e.Values)) {
			e.Values = append(e.Values, "?")
		}
	}
	return found
}

func equalEntries(wanted, found *entry) bool { return slices.Equal(wanted.Values, found.Values) }

// volumeLister lists volumes with the text of their values.
type volumeLister struct{ *store }

func (l volumeLister) List(_ context.Context, _ statedb.ReadTxn, yield func(*volume) bool) error {
	for name, value := range l.dump() {
		v := newVolume(name, nil)
		v.found = value
		if !yield(v) {
			return nil
		}
	}
	return nil
}

func equalVolumes(wanted, found *volume) bool { return fmt.Sprint(wanted.Values) == found.found }

// needing applies a row when the row that its first value names is in the table.
type needing struct {
	healthy
	table statedb.Table[*entry]
}

func (n *needing) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	if len(e.Values) > 0 && e.Values[0] >= "a" {
		if _, err := reconciler.Need(txn, n.table, entryIndex.Query(e.Values[0]), "row "+e.Values[0]); err != nil {
			return err
		}
	}
	return n.healthy.Update(ctx, txn, revision, e)
}

// again asks to be called again, at once, later or with backoff.
type again struct{ healthy }

func (a again) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	if err := a.healthy.Update(ctx, txn, revision, e); err != nil || len(e.Values) == 0 {
		return err
	}
	if len(e.Values) == 2 {
		return reconciler.RequeueBackoff()
	}
	return reconciler.Requeue(3 * time.Second)
}

// Delete deletes in two calls.
func (a again) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	if a.has(e.Key) {
		if err := a.remove(ctx, e.Key); err != nil {
			return err
		}
		return reconciler.Requeue(time.Second)
	}
	return a.trim(ctx, e.Key, 0)
}

// checks returns a call of Check for a subject.
func checks[Obj any](subject func() reconcilertest.Subject[Obj, *store]) func(t *testing.T, runs int, seed uint64) {
	return func(t *testing.T, runs int, seed uint64) {
		s := subject()
		s.Runs, s.Seed = runs, seed
		reconcilertest.Check(t, s)
	}
}

// configured is the subject of a configuration for entries.
func configured(config func(s *store) reconciler.Config[*entry]) sub {
	s := subject(nil)
	s.Config = config
	return s
}

// configuredBy is the subject of an adapter for volumes, with a list of orphans.
func configuredBy(adapter func(s *store, cfg reconciler.Config[*volume]) (reconciler.Config[*volume], error)) reconcilertest.Subject[*volume, *store] {
	return volumes(func(s *store) reconciler.Config[*volume] {
		cfg, err := adapter(s, reconciler.Config[*volume]{
			Lister: volumeOperations{s}, OrphansOnly: true,
			Clone: (*volume).Clone, GetStatus: (*volume).GetStatus, SetStatus: (*volume).SetStatus,
		})
		if err != nil {
			panic(err)
		}
		return cfg
	})
}

// healthySubjects are fourteen, each with the runs and the seed of a call.
var healthySubjects = []struct {
	name  string
	check func(t *testing.T, runs int, seed uint64)
}{
	{"single operations", checks(func() sub {
		return configured(func(s *store) reconciler.Config[*entry] {
			return reconciler.Config[*entry]{Operations: healthy{s}}
		})
	})},
	{"batches with a list of orphans", checks(func() sub {
		return configured(func(s *store) reconciler.Config[*entry] {
			return reconciler.Config[*entry]{BatchOperations: batches{s}, Lister: keyLister{s}, OrphansOnly: true}
		})
	})},
	{"rounds with a prune", checks(func() sub {
		return configured(func(s *store) reconciler.Config[*entry] {
			return reconciler.Config[*entry]{RoundOperations: committing{s}, Pruner: healthy{s}}
		})
	})},
	{"four workers, serial by key", checks(func() sub {
		return configured(func(s *store) reconciler.Config[*entry] {
			return reconciler.Config[*entry]{
				Operations: healthy{s}, Lister: keyLister{s}, OrphansOnly: true,
				SerialBy: func(e *entry) string { return e.Key[:1] },
				Options:  []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 })},
			}
		})
	})},
	{"blocked by another row", checks(func() sub {
		s := configured(nil)
		s.Start = func(e *reconcilertest.Env[*entry], s *store) {
			p := &needing{healthy{s}, e.Table}
			e.Start(reconciler.Config[*entry]{Operations: p})
		}
		s.States = list("a b=a", "a=1 b=a c=b", "a")
		return s
	})},
	{"asking to be called again", checks(func() sub {
		return configured(func(s *store) reconciler.Config[*entry] {
			return reconciler.Config[*entry]{Operations: again{healthy{s}}}
		})
	})},
	{"a derivation in front", checks(func() sub {
		s := configured(nil)
		s.Start = func(e *reconcilertest.Env[*entry], s *store) {
			out, err := statedb.NewTable(e.DB, "derived", entryIndex)
			require.NoError(e, err)
			d, err := derive.Each(derive.Config[*entry]{DB: e.DB}, e.Table, out, func(row *entry) (rows []*entry, err error) {
				for _, v := range row.Values {
					rows = append(rows, &entry{Key: row.Key + v, Values: []string{v}})
				}
				return rows, nil
			})
			require.NoError(e, err)
			e.Cleanup(func() { d.Close() })
			reconcilertest.Go(e.TB, d.Run)
			reconcilertest.Start(e, reconciler.Config[*entry]{Table: out, Operations: healthy{s}})
		}
		return s
	})},
	{"rows that carry a status, with a list of orphans", checks(func() reconcilertest.Subject[*volume, *store] {
		return volumes(func(s *store) reconciler.Config[*volume] {
			return reconciler.Config[*volume]{Operations: volumeOperations{s}, Lister: volumeOperations{s}, OrphansOnly: true}
		})
	})},
	{"a listing", checks(func() sub {
		s := configured(func(s *store) reconciler.Config[*entry] {
			return reconciler.Config[*entry]{Operations: healthy{s}, Lister: lister{s}, Equal: equalEntries}
		})
		s.Outside = map[string]func(*store){"a is removed": func(s *store) { s.mu.Lock(); delete(s.data, "a"); s.mu.Unlock() }}
		return s
	})},
	{"a listing, batches", checks(func() sub {
		return configured(func(s *store) reconciler.Config[*entry] {
			return reconciler.Config[*entry]{BatchOperations: batches{s}, Lister: lister{s}, Equal: equalEntries}
		})
	})},
	{"a listing, four workers", checks(func() sub {
		return configured(func(s *store) reconciler.Config[*entry] {
			return reconciler.Config[*entry]{
				Operations: again{healthy{s}}, Lister: lister{s}, Equal: equalEntries,
				Options: []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 })},
			}
		})
	})},
	{"a listing, rows that carry a status", checks(func() reconcilertest.Subject[*volume, *store] {
		return volumes(func(s *store) reconciler.Config[*volume] {
			return reconciler.Config[*volume]{Operations: volumeOperations{s}, Lister: volumeLister{s}, Equal: equalVolumes}
		})
	})},
	{"a stepper", checks(func() reconcilertest.Subject[*volume, *store] {
		return configuredBy(func(s *store, cfg reconciler.Config[*volume]) (reconciler.Config[*volume], error) {
			return stepper.Configure(cfg, stepper.NewStepper(steps{s}))
		})
	})},
	{"a stateful adapter", checks(func() reconcilertest.Subject[*volume, *store] {
		return configuredBy(func(s *store, cfg reconciler.Config[*volume]) (reconciler.Config[*volume], error) {
			return stateful.Configure(cfg, differences{store: s})
		})
	})},
}

// With STATEKEEL_LONG=100 these are 100 seeds of 300 runs for each of them.
func TestHealthySubjectsPass(t *testing.T) {
	seeds, runs := long.Times(1), 40
	if seeds > 1 {
		runs = 300
	}
	for _, subject := range healthySubjects {
		t.Run(subject.name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				subject.check(t, runs, seed)
			}
		})
	}
}
