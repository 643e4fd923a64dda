// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
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

// walk is a random walk of a program that changes its desired state and is killed in between. Its fields are what
// outlives a process; outside.set guards them.
type walk struct {
	*testing.T
	*outside
	// rnd decides what the program does, luck how calls go.
	rnd, luck *rand.Rand

	ending ending
	// lists: the target is listed, and resources without a row are deleted. Otherwise the file keeps an object until it is gone.
	lists bool
	// deep: clones are deep, and clients change them in place.
	deep    bool
	workers int
	names   []string

	// wants and notes are the file of the program: the desired state, and the annotations of creates.
	wants map[string]want
	notes map[string]map[string]string
	// remain holds the sizes of resources that must stay without a row; anySize if the size may change.
	remain map[string]int
	// faults: calls fail at random. breaks: each Disconnect panics. late lists creates that began after their
	// context had ended.
	faults, breaks bool
	late           []string
	// edited: a person edits the row during each call. edits counts these edits.
	edited bool
	edits  int
	// left is the number of points until the process is killed; below zero means never. killed lists the points at
	// which processes were killed, and kept holds the rows that the last one left.
	left   int
	killed []string
	kept   []*bucket

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

const (
	anySize = -1

	killGrace   = 2 * time.Second
	killTimeout = time.Second
	// longestLag is the longest delay of reads from the outside system. It is less than the grace.
	longestLag = 1500 * time.Millisecond
)

// newWalk returns the walk of a seed. Each of 24 seeds has another way to use a managed reconciler.
func newWalk(t *testing.T, seed uint64) *walk {
	lag := rand.New(rand.NewPCG(seed, 1))
	w := &walk{
		T: t, rnd: rand.New(rand.NewPCG(seed, 6)), luck: rand.New(rand.NewPCG(seed, 2)), names: []string{"a", "b", "c"},
		ending: []ending{stopped, tableKept, tableLost}[seed/4%3], lists: seed%2 == 1, workers: 1 + int(seed/12%2)*7,
		outside: &outside{
			chosen: seed/2%2 == 1, buckets: map[string]stored{},
			lag:   func() time.Duration { return time.Duration(lag.Int64N(int64(longestLag))) },
			stays: func() bool { return lag.IntN(3) == 0 },
		},
		wants: map[string]want{}, notes: map[string]map[string]string{}, remain: map[string]int{},
		edited: seed%7 == 1, breaks: seed%3 == 0, deep: seed%5 < 2, faults: true, left: -1,
	}
	if seed%5 == 0 {
		w.takes = time.Minute
	}
	t.Logf("%s, names chosen outside: %t, listed: %t, workers: %d, deep: %t", w.ending, w.chosen, w.lists, w.workers, w.deep)
	return w
}

// filed reports whether the notes of creates are written into the file.
func (w *walk) filed() bool { return w.chosen && w.ending == tableLost }

// process is a program with a table and a loop. It reads its desired state from a file.
type process struct {
	*env
	w *walk
	// over: it has reached the point where it is killed. cancel stops the loop; end also waits until it has ended.
	over   bool
	cancel context.CancelFunc
	end    func()
}

// start starts a process on the state that the previous one has left.
func (w *walk) start() {
	w.Helper()
	p := w.p
	if p == nil || w.ending != stopped {
		p = &process{env: newEnv(w.T, w.workers), w: w}
		p.cloud.outside, p.cloud.lateRegion, p.cloud.silent, p.cloud.inPlace = w.outside, true, true, w.deep
		for _, op := range []string{"connect", "observe", "create", "update", "delete", "leave"} {
			p.cloud.before(op, func(ctx context.Context, b *bucket) error { return p.before(ctx, op, b) })
			p.cloud.then(op, func(ctx context.Context, b *bucket) error { return p.after(ctx, op, b) })
		}
	}
	w.p, p.over = p, false
	// A loop does not process rows that are Done when it starts.
	p.insert(append(p.all(), w.kept...)...)
	w.sync(true)
	cfg, err := p.configure(p.options())
	require.NoError(w, err)
	p.Loop, err = reconciler.New(cfg)
	require.NoError(w, err)
	p.end = reconcilertest.Go(w, func(ctx context.Context) error {
		ctx, p.cancel = context.WithCancel(ctx)
		return p.Loop.Run(ctx)
	})
}

func (p *process) options() (opts []any) {
	opts = append(opts,
		func(cfg *reconciler.Config[*bucket]) { cfg.Table = &points{p.Table, p} },
		reconciler.WithRetry(200*time.Millisecond, 2*time.Second),
		managed.WithExternalConnecter(managed.ExternalConnectorFn[*bucket](p.connect)),
		managed.WithTimeout(killTimeout), managed.WithCreationGracePeriod(killGrace),
		managed.WithPollInterval(5*time.Second), managed.WithLeaveHook(p.cloud.leave))
	if p.w.deep {
		opts = append(opts, deep)
	}
	if p.w.lists {
		opts = append(opts, relisted, managed.WithCreationGracePeriod(killGrace), reconciler.WithSettings(func(s *reconciler.Settings) { s.ResyncInterval = 3 * time.Second }))
	}
	if !p.w.chosen {
		opts = append(opts, deterministic)
	}
	if p.w.filed() {
		opts = append(opts, managed.WithCriticalAnnotationUpdater(managed.CriticalAnnotationUpdateFn[*bucket](
			func(_ context.Context, b *bucket) error { return p.file(b) })))
	}
	return opts
}

// connect returns the client of a pass.
func (p *process) connect(ctx context.Context, b *bucket) (managed.ExternalClient[*bucket], error) {
	client, err := p.cloud.Connect(ctx, b)
	if err != nil {
		return client, err
	}
	return session{p.cloud, func(ctx context.Context) error {
		err := p.before(ctx, "disconnect", b)
		if err == nil {
			err = p.after(ctx, "disconnect", b)
		}
		if p.w.breaks {
			panic("double close")
		}
		return err
	}}, nil
}

// reach is a point at which the process may be killed. It returns an error if that happens now, or was before.
func (p *process) reach(point string) error {
	w := p.w
	return p.cloud.alive(func() error {
		if w.left--; p.over || w.left != 0 {
			return nil
		}
		w.killed = append(w.killed, point)
		p.over = true
		p.cancel()
		if w.ending == stopped {
			return nil
		}
		p.cloud.dead, w.kept = true, nil
		if w.ending == tableKept {
			w.kept = p.all()
		}
		return errKilled
	})
}

// before is what happens before a call to the outside system.
func (p *process) before(ctx context.Context, op string, b *bucket) error {
	if op == "create" {
		// A process that loses its table must know before the create what it is about to create.
		if p.w.filed() {
			if err := p.file(b); err != nil {
				return err
			}
		}
		// With several workers another one may end the process just before.
		if p.w.workers == 1 && ctx.Err() != nil {
			p.w.set(func() { p.w.late = append(p.w.late, b.Name) })
		}
	}
	if err := p.reach("before " + op); err != nil {
		return err
	}
	p.meanwhile(b.Name)
	if err := p.fault(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// meanwhile edits a row during a call, as a person of the walk does.
func (p *process) meanwhile(name string) {
	var edits int
	p.w.set(func() {
		if p.w.edited {
			p.w.edits++
			edits = p.w.edits
		}
	})
	if edits > 0 {
		p.editOne(name, func(b *bucket) { b.SetAnnotation("example.com/edit", strconv.Itoa(edits)) })
		// Without it the passes would follow one another without end, at one moment of the fake time.
		time.Sleep(50 * time.Millisecond)
	}
}

// roll returns a number below n, 0 if calls do not fail.
func (w *walk) roll(n int) (rolled int) {
	w.set(func() {
		if w.faults {
			rolled = w.luck.IntN(n)
		}
	})
	return rolled
}

// fault is what the outside system does wrong before a call takes effect.
func (p *process) fault(ctx context.Context) error {
	switch p.w.roll(24) {
	case 1:
		return errDown
	case 2:
		return reconciler.RetryAfter(errors.New("429"), time.Second)
	case 3:
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// after is what happens after a call. A process that is dead gets no answer.
func (p *process) after(ctx context.Context, op string, b *bucket) error {
	p.w.set(func() {
		// A pass that began before the row was marked for deletion may still update what remains.
		if size, remains := p.w.remain[b.Name]; op == "update" && remains && size != anySize && !managed.WasDeleted(b) {
			p.w.remain[b.Name] = b.Size
		}
	})
	if err := p.reach("after " + op); err != nil {
		return err
	}
	if p.w.roll(12) == 1 {
		return fmt.Errorf("connection reset: %w", managed.ErrCreateUnsure)
	}
	return ctx.Err()
}

// file writes the annotations of a row into the file.
func (p *process) file(b *bucket) error {
	if err := p.reach("before file"); err != nil {
		return err
	}
	if err := p.cloud.alive(func() error {
		p.w.notes[b.Name] = maps.Clone(b.Annotations)
		return nil
	}); err != nil {
		return err
	}
	return p.reach("after file")
}

// points is a table in which each write of the loop is a point. What follows a write is the next point.
type points struct {
	statedb.RWTable[*bucket]
	p *process
}

func (s *points) Insert(wtxn statedb.WriteTxn, b *bucket) (*bucket, bool, error) {
	s.reach(wtxn, b)
	return s.RWTable.Insert(wtxn, b)
}

func (s *points) CompareAndSwap(wtxn statedb.WriteTxn, revision statedb.Revision, b *bucket) (*bucket, bool, error) {
	s.reach(wtxn, b)
	return s.RWTable.CompareAndSwap(wtxn, revision, b)
}

func (s *points) Delete(wtxn statedb.WriteTxn, b *bucket) (*bucket, bool, error) {
	s.reach(wtxn, b)
	return s.RWTable.Delete(wtxn, b)
}

// reach is a point unless the row is gone: whether the loop tries to write its status depends on the order of events.
func (s *points) reach(wtxn statedb.WriteTxn, b *bucket) {
	if _, _, found := s.Get(wtxn, byName.Query(b.Name)); found {
		_ = s.p.reach("write")
	}
}

// all returns the present rows.
func (e *env) all() []*bucket { return statedb.Collect(e.Table.All(e.DB.ReadTxn())) }

// sync makes the table match the file, and removes objects that are gone from the file. starting: the
// table has only the rows that the previous process has left.
func (w *walk) sync(starting bool) {
	w.p.Write(func(wtxn statedb.WriteTxn) {
		w.set(func() {
			for _, name := range w.names {
				if !w.p.cloud.dead {
					require.NoError(w, w.syncOne(wtxn, name, starting))
				}
			}
		})
	})
}

func (w *walk) syncOne(wtxn statedb.WriteTxn, name string, starting bool) error {
	writer := w.p.writer()
	is, wanted := w.wants[name]
	row, _, found := w.p.Table.Get(wtxn, byName.Query(name))
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
		if _, err := writer.Apply(wtxn, desired, func(b *bucket) {
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
		if _, err := writer.Edit(wtxn, desired, func(b *bucket) {
			managed.SetDeletionPolicy(b, managed.DeletionOrphan)
		}); err != nil {
			return err
		}
	}
	_, err := writer.Delete(wtxn, desired)
	return err
}

// want adds an object to the file.
func (w *walk) want(name string, size int) {
	w.set(func() {
		was := w.wants[name]
		w.wants[name] = want{size: size, again: was.orphan || was.again}
		delete(w.remain, name)
	})
}

// forgo removes an object from the file.
func (w *walk) forgo(name string) {
	w.set(func() {
		was, had := w.wants[name]
		switch {
		case was.orphan:
		case was.again:
			// No row has taken over the resource that was left in place, so it remains.
			w.wants[name] = want{size: was.size, deleted: true, orphan: true}
			w.remain[name] = anySize
		case w.lists && !w.marked(name):
			delete(w.wants, name)
		case had:
			w.wants[name] = want{size: was.size, deleted: true}
		}
	})
}

// marked reports whether a resource of the object is marked as left in place, so that resyncs keep it.
func (w *walk) marked(name string) bool {
	for _, s := range w.owned(name) {
		if s.left {
			return true
		}
	}
	return false
}

// leave removes an object from the file and leaves its resource in place. It does nothing if the outside system
// chooses names: the next row would create a second resource besides that one.
func (w *walk) leave(name string) {
	if row := w.p.get(name); w.chosen || row == nil || managed.WasDeleted(row) {
		return
	}
	w.set(func() {
		was, had := w.wants[name]
		if !had || was.deleted {
			return
		}
		w.wants[name] = want{size: was.size, deleted: true, orphan: true}
		w.remain[name] = anySize
		for _, s := range w.owned(name) {
			// One whose deletion has begun goes anyway.
			if s.gone.IsZero() {
				w.remain[name] = s.size
			}
		}
	})
}

// meddle changes or deletes the resources of an object without the program. A size of 0 deletes them.
func (w *walk) meddle(name string, size int) {
	w.set(func() {
		for id, s := range w.owned(name) {
			if size == 0 {
				s.gone = time.Now()
			} else if s.gone.IsZero() && !s.left {
				s.size = size
			}
			w.buckets[id] = s
			if _, remains := w.remain[name]; remains {
				w.remain[name] = anySize
			}
		}
	})
}

// replace replaces a row by one without the notes. It does nothing where this would lose a name that is
// known only from the table, or from a row that no pass has seen, or what a person has decided before a pass has seen
// that, or the zone that a person has set (see decide): of other annotations, only those that a create has set outlive a
// plain insert.
func (w *walk) replace(name string) {
	row := w.p.get(name)
	if row == nil || managed.WasDeleted(row) || w.chosen && (!w.filed() || len(row.Conditions) == 0) ||
		row.GetCondition(managed.TypeSynced).Reason == managed.ReasonCreateUnsure {
		return
	}
	if row.Annotations[zone] != "" && row.Annotations[managed.AnnotationPrefix+"external-create-changes"] == "" {
		return
	}
	fresh := named(name)
	fresh.Size = row.Size
	if w.rnd.IntN(2) == 0 {
		// This row has the external name, and no other note.
		managed.SetExternalName(fresh, managed.GetExternalName(row))
	}
	w.p.insert(fresh)
}

// removeRow removes a row directly. If the process is killed then, only a resync deletes the resource. Until
// the resync a new row must find it by its name. It does nothing if the resource is still marked as left in
// place, because resyncs keep that.
func (w *walk) removeRow(name string) {
	marked := false
	w.set(func() { marked = w.marked(name) })
	if w.lists && !w.chosen && !marked {
		w.forgo(name)
		w.p.drop(name)
	}
}

// one makes one random change to one object, or to its resources.
func (w *walk) one() {
	name, size := w.names[w.rnd.IntN(len(w.names))], 1+w.rnd.IntN(3)
	switch action := w.rnd.IntN(26); {
	case action < 10:
		w.want(name, size)
	case action < 16:
		w.forgo(name)
	case action < 17:
		w.meddle(name, size)
	case action < 18:
		w.meddle(name, 0)
	case action < 19:
		w.replace(name)
	case action < 20:
		w.removeRow(name)
	case action < 22:
		w.leave(name)
	default:
		w.p.share(name)
	}
	w.sync(false)
}

// decide acts as the person who decides unsure creates after looking at the outside system.
func (w *walk) decide() {
	for _, row := range w.p.all() {
		if row.GetCondition(managed.TypeSynced).Reason == managed.ReasonCreateUnsure && managed.IsCreateIncomplete(row) {
			found := w.exists(row.Name)
			w.p.editOne(row.Name, func(b *bucket) {
				managed.DecideCreate(b, found)
				if found != "" {
					noteZone(b, found)
				}
			})
		}
	}
}

// carryOn starts the next process if the present one was killed, and reports whether it was.
func (w *walk) carryOn() (killed bool) {
	w.set(func() { killed = w.p.over })
	if killed {
		w.p.end()
		w.start()
	}
	return killed
}

// arm lets the process be killed at one of the next 40 points.
func (w *walk) arm() {
	left := 1 + w.rnd.IntN(40)
	w.set(func() { w.left = left })
}

// run runs the walk, and returns the points at which the processes were killed.
func (w *walk) run() []string {
	w.start()
	synctest.Wait()
	kills := 1 + w.rnd.IntN(4)
	w.arm()
	for range 12 {
		w.one()
		longest := []int{100, 1000}[w.rnd.IntN(2)]
		time.Sleep(time.Duration(w.rnd.IntN(longest)) * time.Millisecond)
		if w.carryOn() && len(w.deaths()) < kills {
			w.arm()
		}
		if w.rnd.IntN(4) == 0 {
			w.decide()
		}
		w.never()
	}
	w.settle()
	w.p.end()
	return w.deaths()
}

// deaths returns the points at which processes were killed.
func (w *walk) deaths() (points []string) {
	w.set(func() { points = slices.Clone(w.killed) })
	return points
}

// never requires what must hold at any time.
func (w *walk) never() {
	w.Helper()
	var wrong []string
	w.set(func() { wrong = slices.Concat(w.twice, w.late) })
	require.Empty(w, wrong, "created twice, or after the context ended; killed at %q", w.deaths())
	for _, row := range w.p.all() {
		// A row that the program has just inserted has no notes until its first pass.
		if w.chosen && len(row.Conditions) > 0 {
			requireZone(w, row)
		}
	}
}

// settle ends the faults, runs until nothing is pending, and requires that this is still so a while later.
func (w *walk) settle() {
	w.Helper()
	w.set(func() { w.faults, w.left = false, -1 })
	w.carryOn()
	// A resource that takes a minute to be deleted may have to be created again after that.
	for range 180 {
		w.decide()
		w.sync(false)
		pass(time.Second)
		if w.pending() == nil {
			break
		}
	}
	require.Empty(w, w.pending(), "killed at %q", w.deaths())
	// By then everything was polled and listed, without the edits.
	w.set(func() { w.edited = false })
	pass(6 * time.Second)
	w.sync(false)
	require.Empty(w, w.pending(), "a while later, killed at %q", w.deaths())
	w.saw()
	w.never()
}

// saw requires that the rows have what the last poll has set in place.
func (w *walk) saw() {
	w.Helper()
	for _, row := range w.p.all() {
		if w.deep {
			seen := named(row.Name)
			seen.see(w.wants[row.Name].size)
			require.True(w, row.holdsAs(seen), "%q has size %d: %v %v %v", row.Name, row.Size, row.Tags, row.Zones, row.Disk)
		}
	}
}

// pending returns the differences from the final state, nil if there are none.
func (w *walk) pending() (problems []any) {
	note := func(what ...any) { problems = append(problems, what) }
	for _, name := range w.names {
		var is want
		var size int
		var stays bool
		w.set(func() {
			is = w.wants[name]
			size, stays = w.remain[name]
		})
		holds, row := w.holds(name), w.p.get(name)
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

// requireZone requires a row with an external name to have the annotation that its create has set. It
// is for external names that the outside system chooses: others are known without a create.
func requireZone(t require.TestingT, b *bucket) {
	if name := managed.GetExternalName(b); name != "" {
		require.Equal(t, "of "+name, b.Annotations[zone], "%q has lost what the create noted: %v", b.Name, b.Annotations)
	}
}

func TestKillAtRandomLeaksAndDuplicatesNothing(t *testing.T) {
	schedules := long.Times(96) // each setup four times
	ran, hit := 0, 0
	for seed := range uint64(schedules) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran++
				if len(newWalk(t, seed).run()) > 0 {
					hit++
				}
			})
		})
	}
	if ran == schedules {
		require.GreaterOrEqual(t, hit, schedules*8/10, "schedules with a kill")
	}
}
