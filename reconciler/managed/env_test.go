// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/managed"
	"github.com/statekeel/statekeel/reconciler/object"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is a table, a cloud, and a loop between them, in virtual time.
type env struct {
	*reconcilertest.Env[*bucket]
	cloud  *cloud
	events *events
	vault  *vault
	// names are the names of the objects of the test, at least as many as there are workers.
	names   []string
	workers int
}

// each runs a test with one worker and one object, and with 8 workers and a dozen objects. opts are those of
// configure.
func each(t *testing.T, test func(e *env), opts ...any) {
	t.Helper()
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, workers)
				e.start(opts...)
				test(e)
			})
		})
	}
}

// table runs a test for each case, as each does.
func table[T any](t *testing.T, cases map[string]T, test func(e *env, tt T), opts ...any) {
	t.Helper()
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) { each(t, func(e *env) { test(e, tt) }, opts...) })
	}
}

func newBuckets(db *statedb.DB) (statedb.RWTable[*bucket], error) {
	return statedb.NewTable(db, "buckets", byName)
}

func newEnv(t *testing.T, workers int) *env {
	e := &env{
		Env: reconcilertest.New(t, newBuckets), workers: workers,
		cloud: newCloud(&outside{buckets: map[string]stored{}}), events: &events{byName: map[string][]string{}},
	}
	e.vault = &vault{e.cloud, map[string]managed.ConnectionDetails{}}
	for i := range workers*2 - workers/4 - 1 {
		e.names = append(e.names, fmt.Sprintf("b%02d", i))
	}
	if workers == 1 {
		e.names = []string{"b00"}
	}
	return e
}

func (e *env) config() reconciler.Config[*bucket] {
	return e.Config(reconciler.Config[*bucket]{
		Clone: (*bucket).Clone, SetStatus: (*bucket).SetStatus, GetStatus: (*bucket).GetStatus,
		Log: slog.New(slog.DiscardHandler),
		Options: []reconciler.Option{
			reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = e.workers }),
			reconciler.WithRetry(time.Second, time.Minute),
		},
	})
}

// configure returns the configuration of a loop. Each of opts is an option of package managed or of the loop, a
// change of the configuration, a function that returns one of these for the env, or a slice of all that.
func (e *env) configure(opts ...any) (reconciler.Config[*bucket], error) {
	cfg := e.config()
	with := []managed.ReconcilerOption{managed.WithExternalConnecter(e.cloud), managed.WithRecorder(e.events)}
	var add func(opt any)
	add = func(opt any) {
		switch opt := opt.(type) {
		case managed.ReconcilerOption:
			with = append(with, opt)
		case reconciler.Option:
			cfg.Options = append(cfg.Options, opt)
		case func(cfg *reconciler.Config[*bucket]):
			opt(&cfg)
		case func(e *env) any:
			add(opt(e))
		case []any:
			for _, one := range opt {
				add(one)
			}
		default:
			e.Fatalf("%T is no option", opt)
		}
	}
	add(opts)
	return managed.Configure(cfg, with...)
}

func (e *env) start(opts ...any) {
	e.Helper()
	cfg, err := e.configure(opts...)
	require.NoError(e, err)
	e.Start(cfg)
}

var (
	noGrace       = managed.WithCreationGracePeriod(0)
	deterministic = []any{
		managed.WithDeterministicExternalName(), managed.WithInitializers(managed.NewNameAsExternalName[*bucket]()),
	}
	// relisted makes the loop look for orphans every ten seconds.
	relisted = []any{noGrace, reconciler.WithSettings(func(s *reconciler.Settings) { s.ResyncInterval = 10 * time.Second }), func(e *env) any {
		return func(cfg *reconciler.Config[*bucket]) { cfg.Lister = e.cloud }
	}}
	published = func(e *env) any { return managed.WithConnectionPublishers[*bucket](e.vault) }
)

func (e *env) writer() managed.Writer[*bucket] {
	return managed.NewWriter(e.config())
}

// write changes the table for all objects of the test, in one transaction.
func (e *env) write(f func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string)) {
	e.Helper()
	e.Write(func(wtxn statedb.WriteTxn) {
		for _, name := range e.names {
			f(e.writer(), wtxn, name)
		}
	})
	pass(0)
}

// want applies all objects with a size.
func (e *env) want(size int, also ...func(b *bucket)) {
	e.Helper()
	e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
		_, err := w.Apply(wtxn, named(name), func(b *bucket) {
			b.Size = size
			for _, f := range also {
				f(b)
			}
		})
		require.NoError(e, err)
	})
}

// edit changes all rows, as a person does.
func (e *env) edit(f func(b *bucket)) {
	e.Helper()
	e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
		found, err := w.Edit(wtxn, named(name), f)
		require.NoError(e, err)
		require.True(e, found)
	})
}

func (e *env) remove() {
	e.Helper()
	e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
		found, err := w.Delete(wtxn, named(name))
		require.NoError(e, err)
		require.True(e, found)
	})
}

func (e *env) removeDirectly() {
	e.Helper()
	e.write(func(_ managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
		_, _, err := e.Table.Delete(wtxn, named(name))
		require.NoError(e, err)
	})
}

// insert writes rows as a program without a Writer does.
func (e *env) insert(rows ...*bucket) {
	for _, b := range rows {
		e.Insert(b.Clone().SetStatus(reconciler.StatusPending()))
	}
}

func (e *env) drop(name string) { e.Delete(named(name)) }

// editOne changes a row, if there is one, as a person does.
func (e *env) editOne(name string, f func(b *bucket)) {
	e.Write(func(wtxn statedb.WriteTxn) {
		_, err := e.writer().Edit(wtxn, named(name), f)
		require.NoError(e, err)
	})
}

func (e *env) deleteOne(name string) {
	e.Write(func(wtxn statedb.WriteTxn) {
		_, err := e.writer().Delete(wtxn, named(name))
		require.NoError(e, err)
	})
}

// share writes a row, if there is one, as another reconciler does that does not know this one.
func (e *env) share(name string) {
	e.Write(func(wtxn statedb.WriteTxn) {
		if row, _, found := e.Table.Get(wtxn, byName.Query(name)); found {
			next := row.Clone()
			next.Other = reconciler.StatusDone()
			_, _, err := e.Table.Insert(wtxn, next)
			require.NoError(e, err)
		}
	})
}

func (e *env) hide(hidden bool) { e.cloud.set(func() { e.cloud.blind = hidden }) }

func (e *env) sticky(stay bool) { e.cloud.set(func() { e.cloud.stays = func() bool { return stay } }) }

// there adds a resource for each object to the cloud, with this before its name.
func (e *env) there(prefix string, size int) {
	e.cloud.set(func() {
		for _, name := range e.names {
			e.cloud.buckets[prefix+name] = stored{owner: name, size: size}
		}
	})
}

// drift gives each resource a size.
func (e *env) drift(size int) {
	e.cloud.set(func() {
		for id, s := range e.cloud.buckets {
			s.size = size
			e.cloud.buckets[id] = s
		}
	})
}

func (e *env) get(name string) *bucket {
	b, _ := e.Get(named(name))
	return b
}

// rows calls f with every row. All of them must exist.
func (e *env) rows(f func(b *bucket)) {
	e.Helper()
	for _, name := range e.names {
		b := e.get(name)
		require.NotNil(e, b, "row %q is missing", name)
		f(b)
	}
}

// gone requires that all rows have left the table, and what the cloud holds.
func (e *env) gone(size int) {
	e.Helper()
	for _, name := range e.names {
		require.Nil(e, e.get(name), "row %q", name)
	}
	e.holds(size)
}

// removed requires the same a minute after the deletion is requested.
func (e *env) removed(size int) {
	e.Helper()
	e.remove()
	pass(time.Minute)
	e.gone(size)
}

// called requires the calls for every object since the last check.
func (e *env) called(want ...string) {
	e.Helper()
	for _, name := range e.names {
		require.Equal(e, want, e.cloud.take(name), "calls for %q", name)
	}
}

// calledAlso requires this to be among the calls for every object, notCalled that it is not.
func (e *env) calledAlso(op string) {
	e.Helper()
	for _, name := range e.names {
		require.Contains(e, e.cloud.take(name), op, "calls for %q", name)
	}
}

func (e *env) notCalled(op string) {
	e.Helper()
	for _, name := range e.names {
		require.NotContains(e, e.cloud.take(name), op, "calls for %q", name)
	}
}

// holds requires the cloud to have one bucket of this size for every object, and none if size is -1.
func (e *env) holds(size int) {
	e.Helper()
	want := []int{size}
	if size < 0 {
		want = nil
	}
	for _, name := range e.names {
		require.Equal(e, want, e.cloud.holds(name), "buckets of %q", name)
	}
}

func (e *env) told(want ...string) {
	e.Helper()
	for _, name := range e.names {
		require.Equal(e, want, e.events.take(name), "events of %q", name)
	}
}

// is requires the reasons of the two conditions of every row.
func (e *env) is(synced, ready managed.ConditionReason) {
	e.Helper()
	e.rows(func(b *bucket) {
		require.Equal(e, synced, b.GetCondition(managed.TypeSynced).Reason, "synced of %q: %+v", b.Name, b.Conditions)
		require.Equal(e, ready, b.GetCondition(managed.TypeReady).Reason, "ready of %q: %+v", b.Name, b.Conditions)
	})
}

func (e *env) status(want reconciler.StatusKind) {
	e.Helper()
	e.rows(func(b *bucket) { require.Equal(e, want, b.Status.Kind, "%q: %s", b.Name, b.Status) })
}

// settle creates all objects, and drops the recorded calls and events.
func (e *env) settle(size int, also ...func(b *bucket)) {
	e.Helper()
	e.want(size, also...)
	pass(time.Second)
	e.holds(size)
	e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
	e.forget()
}

// waitReady waits until the first object is ready, for ten minutes.
func (e *env) waitReady() (*bucket, error) {
	ctx, cancel := context.WithTimeout(e.Context(), 10*time.Minute)
	defer cancel()
	return managed.WaitReady(ctx, e.DB, e.Table, named(e.names[0]))
}

func (e *env) forget() {
	for _, name := range e.names {
		e.cloud.take(name)
		e.events.take(name)
	}
}

func (e *env) revision() statedb.Revision { return e.Table.Revision(e.DB.ReadTxn()) }

// slack is how long a loop may gather work that is due together, and pace its rounds.
const slack = 10 * time.Millisecond

// pass advances virtual time by d and slack, and waits until the loop is idle.
func pass(d time.Duration) {
	time.Sleep(d + slack)
	synctest.Wait()
}

func named(name string) *bucket { return &bucket{Meta: managed.Meta{Meta: object.Meta{Name: name}}} }

// setCreate notes on a row the time of a create: "pending", "succeeded" or "failed".
func setCreate(b *bucket, result string, at time.Time) {
	b.SetAnnotation(managed.AnnotationPrefix+"external-create-"+result, at.UTC().Format(time.RFC3339Nano))
}

// createdAt returns what setCreate notes; zero if there is nothing.
func createdAt(b *bucket, result string) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, b.GetAnnotations()[managed.AnnotationPrefix+"external-create-"+result])
	return at
}

// bucket is a row: a resource of the cloud.
type bucket struct {
	managed.Meta
	Size   int
	Region string // filled in by the cloud if empty
	Seen   int    // the size that the cloud has
	Status reconciler.Status
	Other  reconciler.Status
	// All holds the statuses of several reconcilers.
	All   reconciler.StatusSet
	State struct {
		Load   int
		Backup string
		At     time.Time
	}
	Tags  map[string]string
	Zones []string
	Disk  *disk
	note  string
}

// disk is a part of a bucket that a client may fill in in place, if Clone has copied it.
type disk struct{ Size int }

var _ managed.Resource = (*bucket)(nil)

func (b *bucket) Clone() *bucket                        { c := *b; return &c }
func (b *bucket) SetStatus(s reconciler.Status) *bucket { b.Status = s; return b }
func (b *bucket) GetStatus() reconciler.Status          { return b.Status }
func (b *bucket) TableHeader() []string                 { return []string{"Name", "Status"} }
func (b *bucket) TableRow() []string                    { return []string{b.Name, b.Status.String()} }

// deepClone returns a clone that shares nothing with the row.
func (b *bucket) deepClone() *bucket {
	c := *b
	c.Annotations, c.Finalizers, c.Conditions = maps.Clone(b.Annotations), slices.Clone(b.Finalizers), slices.Clone(b.Conditions)
	c.Tags, c.Zones = maps.Clone(b.Tags), slices.Clone(b.Zones)
	if b.Disk != nil {
		d := *b.Disk
		c.Disk = &d
	}
	return &c
}

// see sets a size in place, in all that a deep clone has copied.
func (b *bucket) see(size int) {
	if b.Disk == nil {
		filled(b)
	}
	for _, set := range inPlace {
		set(b, size)
	}
}

// deep makes deep clones for a loop.
func deep(cfg *reconciler.Config[*bucket]) { cfg.Clone = (*bucket).deepClone }

var byName = statedb.Index[*bucket, string]{
	Name: "name",
	FromObject: func(b *bucket) index.KeySet {
		if b.Name == "keyless" {
			return index.EmptyKeySet
		}
		return index.NewKeySet(index.String(b.Name))
	},
	FromKey:    index.String,
	FromString: index.FromString,
	Unique:     true,
}

var _ event.Recorder = (*events)(nil)

type events struct {
	mu     sync.Mutex
	byName map[string][]string
}

func (r *events) Event(obj object.Object, e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byName[obj.GetName()] = append(r.byName[obj.GetName()], string(e.Type)+" "+string(e.Reason))
}

func (r *events) take(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.byName[name]
	delete(r.byName, name)
	return told
}
