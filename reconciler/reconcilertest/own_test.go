// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest_test

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/managed"
	"github.com/statekeel/statekeel/reconciler/object"
	"github.com/statekeel/statekeel/reconciler/ours"
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
	s.Config, s.Start, s.Runs = nil, start, long.Times(50)
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

// whenever calls with the rows of the Env, which stand for a store outside, whenever they change, and when the channel that
// the last call returned closes.
func whenever(e *reconcilertest.Env[*entry], call func(ctx context.Context, rows []*entry, revision statedb.Revision) (again <-chan struct{}, err error)) {
	reconcilertest.Go(e, func(ctx context.Context) error {
		var again <-chan struct{}
		for _, watch := e.Table.Initialized(e.DB.ReadTxn()); ; {
			select {
			case <-ctx.Done():
				return nil
			case <-watch:
			case <-again:
			}
			txn := e.DB.ReadTxn()
			var rows iter.Seq2[*entry, statedb.Revision]
			rows, watch = e.Table.AllWatch(txn)
			var err error
			if again, err = call(ctx, slices.Collect(statedb.ToSeq(rows)), e.Table.Revision(txn)); err != nil && ctx.Err() == nil {
				return err
			}
		}
	})
}

// A source that gets full lists.
func TestASourcePasses(t *testing.T) {
	reconcilertest.Check(t, started(func(e *reconcilertest.Env[*entry], s *store) {
		places, err := statedb.NewTable(e.DB, "places", entryIndex)
		require.NoError(e, err)
		sink, err := source.New(source.Config[*entry]{Name: "outside", DB: e.DB, Table: places, AllowEmpty: true})
		require.NoError(e, err)
		e.Cleanup(sink.Close)
		reconcilertest.Start(e, reconciler.Config[*entry]{Table: places, Operations: plain{s}})
		whenever(e, func(ctx context.Context, rows []*entry, revision statedb.Revision) (<-chan struct{}, error) {
			_, err := sink.Replace(ctx, rows, revision)
			return nil, err
		})
	}))
}

// written is a target that does not say who has made an object. The program writes that down in a folder, with package ours.
type written struct {
	*store
	folder string
}

func (w *written) dump() map[string]string {
	all := w.store.dump()
	files, _ := os.ReadDir(w.folder) // It may not be made yet.
	for _, file := range files {
		all["written down: "+file.Name()] = ""
	}
	return all
}

// noting keeps the values of an entry at its key, and touches only what is written down. hasty writes down before it looks
// whether somebody else has made the object, and late after it has made it.
type noting struct {
	*written
	names       *ours.Names
	hasty, late bool
}

func (o noting) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	if o.hasty {
		if err := o.names.Add(ctx, e.Key); err != nil {
			return err
		}
	}
	if _, exists := o.store.dump()[e.Key]; exists && !o.names.Has(e.Key) {
		return errors.New("somebody else has made it")
	}
	if !o.late {
		if err := o.names.Add(ctx, e.Key); err != nil {
			return err
		}
	}
	if err := o.set(ctx, e.Key, strings.Join(e.Values, " ")); err != nil {
		return err
	}
	return o.names.Add(ctx, e.Key)
}

func (o noting) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	if !o.names.Has(e.Key) {
		return nil
	}
	if err := o.remove(ctx, e.Key); err != nil {
		return err
	}
	return o.names.Remove(ctx, e.Key)
}

func (o noting) List(_ context.Context, _ statedb.ReadTxn, yield func(*entry) bool) error {
	has := o.store.dump()
	for _, name := range o.names.All() {
		e := &entry{Key: name, Values: []string{"absent"}}
		if value, exists := has[name]; exists {
			e.Values = strings.Fields(value)
		}
		if !yield(e) {
			break
		}
	}
	return nil
}

// ofWritten is the subject of noting, with names that a file system does not take as they are.
func ofWritten(hasty, late bool) reconcilertest.Subject[*entry, *written] {
	return reconcilertest.Subject[*entry, *written]{
		Target: func(t testing.TB) *written {
			return &written{&store{data: map[string]string{}}, filepath.Join(t.TempDir(), "ours")}
		},
		Dump: (*written).dump, Table: newEntries,
		States: func(*rand.Rand) [][]*entry {
			return [][]*entry{
				{{"10.0.0.0/8 dev a", []string{"1", "2"}}, {"b", []string{"1"}}, {"theirs", []string{"1"}}},
				{{"10.0.0.0/8 dev a", []string{"2"}}, {"..", []string{"3"}}},
				{{"b", []string{"2", "3", "4"}}},
			}
		},
		Config: func(w *written) reconciler.Config[*entry] {
			names, err := ours.Open(w.folder)
			if err != nil {
				panic(err)
			}
			o := noting{w, names, hasty, late}
			return reconciler.Config[*entry]{Operations: o, Lister: o,
				Equal: func(wanted, found *entry) bool { return slices.Equal(wanted.Values, found.Values) }}
		},
		Foreign: func(w *written) { w.data["theirs"] = "5" },
		Outside: map[string]func(*written){
			"b is changed": func(w *written) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if _, exists := w.data["b"]; exists {
					w.data["b"] = "7"
				}
			},
			"b is removed": func(w *written) {
				w.mu.Lock()
				defer w.mu.Unlock()
				delete(w.data, "b")
			},
		},
		Refused: []string{"update theirs"},
		Without: []string{"success without effect"}, // What is written down is on the disk.
		Runs:    long.Times(300),
	}
}

// The pattern of package ours: what is written down is what the target has of this program, wherever that is killed.
func TestWhatIsWrittenDownIsOurs(t *testing.T) {
	reconcilertest.Check(t, ofWritten(false, false))
	for name, broken := range map[string]reconcilertest.Subject[*entry, *written]{
		"written down before it looks": ofWritten(true, false), "written down after": ofWritten(false, true),
	} {
		failure := check.Expect(t, "", func() { reconcilertest.Check(t, broken) })
		require.NotNil(t, failure, name)
		t.Log(name, failure.Text)
	}
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

// bucket is a managed resource.
type bucket struct {
	managed.Meta
	Value  string
	Status reconciler.Status
}

func (b *bucket) Clone() *bucket                        { c := *b; return &c }
func (b *bucket) SetStatus(s reconciler.Status) *bucket { b.Status = s; return b }
func (b *bucket) GetStatus() reconciler.Status          { return b.Status }
func (b *bucket) TableHeader() []string                 { return []string{"Name", "Value", "Status"} }
func (b *bucket) TableRow() []string                    { return []string{b.Name, b.Value, b.Status.String()} }

// named returns a bucket, as a source has it or as a resync lists it.
func named(name string) *bucket {
	b := &bucket{Meta: managed.Meta{Meta: object.Meta{Name: name}}}
	b.Finalizers = []string{managed.FinalizerName}
	return b
}

// cloud makes buckets of the store, at their own names.
type cloud struct{ *store }

func (c cloud) Connect(context.Context, *bucket) (managed.ExternalClient[*bucket], error) {
	return c, nil
}

func (c cloud) Observe(_ context.Context, b *bucket) (managed.ExternalObservation, error) {
	value, exists := c.dump()[b.Name]
	return managed.ExternalObservation{ResourceExists: exists, ResourceUpToDate: value == b.Value}, nil
}

func (c cloud) Create(ctx context.Context, b *bucket) error { return c.set(ctx, b.Name, b.Value) }
func (c cloud) Update(ctx context.Context, b *bucket) error { return c.set(ctx, b.Name, b.Value) }
func (c cloud) Delete(ctx context.Context, b *bucket) error { return c.remove(ctx, b.Name) }

func (c cloud) List(_ context.Context, _ statedb.ReadTxn, yield func(*bucket) bool) error {
	for name := range c.dump() {
		if !yield(named(name)) {
			break
		}
	}
	return nil
}

func TestManagedResourcesPass(t *testing.T) {
	for name, orphansOnly := range map[string]bool{"orphans only": true, "all listed": false} {
		t.Run(name, func(t *testing.T) { reconcilertest.Check(t, ofManagedResources(orphansOnly)) })
	}
}

// ofManagedResources is a subject with resources that somebody else removes and edits.
func ofManagedResources(orphansOnly bool) reconcilertest.Subject[*entry, *store] {
	subject := started(func(e *reconcilertest.Env[*entry], s *store) {
		buckets, err := statedb.NewTable(e.DB, "buckets", statedb.Index[*bucket, string]{
			Name: "name", Unique: true, FromKey: index.String, FromString: index.FromString,
			FromObject: func(b *bucket) index.KeySet { return index.NewKeySet(index.String(b.Name)) },
		})
		require.NoError(e, err)
		cfg, err := managed.Configure(reconciler.Config[*bucket]{
			DB: e.DB, Table: buckets, Clone: (*bucket).Clone, SetStatus: (*bucket).SetStatus, GetStatus: (*bucket).GetStatus,
			Lister: cloud{s}, OrphansOnly: orphansOnly,
		}, managed.WithExternalConnecter[*bucket](cloud{s}), managed.WithDeterministicExternalName(), managed.WithCreationGracePeriod(0))
		require.NoError(e, err)
		writer := managed.NewWriter(cfg)
		wtxn := e.DB.WriteTxn(buckets)
		initialised := buckets.RegisterInitializer(wtxn, "rows")
		wtxn.Commit()
		reconcilertest.Start(e, cfg)
		whenever(e, func(_ context.Context, rows []*entry, _ statedb.Revision) (again <-chan struct{}, err error) {
			wtxn := e.DB.WriteTxn(buckets)
			defer wtxn.Commit()
			wanted := map[string]bool{}
			for _, row := range rows {
				wanted[row.Key] = true
				b := &bucket{Meta: managed.Meta{Meta: object.Meta{Name: row.Key}}}
				if _, err := writer.Apply(wtxn, b, func(b *bucket) { b.Value = strings.Join(row.Values, " ") }); errors.Is(err, managed.ErrTerminating) {
					_, again = buckets.AllWatch(wtxn)
				} else if err != nil {
					return nil, err
				}
			}
			for b := range buckets.All(wtxn) {
				if !wanted[b.Name] {
					if _, err := writer.Delete(wtxn, b); err != nil {
						return nil, err
					}
				}
			}
			initialised(wtxn)
			return again, nil
		})
	})
	outside := func(change func(data map[string]string)) func(s *store) {
		return func(s *store) {
			s.mu.Lock()
			defer s.mu.Unlock()
			change(s.data)
		}
	}
	subject.Outside = map[string]func(*store){
		"a is removed": outside(func(data map[string]string) { delete(data, "a") }),
		"b is edited": outside(func(data map[string]string) {
			if _, exists := data["b"]; exists {
				data["b"] = "edited"
			}
		}),
	}
	return subject
}
