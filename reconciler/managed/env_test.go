// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"fmt"
	"log/slog"
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
	// names are the names of the objects of the test, at least as many as there are workers.
	names   []string
	workers int
	// sweeper lists the resources; nil means no sweeps. again are the options of a test that starts
	// another loop.
	sweeper *lister
	again   []managed.ReconcilerOption
	// options are the options of the loop, besides those of config.
	options []reconciler.Option
}

// each runs a test with one worker and one object, and with 8 workers and a dozen objects. opts is
// called for each run; nil means no options.
func each(t *testing.T, test func(e *env), opts func(e *env) []managed.ReconcilerOption) {
	t.Helper()
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, workers)
				var with []managed.ReconcilerOption
				if opts != nil {
					with = opts(e)
				}
				e.start(with...)
				test(e)
			})
		})
	}
}

func newEnv(t *testing.T, workers int) *env {
	e := &env{cloud: newCloud(), events: &events{}, workers: workers}
	e.Env = reconcilertest.New(t, func(db *statedb.DB) (statedb.RWTable[*bucket], error) {
		return statedb.NewTable(db, "buckets", byName)
	})
	for i := range workers*2 - workers/4 - 1 {
		e.names = append(e.names, fmt.Sprintf("b%02d", i))
	}
	if workers == 1 {
		e.names = []string{"b00"}
	}
	return e
}

func (e *env) config() reconciler.Config[*bucket] {
	cfg := reconciler.Config[*bucket]{
		Clone: (*bucket).Clone, SetStatus: (*bucket).SetStatus, GetStatus: (*bucket).GetStatus,
		Log: slog.New(slog.DiscardHandler),
		Options: append([]reconciler.Option{
			reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = e.workers }), reconciler.WithRetry(time.Second, time.Minute),
		}, e.options...),
	}
	if e.sweeper != nil {
		cfg.Sweeper = e.sweeper
	}
	return e.Config(cfg)
}

func newLoop[T managed.Managed](cfg reconciler.Config[T], opts ...managed.ReconcilerOption) (*reconciler.Loop[T], error) {
	cfg, err := managed.Configure(cfg, opts...)
	if err != nil {
		return nil, err
	}
	return reconciler.New(cfg)
}

// start starts a loop. It runs until the test ends or calls Stop.
func (e *env) start(opts ...managed.ReconcilerOption) {
	e.Helper()
	cfg, err := managed.Configure(e.config(), append([]managed.ReconcilerOption{
		managed.WithExternalConnecter(e.cloud), managed.WithRecorder(e.events),
	}, opts...)...)
	require.NoError(e, err)
	e.Start(cfg)
}

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

// remove requests the deletion of all objects.
func (e *env) remove() {
	e.Helper()
	e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
		found, err := w.Delete(wtxn, named(name))
		require.NoError(e, err)
		require.True(e, found)
	})
}

// removeDirectly removes all rows from the table without Writer.Delete.
func (e *env) removeDirectly() {
	e.Helper()
	e.write(func(_ managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
		_, _, err := e.Table.Delete(wtxn, named(name))
		require.NoError(e, err)
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

// gone requires that all rows have left the table.
func (e *env) gone() {
	e.Helper()
	for _, name := range e.names {
		require.Nil(e, e.get(name), "row %q", name)
	}
}

// called requires the calls for every object since the last check.
func (e *env) called(want ...string) {
	e.Helper()
	for _, name := range e.names {
		require.Equal(e, want, e.cloud.take(name), "calls for %q", name)
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

// told requires the events of every object since the last check.
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

// status requires the kind of the status of every row.
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

func (e *env) forget() {
	for _, name := range e.names {
		e.cloud.take(name)
		e.events.take(name)
	}
}

// revision returns the revision of the table, which grows with every write.
func (e *env) revision() statedb.Revision { return e.Table.Revision(e.DB.ReadTxn()) }

// slack is how long a loop may gather work that is due together, and pace its rounds.
const slack = 10 * time.Millisecond

// pass advances virtual time by d and slack, and waits until the loop is idle.
func pass(d time.Duration) {
	time.Sleep(d + slack)
	synctest.Wait()
}

func named(name string) *bucket { return &bucket{Meta: managed.Meta{Meta: object.Meta{Name: name}}} }

// synced is the condition of a row whose last pass succeeded.
var synced = managed.Condition{Type: managed.TypeSynced, Status: managed.ConditionTrue, Reason: "ReconcileSuccess"}

// setCreate notes on a row the time of a create: "pending", "succeeded" or "failed".
func setCreate(b *bucket, result string, at time.Time) {
	b.SetAnnotation(managed.AnnotationPrefix+"external-create-"+result, at.UTC().Format(time.RFC3339Nano))
}

// createdAt returns what setCreate notes; zero if there is nothing.
func createdAt(b *bucket, result string) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, b.GetAnnotations()[managed.AnnotationPrefix+"external-create-"+result])
	return at
}

// asItIs sets nothing on an applied row.
func asItIs(*bucket) {}

// publisherFns is a publisher made of functions. A nil function does nothing.
type publisherFns[T any] struct {
	publish, unpublish func(ctx context.Context, obj T, details managed.ConnectionDetails) error
}

func (fns publisherFns[T]) PublishConnection(ctx context.Context, obj T, details managed.ConnectionDetails) error {
	if fns.publish == nil {
		return nil
	}
	return fns.publish(ctx, obj, details)
}

func (fns publisherFns[T]) UnpublishConnection(ctx context.Context, obj T, details managed.ConnectionDetails) error {
	if fns.unpublish == nil {
		return nil
	}
	return fns.unpublish(ctx, obj, details)
}

// finalizerFns is a finalizer made of functions. A nil function does nothing.
type finalizerFns[T any] struct {
	add, remove func(ctx context.Context, obj T) error
}

func (fns finalizerFns[T]) AddFinalizer(ctx context.Context, obj T) error {
	if fns.add == nil {
		return nil
	}
	return fns.add(ctx, obj)
}

func (fns finalizerFns[T]) RemoveFinalizer(ctx context.Context, obj T) error {
	if fns.remove == nil {
		return nil
	}
	return fns.remove(ctx, obj)
}

// bucket is a row: a resource of the cloud.
type bucket struct {
	managed.Meta
	Size   int
	Region string // filled in by the cloud if empty
	Seen   int    // the size that the cloud has
	Status reconciler.Status
	Other  reconciler.Status
}

var _ managed.Resource = (*bucket)(nil)

func (b *bucket) Clone() *bucket                        { c := *b; return &c }
func (b *bucket) SetStatus(s reconciler.Status) *bucket { b.Status = s; return b }
func (b *bucket) GetStatus() reconciler.Status          { return b.Status }
func (b *bucket) TableHeader() []string                 { return []string{"Name", "Status"} }
func (b *bucket) TableRow() []string                    { return []string{b.Name, b.Status.String()} }

var byName = statedb.Index[*bucket, string]{
	Name:       "name",
	FromObject: func(b *bucket) index.KeySet { return index.NewKeySet(index.String(b.Name)) },
	FromKey:    index.String,
	FromString: index.FromString,
	Unique:     true,
}

// stored is a bucket in the cloud.
type stored struct {
	owner string
	size  int
}

// cloud is the outside system. It chooses the names of its buckets.
type cloud struct {
	mu      sync.Mutex
	buckets map[string]*stored
	created int
	// blind: buckets are not visible. sticky: deleted buckets stay. lateRegion: Observe fills in a
	// region.
	blind, sticky, lateRegion bool
	// faults run before an operation, effects after it.
	faults, effects map[string]func(ctx context.Context, b *bucket) error
	calls           map[string][]string
}

func newCloud() *cloud {
	return &cloud{
		buckets: map[string]*stored{}, calls: map[string][]string{},
		faults:  map[string]func(context.Context, *bucket) error{},
		effects: map[string]func(context.Context, *bucket) error{},
	}
}

var (
	_ managed.ExternalClient[*bucket]    = (*cloud)(nil)
	_ managed.ExternalConnecter[*bucket] = (*cloud)(nil)
)

// call records a call, and returns the error of the fault that is set for it.
func (c *cloud) call(ctx context.Context, op string, b *bucket) error {
	c.mu.Lock()
	c.calls[b.Name] = append(c.calls[b.Name], op)
	fault := c.faults[op]
	c.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(ctx, b)
}

func (c *cloud) after(ctx context.Context, op string, b *bucket) error {
	c.mu.Lock()
	effect := c.effects[op]
	c.mu.Unlock()
	if effect == nil {
		return nil
	}
	return effect(ctx, b)
}

func (c *cloud) Connect(ctx context.Context, b *bucket) (managed.ExternalClient[*bucket], error) {
	if err := c.call(ctx, "connect", b); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *cloud) Observe(ctx context.Context, b *bucket) (seen managed.ExternalObservation, err error) {
	if err := c.call(ctx, "observe", b); err != nil {
		return seen, err
	}
	c.mu.Lock()
	s, exists := c.buckets[managed.GetExternalName(b)]
	if exists = exists && !c.blind; exists {
		seen.ResourceExists = true
		seen.ResourceUpToDate = s.size == b.Size
		seen.Diff = fmt.Sprintf("size %d, want %d", s.size, b.Size)
		seen.ConnectionDetails = managed.ConnectionDetails{"address": []byte(managed.GetExternalName(b))}
		b.Seen = s.size
		if c.lateRegion && b.Region == "" {
			b.Region, seen.ResourceLateInitialized = "north", true
		}
	}
	c.mu.Unlock()
	return seen, c.after(ctx, "observe", b)
}

func (c *cloud) Create(ctx context.Context, b *bucket) error {
	if err := c.call(ctx, "create", b); err != nil {
		return err
	}
	c.mu.Lock()
	c.created++
	name := managed.GetExternalName(b)
	if name == "" {
		name = fmt.Sprintf("%s-%d", b.Name, c.created)
		managed.SetExternalName(b, name)
		noteZone(b, name)
	}
	c.buckets[name] = &stored{b.Name, b.Size}
	c.mu.Unlock()
	b.Seen = -1 // the reconciler must drop this
	return c.after(ctx, "create", b)
}

func (c *cloud) Update(ctx context.Context, b *bucket) error {
	if err := c.call(ctx, "update", b); err != nil {
		return err
	}
	c.mu.Lock()
	c.buckets[managed.GetExternalName(b)].size = b.Size
	c.mu.Unlock()
	return c.after(ctx, "update", b)
}

func (c *cloud) Delete(ctx context.Context, b *bucket) error {
	if err := c.call(ctx, "delete", b); err != nil {
		return err
	}
	c.mu.Lock()
	if !c.sticky {
		delete(c.buckets, managed.GetExternalName(b))
	}
	c.mu.Unlock()
	return c.after(ctx, "delete", b)
}

// set changes the behaviour or the buckets of the cloud.
func (c *cloud) set(f func(c *cloud)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

// fail makes an operation fail before it has an effect; a nil error lets it work again.
func (c *cloud) fail(op string, err error) {
	c.before(op, func(context.Context, *bucket) error { return err })
}

func (c *cloud) before(op string, f func(context.Context, *bucket) error) {
	c.set(func(c *cloud) { c.faults[op] = f })
}

func (c *cloud) then(op string, f func(context.Context, *bucket) error) {
	c.set(func(c *cloud) { c.effects[op] = f })
}

// take returns the calls for an object since the last take.
func (c *cloud) take(name string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls[name]
	delete(c.calls, name)
	return calls
}

// holds returns the sizes of the buckets of an object.
func (c *cloud) holds(name string) (sizes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.buckets {
		if s.owner == name {
			sizes = append(sizes, s.size)
		}
	}
	return sizes
}

// events is a recorder that keeps the events.
type events struct {
	mu     sync.Mutex
	byName map[string][]string
	full   []event.Event
}

func (r *events) Event(obj object.Object, e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName = map[string][]string{}
	}
	r.byName[obj.GetName()] = append(r.byName[obj.GetName()], string(e.Type)+" "+string(e.Reason))
	r.full = append(r.full, e)
}

func (r *events) WithAnnotations(...string) event.Recorder { return r }

func (r *events) take(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.byName[name]
	delete(r.byName, name)
	return told
}
