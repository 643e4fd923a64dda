// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	statusUnset      = ""
	statusPending    = "pending"
	statusRefreshing = "refreshing"
	statusDone       = "done"
	statusError      = "error"
	statusBlocked    = "blocked"
)

// world is a table, a target, and a minimal loop that runs a core between them: what package
// reconciler does, without statedb, clock and goroutines. It makes each call to the core to the
// model as well.
type world struct {
	t     testingT
	core  *Core[row]
	model *model
	now   time.Duration

	table      map[string]row
	revision   uint64
	pendingIDs uint64
	cursors

	// target has the pendingID that was applied last, by key.
	target map[string]uint64
	// By key: reached is the last pendingID that an operation succeeded with, started the last that
	// an operation began with, attempted the last that an operation ended with.
	reached, started, attempted map[string]uint64
	// jobs has the launched operations.
	jobs   []*job
	paused map[string]bool
	// ledger takes records; nil if the rows carry the status. If they do not, each write of a row asks
	// for an operation, and an outcome changes no row.
	ledger *besideLedger
}

func newWorld(t testingT, cfg Config[row]) *world {
	cfg.KeyOf = keyOfRow
	cfg.GroupOf = func(r row) string { return r.group }
	cfg.SamePending = samePending
	w := &world{
		attempted: map[string]uint64{}, cursors: cursors{pendingSince: map[uint64]uint64{}, ahead: map[string]uint64{}},
		t: t, core: New(cfg), model: newModel(cfg),
		table: map[string]row{}, target: map[string]uint64{}, paused: map[string]bool{},
		reached: map[string]uint64{}, started: map[string]uint64{},
	}
	if cfg.Records {
		w.ledger = &besideLedger{records: map[string]Record[row]{}, done: map[string]uint64{}}
	}
	return w
}

// samePending reports whether two rows ask for the same: another reconciler may have written the
// row.
func samePending(older, newer row) bool {
	return older.pendingID == newer.pendingID && older.status == newer.status
}

func (w *world) write(r row) {
	w.revision++
	r.revision = w.revision
	w.table[r.key] = r
}

// want writes a new Pending version of an object, in a group.
func (w *world) want(key, group string) { w.ask(key, group, statusPending) }

// refresh writes an object as Refreshing, as a program may, if it is Done.
func (w *world) refresh(key string) {
	if r, ok := w.table[key]; ok && r.status == statusDone && w.ledger == nil {
		w.ask(key, r.group, statusRefreshing)
	}
}

// unset removes the status of an object, if it exists.
func (w *world) unset(key string) {
	if r, ok := w.table[key]; ok && !r.deleted && w.ledger == nil {
		w.ask(key, r.group, statusUnset)
	}
}

func (w *world) ask(key, group, status string) {
	w.pendingIDs++
	w.pendingSince[w.pendingIDs] = w.revision + 1
	w.write(row{key: key, pendingID: w.pendingIDs, status: status, group: group})
}

// drop deletes an object, if it exists.
func (w *world) drop(key string) {
	if r, ok := w.table[key]; ok && !r.deleted {
		w.pendingIDs++
		w.write(row{key: key, pendingID: w.pendingIDs, deleted: true, group: r.group})
	}
}

// writeDone makes the program itself write Done for an object, if it exists or is being deleted.
func (w *world) writeDone(key string) {
	if r, ok := w.table[key]; ok && w.ledger == nil {
		w.pendingIDs++
		w.write(row{key: key, pendingID: w.pendingIDs, status: statusDone, group: r.group})
		w.reached[key], w.target[key] = w.pendingIDs, w.pendingIDs
	}
}

// rewrite makes another reconciler write its status into an object, if it exists.
func (w *world) rewrite(key string) {
	switch r, ok := w.table[key]; {
	case !ok || r.deleted:
	case w.ledger != nil:
		w.want(key, r.group)
	default:
		w.write(r)
	}
}

// leaveOrphan puts an object into the target that the table does not have, and adds it to the core
// as an orphan.
func (w *world) leaveOrphan(key string) {
	r := w.table[key]
	if r.key != "" && !r.deleted || w.jobOf(key) != nil {
		return
	}
	if w.core.TracksKeyOf(row{key: key}) {
		// The core has an entry for it.
		require.False(w.t, w.addOrphan(row{key: key}))
		return
	}
	w.pendingIDs++
	w.target[key] = w.pendingIDs
	require.True(w.t, w.addOrphan(row{key: key, pendingID: w.pendingIDs, deleted: true, group: r.group}))
}

func (w *world) addOrphan(r row) bool {
	added := w.core.AddOrphan(r, w.revision)
	require.Equal(w.t, w.model.addOrphan(r, w.revision), added, "whether %q was added", r.key)
	return added
}

// pause pauses exactly the objects with the given keys.
func (w *world) pause(keys ...string) {
	w.paused = map[string]bool{}
	for _, key := range keys {
		w.paused[key] = true
	}
	var paused func(row) bool
	if keys := w.paused; len(keys) > 0 {
		paused = func(r row) bool { return keys[r.key] }
	}
	w.core.SetPaused(paused)
	w.core.Walk(w.now)
	w.model.setPaused(w.now, paused)
}

// group sets whether groups are respected, if no operation is launched.
func (w *world) group(on bool) {
	if len(w.jobs) == 0 {
		w.core.SetGrouping(on)
		w.model.grouping = on
	}
}

// limit changes the limits.
func (w *world) limit(l Limits) {
	w.core.SetLimits(l)
	w.model.limits = l
}

func (w *world) release(key string) {
	require.Equal(w.t, w.model.release(key, w.now), w.core.Release(key, w.now), "whether %q was blocked", key)
}

// retry retries a key at once, as a user asks for it, and retryAll all keys.
func (w *world) retry(key string) {
	k := w.model.keys[key]
	require.Equal(w.t, k != nil && w.model.hurry(k, w.now, false), w.core.RetryNow(key, w.now), "whether %q waited", key)
}

// endBackoffs is called when the breaker has closed.
func (w *world) endBackoffs() {
	w.model.endBackoffs(w.now)
	w.core.EndBackoffs(w.now)
	w.requireSound()
}

func (w *world) retryAll() {
	n := 0
	byVersion := func(a, b *modelKey) int {
		return cmp.Or(cmp.Compare(a.newest().revision, b.newest().revision), cmp.Compare(a.key, b.key))
	}
	for _, k := range slices.SortedFunc(maps.Values(w.model.keys), byVersion) {
		if w.model.hurry(k, w.now, false) {
			n++
		}
	}
	told := -1
	w.core.RetryAllNow(func(n int) { told = n })
	w.core.Walk(w.now)
	require.Equal(w.t, n, told, "keys that waited")
}

// script is what the target and the program do in one round.
type script struct {
	// size bounds the operations of the round. workers: operations may be launched.
	size    int
	workers bool
	// before is called when the snapshot of the round has been taken. picks returns which of n rows is read ahead of
	// main, while the target is slow; -1 for none.
	before func()
	picks  func(n int) int
	// looks reports whether an item is looked up although it need not be, waits whether a caller
	// waits for the pending rows when main takes a snapshot.
	looks, waits func() bool
	// returned is the number of operations at the end of the round that are not run.
	returned int
	// launches reports whether an operation is launched, right whether a look finds the target right.
	launches, right func() bool
	// outcome returns the outcome of an operation: a Kind that an operation can cause, with its
	// delay and text.
	outcome func() Outcome[row]
	// meanwhile is called after the operations and before their statuses are written.
	meanwhile func()
	// until: after the round a change that was observed by then ceases to hold the mark, if there is a ledger.
	until time.Duration
}

// round runs one round as package reconciler does, and checks everything after it.
func (w *world) round(s script) {
	snapshot, revision := maps.Clone(w.table), w.revision
	s.before()
	size, entries := s.size, s.workers || w.slow
	w.core.Begin(w.now, size, entries)
	w.model.begin(w.now, size, entries)
	from := &source{world: w, snapshot: snapshot, revision: revision, picks: s.picks}
	from.begin(s.waits)
	var runs []run
	for it := w.next(from); it != nil; it = w.next(from) {
		looks := it.HasEntry() || w.at != revision && (w.mixed || it.Deleted) || s.looks()
		if r, ok := w.resolve(snapshot, it, looks); ok {
			runs = append(runs, r)
		}
	}
	w.requireOneOfAGroup(runs)

	ran := max(0, len(runs)-s.returned)
	var inRound []*run
	for i := range runs[:ran] {
		w.begin(&runs[i])
		w.mixed = w.mixed || runs[i].item.HasEntry()
		if entries && s.launches() {
			w.launch(&runs[i])
			continue
		}
		w.conclude(&runs[i], s.outcome(), s.right)
		inRound = append(inRound, &runs[i])
	}
	s.meanwhile()
	for _, r := range inRound {
		w.commit(r)
	}
	for _, r := range inRound {
		w.settleRun(w.now, r)
	}
	for i := len(runs) - 1; i >= ran; i-- {
		w.model.recall(w.now, runs[i].item)
		w.core.Recall(w.now, runs[i].item)
	}
	w.requireSound()
	w.publish(s.until)
}

// next makes the next operation; nil if none can be run.
func (w *world) next(from *source) *Operation[row] {
	for w.core.round.left > 0 && w.core.round.passedOver < maxPassedOver {
		w.model.takeOverJitter(w.t, w.core)
		from.calls = nil
		it := new(Operation[row])
		runs, found := w.core.step(it, from)
		w.model.step(w.t, w.core, it, runs, found, from.calls)
		if runs {
			return it
		}
		if !found {
			break
		}
	}
	return nil
}

// calm runs rounds with a working target and without other writes, until nothing is left to do. It
// fails if that takes too many rounds.
func (w *world) calm() {
	w.pause()
	for range 100 * (1 + len(w.table)) {
		for len(w.jobs) > 0 {
			w.finish(0, w.now, succeed(), yes)
		}
		if len(w.core.keys.entries) == 0 && w.sawAll() {
			return
		}
		for key, k := range w.model.keys {
			switch k.state {
			case Blocked:
				w.release(key)
			case Terminal:
				// Only a change ends this state.
				if r, ok := w.table[key]; !ok || r.deleted {
					w.want(key, "")
				} else {
					w.drop(key)
				}
			}
		}
		w.now += w.model.limits.MaxBackoff
		w.round(script{
			size: 1 << 30, looks: no, waits: no, launches: no, right: yes, outcome: succeed,
			before: func() {}, meanwhile: func() {}, picks: func(int) int { return -1 },
		})
	}
	for _, k := range w.model.keys {
		require.Fail(w.t, "the walk does not end", "%q is still %s", k.key, k.state)
	}
	require.Fail(w.t, "the walk does not end", "observed up to %d of %d", w.observed, w.revision)
}

func no() bool  { return false }
func yes() bool { return true }

func succeed() Outcome[row] { return Outcome[row]{Kind: Done} }

// requireConverged checks that the target equals the table, and that the core is empty.
func (w *world) requireConverged() {
	want := map[string]uint64{}
	for key, r := range w.table {
		switch {
		case r.status == statusUnset && !r.deleted:
			// An object without a status may be in the target or not.
			delete(w.target, key)
		case !r.deleted:
			want[key] = r.pendingID
		}
	}
	require.Equal(w.t, want, w.target)
	require.Empty(w.t, w.core.queues.groups.byName)
	if w.ledger != nil {
		w.publish(0)
		require.Empty(w.t, w.ledger.records)
		require.Equal(w.t, w.revision, w.ledger.mark)
	}
}

// testingT is the part of a test that the checks use. *testing.T and *rapid.T implement it.
type testingT interface {
	require.TestingT
	Helper()
}

// same requires two values to be equal, like require.Equal but a hundred times faster: the checks
// compare a lot.
func same[T comparable](t testingT, want, got T, message ...any) {
	if want != got {
		t.Helper()
		require.Equal(t, want, got, message...)
	}
}

// row is an object of a test's table. A deleted object stays as a tombstone.
type row struct {
	key      string
	revision uint64
	// pendingID is the ID of the pending status: status writes keep it.
	pendingID uint64
	deleted   bool
	status    string
	text      string
	// group is the group of the object.
	group string
}

// deletes reports whether the update of a row deletes its object, as those of adapters do.
func (r row) deletes() bool { return !r.deleted && r.pendingID%4 == 0 }

func keyOfRow(r row) []byte { return []byte(r.key) }

// small returns a core with the given round size and a backoff of 100 ms to 1 s without jitter.
func small(size int) *Core[row] { return New(smallConfig(size)) }

func smallConfig(size int) Config[row] {
	return Config[row]{KeyOf: keyOfRow, Limits: Limits{
		MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Second, RoundSize: size,
	}}
}

// none is a source without changes.
type none[Obj any] struct{}

// anyLane is what a source embeds that does not know in which lanes it has changes.
type anyLane struct{}

func (anyLane) Lanes() Lanes { return 1<<NumLanes - 1 }

func (none[Obj]) Lanes() Lanes { return 0 }

func (none[Obj]) Next(Lane) (c Change[Obj], ok bool) { return c, false }

// listed is a source of changes in a list, which come in this order.
type listed[Obj any] []Change[Obj]

func (*listed[Obj]) Lanes() Lanes { return anyLane{}.Lanes() }

func (l *listed[Obj]) Next(lane Lane) (change Change[Obj], ok bool) {
	if len(*l) == 0 || (*l)[0].Lane != lane {
		return change, false
	}
	change, *l = (*l)[0], (*l)[1:]
	return change, true
}

// Plan makes the operations of the round, of keys that are ready or due.
func (c *Core[Obj]) Plan() []Operation[Obj] { return c.planFrom(none[Obj]{}) }

// planFrom makes the operations of the round.
func (c *Core[Obj]) planFrom(from Source[Obj]) (ops []Operation[Obj]) {
	for op := (Operation[Obj]{}); c.Next(&op, from); op = (Operation[Obj]{}) {
		ops = append(ops, op)
	}
	return ops
}

// requireSound checks everything between two rounds.
func (w *world) requireSound() {
	w.model.requireSame(w.t, w.core, w.observed)
	w.requireNothingLost()
	w.requireAttempted()
}

// requireOneOfAGroup checks that at most one object of each group is worked on.
func (w *world) requireOneOfAGroup(runs []run) {
	if !w.model.grouping {
		return
	}
	busy := map[string]string{}
	occupy := func(r row) {
		if r.group != "" {
			require.Empty(w.t, busy[r.group], "worked on beside %q in group %q", r.key, r.group)
			busy[r.group] = r.key
		}
	}
	for _, f := range w.jobs {
		occupy(f.item.Obj)
	}
	for i := range runs {
		occupy(runs[i].item.Obj)
	}
}

// requireNothingLost checks that each object that the target lacks is still to be observed, or has
// an entry.
func (w *world) requireNothingLost() {
	for key, r := range w.table {
		if w.reached[key] >= r.pendingID || !w.saw(r) || r.status == statusUnset && !r.deleted {
			continue
		}
		require.NotNil(w.t, w.core.keys.entries[key], "%q is forgotten: %+v", key, r)
	}
}

// requireAttempted checks that each change that counts as attempted has been: the rows of the
// table, and the rows of main's snapshot that it has handed over and that still ask for the same,
// by the revision since which they are unreconciled. Paused keys, and keys that are held after a
// failure, count as attempted anyway.
func (w *world) requireAttempted() {
	upTo := w.core.Index.Attempted(w.observed)
	for _, r := range w.table {
		if r.revision <= upTo {
			w.requireAttemptedOf(r)
		}
	}
	for key, r := range w.handed {
		if w.since(r) <= upTo && samePending(r, w.table[key]) {
			w.requireAttemptedOf(r)
		}
	}
}

func (w *world) requireAttemptedOf(r row) {
	if !r.asks() || w.attempted[r.key] >= r.pendingID || w.paused[r.key] {
		return
	}
	e := w.core.keys.entries[r.key]
	require.NotNil(w.t, e, "%q of %d counts as attempted, and is forgotten", r.key, r.revision)
	require.True(w.t, e.state == Held || e.state == Queued && e.from == Held,
		"%q of %d counts as attempted, and is %s", r.key, r.revision, e.state)
}
