// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// ending is what happens to a process at the point where it is killed.
type ending string

const (
	// stopped: the loop is stopped, and another one starts on the same table.
	stopped ending = "stopped"
	// tableKept: the process has no effect any more. The next one has the rows of that moment.
	tableKept ending = "table-kept"
	// tableLost: the next process has only the rows of its file.
	tableLost ending = "table-lost"
)

// setup is how a program uses a managed reconciler.
type setup struct {
	ending ending
	// chosen: the outside system chooses the names of resources.
	chosen bool
	// sweeps: resources without a row are swept. Otherwise the file keeps an object until it is gone.
	sweeps  bool
	workers int
}

func (s setup) String() string {
	name := string(s.ending)
	if s.chosen {
		name += "/chosen"
	} else {
		name += "/known"
	}
	if s.sweeps {
		name += "/swept"
	}
	if s.workers > 1 {
		name += "/8-workers"
	}
	return name
}

// filed reports whether the notes of creates are written into the file.
func (s setup) filed() bool { return s.chosen && s.ending == tableLost }

// setups returns all safe setups.
func setups() (all []setup) {
	for _, workers := range []int{1, 8} {
		for _, e := range []ending{stopped, tableKept, tableLost} {
			for _, chosen := range []bool{false, true} {
				for _, sweeps := range []bool{false, true} {
					all = append(all, setup{e, chosen, sweeps, workers})
				}
			}
		}
	}
	return all
}

// world is what outlives a process.
type world struct {
	*testing.T
	setup
	names []string

	// mu guards the fields below, and the outside actions of a process: a process dies between two
	// actions, not in the middle of one.
	mu      sync.Mutex
	outside *outside
	// wants and notes are the file of the program: the desired state, and the annotations of creates.
	wants map[string]want
	notes map[string]map[string]string
	// left holds the sizes of resources that must stay without a row; anySize if the size may change.
	left map[string]int
	// edited: a person edits the row during each call. edits counts these edits.
	edited bool
	edits  int
	// breaks: each Disconnect panics.
	breaks bool
	// kept holds the rows that a killed process leaves.
	kept []*bucket
	// kill reports whether the process is killed at a point; nil means never.
	kill func(point, key string) bool
	// killed lists the points at which processes were killed.
	killed []string

	p *process
}

// want is the desired state of one object. A deleted object stays in the file until it is gone.
type want struct {
	size    int
	deleted bool
	// orphan: its resources stay.
	orphan bool
	// again: its resource was left in place, and no row has taken it over since.
	again bool
}

const anySize = -1

func newWorld(t *testing.T, s setup, names ...string) *world {
	return &world{
		T: t, setup: s, names: names,
		outside: &outside{chosen: s.chosen, past: map[string][]version{}, marked: map[string]bool{}},
		wants:   map[string]want{}, notes: map[string]map[string]string{}, left: map[string]int{},
	}
}

var errKilled = errors.New("killed")

// reach is a kill point. It returns an error if the process is killed now, or was before.
func (p *process) reach(point, key string) error {
	return p.alive(func(w *world) error {
		if p.over || w.kill == nil || !w.kill(point, key) {
			return nil
		}
		w.killed = append(w.killed, point)
		p.over = true
		defer p.cancel()
		if w.ending == stopped {
			return nil
		}
		p.dead = true
		w.kept = nil
		if w.ending == tableKept {
			w.kept = p.store.rows()
		}
		return errKilled
	})
}

// alive runs an action with an effect outside the process, unless the process is dead.
func (p *process) alive(do func(w *world) error) error {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.dead {
		return errKilled
	}
	return do(p.w)
}

// change changes the world.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// want adds an object to the file.
func (w *world) want(name string, size int) {
	w.change(func() {
		was := w.wants[name]
		w.wants[name] = want{size: size, again: was.orphan || was.again}
		delete(w.left, name)
	})
}

// forgo removes an object from the file.
func (w *world) forgo(name string) {
	w.change(func() {
		was, had := w.wants[name]
		switch {
		case was.orphan:
		case was.again:
			// No row has taken over the resource that was left in place, so it stays.
			w.wants[name] = want{size: was.size, deleted: true, orphan: true}
			w.left[name] = anySize
		case w.sweeps && !w.marked(name):
			delete(w.wants, name)
		case had:
			w.wants[name] = want{size: was.size, deleted: true}
		}
	})
}

// holds returns the sizes of the existing resources of an object.
func (w *world) holds(name string) (sizes []int) {
	w.change(func() {
		for _, id := range w.outside.owned(name) {
			sizes = append(sizes, w.outside.is(id).size)
		}
	})
	return sizes
}

// pending returns the differences from the final state, nil if there are none.
func (w *world) pending() (problems []any) {
	note := func(what ...any) { problems = append(problems, what) }
	var wants map[string]want
	var left map[string]int
	w.change(func() { wants, left = maps.Clone(w.wants), maps.Clone(w.left) })
	for _, name := range w.names {
		is, holds, row := wants[name], w.holds(name), w.p.store.get(name)
		size, stays := left[name]
		switch {
		case is.deleted, is.size == 0 && row != nil:
			note(name, "is not gone", row, holds)
		case is.size == 0 && stays:
			if size != anySize && !slices.Equal(holds, []int{size}) {
				note(name, "was not left in place", size, holds)
			}
		case is.size == 0 && len(holds) > 0:
			note(name, "is not gone", row, holds)
		case is.size == 0:
		case row == nil:
			note(name, "has no row", holds)
		case row.Status.Kind == reconciler.StatusKindError:
			note(name, "has failed", row)
		case !managed.IsReady(row) || !managed.IsSynced(row) || !slices.Equal(holds, []int{is.size}):
			note(name, "is not up to date", is.size, row, holds)
		}
	}
	return problems
}

// settle ends the faults, runs until nothing is pending, and requires that this is still so a while
// later.
func (w *world) settle() {
	w.Helper()
	w.change(func() { w.outside.faults, w.kill = false, nil })
	w.carryOn()
	// A resource that takes a minute to be deleted may have to be created again after that.
	for range 180 {
		w.decide()
		w.p.sync(false)
		pass(time.Second)
		if w.pending() == nil {
			break
		}
	}
	require.Empty(w, w.pending(), "killed at %q", w.deaths())
	// By then everything was polled and swept, without the edits.
	w.change(func() { w.edited = false })
	pass(6 * time.Second)
	w.p.sync(false)
	require.Empty(w, w.pending(), "a while later, killed at %q", w.deaths())
	w.never()
}

// never requires what must hold at any time.
func (w *world) never() {
	w.Helper()
	var twice, late []string
	w.change(func() { twice, late = slices.Clone(w.outside.twice), slices.Clone(w.outside.late) })
	require.Empty(w, twice, "created twice, killed at %q", w.deaths())
	if w.chosen {
		for _, row := range w.p.store.rows() {
			// A row that the program has just inserted has no notes until its first pass.
			if len(row.Conditions) > 0 {
				requireZone(w, row)
			}
		}
	}
	require.Empty(w, late, "created after the context ended, killed at %q", w.deaths())
}

// deaths returns the points at which processes were killed.
func (w *world) deaths() (points []string) {
	w.change(func() { points = slices.Clone(w.killed) })
	return points
}

// carryOn starts the next process if the present one was killed, and reports whether it was.
func (w *world) carryOn() (killed bool) {
	w.change(func() { killed = w.p.over })
	if killed {
		w.p.end()
		w.start()
	}
	return killed
}

// decide acts as the person who decides unsure creates after looking at the outside system.
func (w *world) decide() {
	for _, row := range w.p.store.rows() {
		if row.GetCondition(managed.TypeSynced).Reason != managed.ReasonCreateUnsure || !managed.IsCreateIncomplete(row) {
			continue
		}
		found := ""
		w.change(func() {
			if ids := w.outside.owned(row.Name); len(ids) > 0 {
				found = ids[0]
			}
		})
		w.p.edit(row, func(b *bucket) {
			managed.DecideCreate(b, found)
			if found != "" {
				noteZone(b, found)
			}
		})
	}
}

// marked reports whether a resource of the object is marked as left in place, so that sweeps keep it.
func (w *world) marked(name string) bool {
	for _, id := range w.outside.owned(name) {
		if w.outside.marked[id] {
			return true
		}
	}
	return false
}

// leave removes an object from the file and leaves its resources in place.
func (w *world) leave(name string) {
	w.change(func() {
		was, had := w.wants[name]
		if !had || was.deleted {
			return
		}
		w.wants[name] = want{size: was.size, deleted: true, orphan: true}
		w.left[name] = anySize
		for _, id := range w.outside.owned(name) {
			// One whose deletion has begun goes anyway.
			if !w.outside.going(id) {
				w.left[name] = w.outside.is(id).size
			}
		}
	})
}

// noteZone sets the annotation that a create sets besides the external name.
func noteZone(b *bucket, name string) { b.SetAnnotation(zone, "of "+name) }

// requireZone requires a row with an external name to have the annotation that its create has set. It
// is for external names that the outside system chooses: others are known without a create.
func requireZone(t require.TestingT, b *bucket) {
	if name := managed.GetExternalName(b); name != "" {
		require.Equal(t, "of "+name, b.Annotations[zone], "%q has lost what the create noted: %v", b.Name, b.Annotations)
	}
}

// process is a program with a table and a loop. It reads its desired state from a file.
type process struct {
	w     *world
	store *store
	// over: it has reached the point where it is killed. dead: its actions have no effect any more. The
	// lock of the world guards both.
	over, dead bool
	// cancel stops the loop; end stops it and waits until it has ended.
	cancel context.CancelFunc
	end    func()
}

const (
	killGrace   = 2 * time.Second
	killTimeout = time.Second
	// longestLag is the longest delay of reads from the outside system. It is less than the grace.
	longestLag = 1500 * time.Millisecond
)

// start starts a process on the state that the previous one has left.
func (w *world) start() {
	w.Helper()
	p := &process{w: w}
	if w.ending == stopped && w.p != nil {
		p.store = w.p.store
	} else {
		p.store = newStore(w)
	}
	p.store.mu.Lock()
	p.store.owner = p
	p.store.mu.Unlock()
	p.restore()
	p.sync(true)
	ctx, cancel := context.WithCancel(w.Context())
	p.cancel = cancel
	loop, err := newLoop(p.config(), p.options()...)
	require.NoError(w, err)
	w.p = p
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	p.end = sync.OnceFunc(func() {
		cancel()
		require.NoError(w, <-ended)
	})
	w.Cleanup(p.end)
}

func (p *process) config() reconciler.Config[*bucket] {
	cfg := reconciler.Config[*bucket]{
		DB: p.store.db, Table: p.store,
		Clone: (*bucket).Clone, SetStatus: (*bucket).SetStatus, GetStatus: (*bucket).GetStatus,
		Log: slog.New(slog.DiscardHandler),
		Options: []reconciler.Option{
			reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter, s.Concurrency = 0, p.w.workers }), reconciler.WithRetry(200*time.Millisecond, 2*time.Second),
		},
	}
	if p.w.sweeps {
		cfg.Sweeper = p
		cfg.Options = append(cfg.Options, reconciler.WithPruning(3*time.Second))
	}
	return cfg
}

func (p *process) options() []managed.ReconcilerOption {
	opts := []managed.ReconcilerOption{
		managed.WithExternalConnecter(p),
		managed.WithTimeout(killTimeout), managed.WithCreationGracePeriod(killGrace),
		managed.WithPollInterval(5 * time.Second), managed.WithLeaveHook(p.leave),
	}
	if !p.w.chosen {
		opts = append(opts, deterministic(nil)...)
	}
	if p.w.filed() {
		opts = append(opts, managed.WithCriticalAnnotationUpdater(p))
	}
	return opts
}

// UpdateCriticalAnnotations writes the annotations into the file. It is called after each create.
func (p *process) UpdateCriticalAnnotations(_ context.Context, b *bucket) error {
	return p.file("file", b)
}

// file writes the annotations of a row into the file.
func (p *process) file(point string, b *bucket) error {
	if err := p.reach("before "+point, b.Name); err != nil {
		return err
	}
	if err := p.alive(func(w *world) error {
		w.notes[b.Name] = maps.Clone(b.Annotations)
		return nil
	}); err != nil {
		return err
	}
	return p.reach("after "+point, b.Name)
}

// List lists the resources as a delayed read shows them.
func (p *process) List(_ context.Context, _ statedb.ReadTxn, yield func(*bucket) bool) error {
	var listed []*bucket
	if err := p.alive(func(w *world) error {
		for id := range w.outside.past {
			if v := w.outside.was(id); v.exists && !w.outside.marked[id] {
				b := named(v.owner)
				managed.SetExternalName(b, id)
				b.Finalizers = []string{managed.FinalizerName}
				listed = append(listed, b)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, b := range listed {
		if !yield(b) {
			break
		}
	}
	return nil
}

// restore inserts the rows that the previous process has left, with status Pending: a loop does not
// process rows that are Done when it starts.
func (p *process) restore() {
	rows := p.store.rows()
	p.w.change(func() { rows = append(rows, p.w.kept...) })
	wtxn := p.store.db.WriteTxn(p.store.RWTable)
	defer wtxn.Commit()
	for _, b := range rows {
		_, _, err := p.store.RWTable.Insert(wtxn, b.Clone().SetStatus(reconciler.StatusPending()))
		require.NoError(p.w, err)
	}
}

// writer returns a writer for the program's own writes, which are not kill points.
func (p *process) writer() managed.Writer[*bucket] {
	cfg := p.config()
	cfg.Table = p.store.RWTable
	return managed.NewWriter(cfg)
}

// edit changes a row, if it exists.
func (p *process) edit(b *bucket, change func(*bucket)) {
	wtxn := p.store.db.WriteTxn(p.store.RWTable)
	defer wtxn.Commit()
	_, err := p.writer().Edit(wtxn, b, change)
	require.NoError(p.w, err)
}

// meanwhile writes a row during a call, as the writers of the world do.
func (p *process) meanwhile(name string) {
	var edits int
	p.w.change(func() {
		if p.w.edited {
			p.w.edits++
			edits = p.w.edits
		}
	})
	if edits > 0 {
		p.edit(named(name), func(b *bucket) { b.SetAnnotation("example.com/edit", strconv.Itoa(edits)) })
		// Without it the passes would follow one another without end, at one moment of the fake time.
		time.Sleep(50 * time.Millisecond)
	}
}

// share writes a row as another reconciler does that does not know this one.
func (p *process) share(name string) {
	wtxn := p.store.db.WriteTxn(p.store.RWTable)
	defer wtxn.Commit()
	if row, _, found := p.store.RWTable.Get(wtxn, byName.Query(name)); found {
		next := row.Clone()
		next.Other = reconciler.StatusDone()
		_, _, err := p.store.RWTable.Insert(wtxn, next)
		require.NoError(p.w, err)
	}
}

// sync makes the table match the file, and removes objects that are gone from the file. starting: the
// table has only the rows that the previous process has left.
func (p *process) sync(starting bool) {
	wtxn := p.store.db.WriteTxn(p.store.RWTable)
	defer wtxn.Commit()
	p.w.change(func() {
		if p.dead {
			return
		}
		for _, name := range p.w.names {
			require.NoError(p.w, p.syncOne(wtxn, name, starting))
		}
	})
}

func (p *process) syncOne(wtxn statedb.WriteTxn, name string, starting bool) error {
	w := p.w
	is, wanted := w.wants[name]
	row, _, found := p.store.RWTable.Get(wtxn, byName.Query(name))
	desired := named(name)
	if !found && w.filed() {
		desired.Annotations = maps.Clone(w.notes[name])
	}
	switch {
	case !found && is.deleted && !starting:
		delete(w.wants, name)
		delete(w.notes, name)
		return nil
	case !found && !wanted, found && managed.WasDeleted(row):
		return nil
	case wanted && (!found || !is.deleted):
		if _, err := p.writer().Apply(wtxn, desired, func(b *bucket) {
			b.Size = is.size
			b.RemoveAnnotation(managed.AnnotationPrefix + "deletion-policy")
			if is.orphan {
				managed.SetDeletionPolicy(b, managed.DeletionOrphan)
			}
		}); err != nil {
			return err
		}
		is.again = false
		w.wants[name] = is
	}
	if wanted && !is.deleted {
		return nil
	}
	if is.orphan {
		if _, err := p.writer().Edit(wtxn, desired, func(b *bucket) {
			managed.SetDeletionPolicy(b, managed.DeletionOrphan)
		}); err != nil {
			return err
		}
	}
	_, err := p.writer().Delete(wtxn, desired)
	return err
}

// begin starts the first process of a world, and waits until it is idle.
func (w *world) begin() {
	w.start()
	synctest.Wait()
}

// outside is an outside system with delayed reads: new resources are not visible yet, and deleted ones
// are visible for some time. Writes take effect at once. The lock of the world guards its fields.
type outside struct {
	// chosen: it chooses the names of its resources; otherwise they are those of the rows.
	chosen  bool
	created int
	past    map[string][]version
	// lag returns the delay of the next read.
	lag func() time.Duration
	// stays reports whether a resource whose deletion was requested stays for now.
	stays func(id string) bool
	// faults: calls fail at random.
	faults bool
	rnd    *rand.Rand
	// twice lists resources that were created although the object had one.
	twice []string
	// takes is how long a deleted resource still exists.
	takes time.Duration
	// marked holds the names of resources that were marked as left in place.
	marked map[string]bool
	// late lists creates that began after their context had ended.
	late []string
}

// version is the state of a resource from a time on.
type version struct {
	since  time.Time
	owner  string
	size   int
	exists bool
}

// is returns the present state of a resource.
func (o *outside) is(id string) version { return o.at(id, time.Now()) }

// was returns the state of a resource that a read shows.
func (o *outside) was(id string) version { return o.at(id, time.Now().Add(-o.lag())) }

func (o *outside) at(id string, at time.Time) (v version) {
	for _, of := range o.past[id] {
		if !of.since.After(at) {
			v = of
		}
	}
	return v
}

// going reports whether a resource is being deleted and still exists.
func (o *outside) going(id string) bool {
	past := o.past[id]
	return len(past) > 0 && past[len(past)-1].since.After(time.Now())
}

func (o *outside) becomes(id string, v version) {
	v.since = time.Now()
	o.past[id] = append(o.past[id], v)
}

// owned returns the names of the existing resources of an object.
func (o *outside) owned(owner string) (ids []string) {
	for id := range o.past {
		if v := o.is(id); v.exists && v.owner == owner {
			ids = append(ids, id)
		}
	}
	return ids
}

// create creates a resource, under the given name unless the outside system chooses one. It does
// nothing if that name exists.
func (o *outside) create(owner, name string, size int) (id string) {
	if o.chosen {
		o.created++
		name = fmt.Sprintf("%s-%d", owner, o.created)
	}
	if o.is(name).exists {
		return name
	}
	if others := o.owned(owner); len(others) > 0 {
		o.twice = append(o.twice, fmt.Sprintf("%s beside %v", name, others))
	}
	o.becomes(name, version{owner: owner, size: size, exists: true})
	return name
}

var (
	errNotFound = errors.New("404")
	errRefused  = errors.New("quota")
	errDown     = errors.New("503")
	errGoing    = errors.New("409")
)

func (o *outside) update(id string, size int) error {
	v := o.is(id)
	switch {
	case !v.exists:
		return errNotFound
	case o.going(id):
		return errGoing
	}
	delete(o.marked, id)
	v.size = size
	o.becomes(id, v)
	return nil
}

func (o *outside) remove(id string) {
	if v := o.is(id); v.exists && !o.going(id) && !o.stays(id) {
		v.exists, v.since = false, time.Now().Add(o.takes)
		o.past[id] = append(o.past[id], v)
		delete(o.marked, id)
	}
}

// failing returns the error of the next call, before or after it takes effect, and whether the call is
// slow.
func (o *outside) failing() (before, after error, slow bool) {
	if !o.faults {
		return nil, nil, false
	}
	switch o.rnd.IntN(24) {
	case 0:
		before = errDown
	case 1:
		before = reconciler.RetryAfter(errors.New("429"), time.Second)
	case 2, 3:
		after = fmt.Errorf("connection reset: %w", managed.ErrCreateUnsure)
	case 4:
		slow = true
	}
	return before, after, slow
}

// connection is the client of one pass of one process.
type connection struct {
	p   *process
	key string
}

var (
	_ managed.ExternalClient[*bucket] = (*connection)(nil)
	_ managed.ExternalDisconnecter    = (*connection)(nil)
)

// Connect returns the client of a pass.
func (p *process) Connect(ctx context.Context, b *bucket) (managed.ExternalClient[*bucket], error) {
	c := &connection{p, b.Name}
	return c, c.call(ctx, "connect", func(*outside) error { return nil })
}

// call makes a call to the outside system. A process that is dead before it has no effect; one that is
// dead after it gets no answer.
func (c *connection) call(ctx context.Context, op string, do func(o *outside) error) error {
	if err := c.p.reach("before "+op, c.key); err != nil {
		return err
	}
	c.p.meanwhile(c.key)
	var before, after error
	var slow bool
	if err := c.p.alive(func(w *world) error {
		before, after, slow = w.outside.failing()
		return before
	}); err != nil {
		return err
	}
	if slow {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.p.alive(func(w *world) error { return do(w.outside) }); err != nil {
		return err
	}
	if err := c.p.reach("after "+op, c.key); err != nil {
		return err
	}
	// A caller whose context has ended gets no answer.
	return errors.Join(after, ctx.Err())
}

func (c *connection) Observe(ctx context.Context, b *bucket) (seen managed.ExternalObservation, err error) {
	err = c.call(ctx, "observe", func(o *outside) error {
		v := o.was(managed.GetExternalName(b))
		if !v.exists {
			return nil
		}
		seen.ResourceExists, seen.ResourceUpToDate = true, v.size == b.Size && !o.marked[managed.GetExternalName(b)]
		b.Seen = v.size
		if b.Region == "" {
			b.Region, seen.ResourceLateInitialized = "north", true
		}
		return nil
	})
	return seen, err
}

// noteLateCreate records a create that begins after its context has ended. With several workers another
// one may end the process just before, so it records nothing.
func (p *process) noteLateCreate(ctx context.Context, name string) {
	if p.w.workers == 1 && ctx.Err() != nil {
		p.w.change(func() { p.w.outside.late = append(p.w.outside.late, name) })
	}
}

func (c *connection) Create(ctx context.Context, b *bucket) error {
	// A process that loses its table must know before the create what it is about to create.
	if c.p.w.filed() {
		if err := c.p.file("file-pending", b); err != nil {
			return err
		}
	}
	c.p.noteLateCreate(ctx, b.Name)
	var id string
	if err := c.call(ctx, "create", func(o *outside) error {
		id = o.create(b.Name, managed.GetExternalName(b), b.Size)
		return nil
	}); err != nil {
		return err
	}
	managed.SetExternalName(b, id)
	noteZone(b, id)
	return nil
}

func (c *connection) Update(ctx context.Context, b *bucket) error {
	return c.call(ctx, "update", func(o *outside) error {
		err := o.update(managed.GetExternalName(b), b.Size)
		// A pass that began before the row was marked for deletion may still update what stays.
		if size, stays := c.p.w.left[b.Name]; err == nil && stays && size != anySize && !managed.WasDeleted(b) {
			c.p.w.left[b.Name] = b.Size
		}
		return err
	})
}

func (c *connection) Delete(ctx context.Context, b *bucket) error {
	return c.call(ctx, "delete", func(o *outside) error {
		o.remove(managed.GetExternalName(b))
		return nil
	})
}

// leave marks the resource of a row as left in place.
func (p *process) leave(ctx context.Context, b *bucket) error {
	return (&connection{p, b.Name}).call(ctx, "leave", func(o *outside) error {
		if name := managed.GetExternalName(b); o.is(name).exists {
			o.marked[name] = true
		}
		return nil
	})
}

func (c *connection) Disconnect(ctx context.Context) error {
	err := c.call(ctx, "disconnect", func(*outside) error { return nil })
	if c.p.w.breaks {
		panic("double close")
	}
	return err
}

// store is a table in which each write of the loop has a kill point before and one after it. The
// program writes to the embedded table directly, without kill points.
type store struct {
	statedb.RWTable[*bucket]
	db *statedb.DB

	// mu may be locked while the table is locked. Do not lock the table while holding mu.
	mu sync.Mutex
	// owner is the process whose loop writes.
	owner *process
	// written lists writes that are not committed yet.
	written []write
}

// write is a write of a row. It is visible when the table has this revision.
type write struct {
	what, key string
	revision  statedb.Revision
}

func newStore(w *world) *store {
	s := &store{}
	s.db = statedb.New(statedb.WithMetrics(commits{statedb.NewExpVarMetrics(false), s}))
	table, err := statedb.NewTable(s.db, "buckets", byName)
	require.NoError(w, err)
	s.RWTable = table
	require.NoError(w, s.db.Start())
	w.Cleanup(func() { require.NoError(w, s.db.Stop()) })
	return s
}

// rows returns the present rows.
func (s *store) rows() (rows []*bucket) {
	for b := range s.All(s.db.ReadTxn()) {
		rows = append(rows, b)
	}
	return rows
}

// get returns a row, nil if there is none.
func (s *store) get(name string) *bucket {
	b, _, _ := s.Get(s.db.ReadTxn(), byName.Query(name))
	return b
}

func (s *store) Insert(wtxn statedb.WriteTxn, b *bucket) (*bucket, bool, error) {
	what := s.begin(wtxn, b)
	old, had, err := s.RWTable.Insert(wtxn, b)
	s.wrote(wtxn, what, b, err)
	return old, had, err
}

func (s *store) CompareAndSwap(wtxn statedb.WriteTxn, revision statedb.Revision, b *bucket) (*bucket, bool, error) {
	if _, _, found := s.Get(wtxn, byName.Query(b.Name)); !found {
		// This is the status of a row that is gone. Nothing is written, and whether the loop tries
		// depends on the order in which it sees the events: so it is no kill point.
		return s.RWTable.CompareAndSwap(wtxn, revision, b)
	}
	what := s.begin(wtxn, b)
	old, had, err := s.RWTable.CompareAndSwap(wtxn, revision, b)
	s.wrote(wtxn, what, b, err)
	return old, had, err
}

func (s *store) Delete(wtxn statedb.WriteTxn, b *bucket) (*bucket, bool, error) {
	s.process().reach("before write drop", b.Name)
	old, had, err := s.RWTable.Delete(wtxn, b)
	s.wrote(wtxn, "drop", b, err)
	return old, had, err
}

func (s *store) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owner
}

// begin reaches the kill point before a write, and returns the name of the write.
func (s *store) begin(wtxn statedb.WriteTxn, b *bucket) (what string) {
	old, _, _ := s.Get(wtxn, byName.Query(b.Name))
	if what = difference(old, b); what != "" {
		s.process().reach("before write "+what, b.Name)
	}
	return what
}

// difference names the change that a write makes to the old row, which may be nil. It is "" for the
// write that precedes a drop in the same transaction.
func difference(old, b *bucket) string {
	if old == nil {
		old = &bucket{}
	}
	noted := func(key string) bool { return b.Annotations[key] != old.Annotations[key] }
	switch {
	case noted(managed.AnnotationPrefix + "external-create-pending"):
		return "create-pending"
	case noted(managed.AnnotationPrefix + "external-create-succeeded"):
		return "create-succeeded"
	case noted(managed.AnnotationPrefix + "external-create-failed"):
		return "create-failed"
	case len(b.Finalizers) > len(old.Finalizers):
		return "finalizer"
	case b.Region != old.Region:
		return "late"
	case b.Status != old.Status || !slices.Equal(b.Conditions, old.Conditions) || !maps.Equal(b.Annotations, old.Annotations) || b.Seen != old.Seen:
		return "outcome"
	}
	return ""
}

func (s *store) wrote(wtxn statedb.WriteTxn, what string, b *bucket, err error) {
	if err != nil || what == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = append(s.written, write{what, b.Name, s.RWTable.Revision(wtxn)})
}

// commits receives the metrics of the transactions of a store.
type commits struct {
	statedb.Metrics
	s *store
}

// WriteTxnTotalAcquisition is called when a transaction has locked the table. Writes that are not
// visible now were aborted.
func (c commits) WriteTxnTotalAcquisition(string, []string, time.Duration) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if len(c.s.written) == 0 {
		return
	}
	at := c.s.Revision(c.s.db.ReadTxn())
	c.s.written = slices.DeleteFunc(c.s.written, func(w write) bool { return w.revision > at })
}

// WriteTxnDuration is called when a transaction has ended, by the goroutine that ended it.
func (c commits) WriteTxnDuration(string, []string, time.Duration) {
	for _, w := range c.s.seen() {
		c.s.process().reach("after write "+w.what, w.key)
	}
}

// seen removes the writes that are visible now, and returns them.
func (s *store) seen() (seen []write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.written) == 0 {
		return nil
	}
	at := s.Revision(s.db.ReadTxn())
	for _, w := range s.written {
		if w.revision <= at {
			seen = append(seen, w)
		}
	}
	s.written = slices.DeleteFunc(s.written, func(w write) bool { return w.revision <= at })
	return seen
}
