// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// togetherWorld is the target of a walk, and the record of what was wanted and done.
type togetherWorld struct {
	w *together
	// takes is how long an operation takes; in trouble of 24 operations something goes wrong.
	takes   time.Duration
	trouble int
	groups  bool

	mu sync.Mutex
	// versions and changes are the rows that were written and what the target has had, by key.
	versions map[uint64][]version
	changes  map[uint64][]change
	number   int
	// running has the operations that run, with their groups. latest is the version of the last operation of a key.
	running map[uint64]string
	latest  map[uint64]int
	tries   map[uint64]uint64
	// suspected is when the last operation on an object has suspected what it needs.
	suspected map[uint64]time.Time
	// gets counts the calls of Get, echoes the changes that events have told of.
	gets, echoes uint64
	// lag is how long after its end the effect of the running operation of a key shows. events are those on their way.
	lag    map[uint64]time.Duration
	events sync.WaitGroup
	// ops has the operations that this process has begun for a key, in order; true: nobody had changed the target since the
	// operation before. judged is how many of them were compared with the journal.
	ops         map[uint64][]bool
	judged      map[uint64]int
	judgedTo    uint64
	initialized bool
	// pruning: a prune runs. stopped: no loop runs.
	pruning, stopped bool
	// calm is closed when the faults end. gate is closed to release blocked objects.
	calm, gate chan struct{}
	waits      map[*string]bool
	violations []string
	log        []string
}

// absent is the value of an object that is not there.
const absent = -1

// version is a version of a row; its value is absent if the row was deleted.
type version struct {
	number, value int
	at            time.Time
	// loop is the loop that ran; nil for none.
	loop *reconciler.Loop[*part]
}

// change is a change of the target: by an operation that applied a version, by one that failed half way, or by others.
type change struct {
	value int
	at    time.Time
	by    changer
	// shows is when the target shows it.
	shows time.Time
}

type changer string

const (
	applied changer = "an operation"
	damage  changer = "an operation that failed"
	drifted changer = "others"
)

// slack is how long after a failure half way the status may still be Done.
const slack = 2 * time.Second

func newTogetherWorld(w *together) *togetherWorld {
	x := &togetherWorld{
		w: w, versions: map[uint64][]version{}, changes: map[uint64][]change{}, running: map[uint64]string{}, latest: map[uint64]int{},
		tries: map[uint64]uint64{}, suspected: map[uint64]time.Time{}, lag: map[uint64]time.Duration{}, calm: make(chan struct{}), gate: make(chan struct{}), waits: map[*string]bool{},
	}
	x.drift(foreign, 7)
	return x
}

// newLoop begins the record of another loop.
func (x *togetherWorld) newLoop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ops, x.judged, x.judgedTo, x.stopped = map[uint64][]bool{}, map[uint64]int{}, 0, false
}

// stop records that the loop has ended.
func (x *togetherWorld) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stopped = true
}

func (x *togetherWorld) setInitialized(is bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.initialized = is
}

func (x *togetherWorld) isCalm() bool {
	select {
	case <-x.calm:
		return true
	default:
		return false
	}
}

func (x *togetherWorld) gateNow() chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.gate
}

// open releases blocked objects.
func (x *togetherWorld) open() {
	x.mu.Lock()
	defer x.mu.Unlock()
	close(x.gate)
	x.gate = make(chan struct{})
}

// newRow returns another version of a row, which the caller writes.
func (x *togetherWorld) newRow(id uint64, value int) *part {
	p := reconciler.StatusPending()
	return &part{ID: id, Value: value, Version: x.wish(id, value), Status: p, Other: p}
}

// wish records a version that is about to be written.
func (x *togetherWorld) wish(id uint64, value int) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.number++
	x.versions[id] = append(x.versions[id], version{x.number, value, time.Now(), x.w.loop.Load()})
	return x.number
}

// newest returns the last version of a key; the zero version if there is none.
func (x *togetherWorld) newest(id uint64) (v version) {
	if n := len(x.versions[id]); n > 0 {
		v = x.versions[id][n-1]
	}
	return v
}

// drift changes the target without the loop.
func (x *togetherWorld) drift(id uint64, value int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.set(id, value, drifted)
}

func (x *togetherWorld) set(id uint64, value int, by changer) {
	now := time.Now()
	x.changes[id] = append(x.changes[id], change{value, now, by, now.Add(x.lag[id])})
	delete(x.lag, id)
	x.tell(id)
}

// tell has the program ask for a look at an object that has changed, its own changes included, when it hears of that: soon,
// late, twice, or never.
func (x *togetherWorld) tell(id uint64) {
	loop := x.w.loop.Load()
	if !x.w.watches || loop == nil || id > hot {
		return
	}
	x.echoes++
	rng := rand.New(rand.NewPCG(x.w.seed, 1<<61|x.echoes))
	times := pick(rng, 0, 1, 1, 1, 2)
	if x.isCalm() {
		times = max(times, 1)
	}
	for range times {
		wait := pick(rng, 0, 0, time.Millisecond, 40*time.Millisecond)
		x.events.Go(func() {
			time.Sleep(wait)
			_ = loop.Verify(context.Background(), &part{ID: id})
		})
	}
}

// value returns what the target has.
func (x *togetherWorld) value(id uint64) int {
	if n := len(x.changes[id]); n > 0 {
		return x.changes[id][n-1].value
	}
	return absent
}

// shown returns what the target shows now: the effect of an operation may come late.
func (x *togetherWorld) shown() map[uint64]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	held := map[uint64]int{}
	for id, changes := range x.changes {
		for _, c := range slices.Backward(changes) {
			if !c.shows.After(time.Now()) {
				if held[id] = c.value; c.value == absent {
					delete(held, id)
				}
				break
			}
		}
	}
	return held
}

// untilShown returns how long it takes until all effects show.
func (x *togetherWorld) untilShown() (d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, changes := range x.changes {
		for _, c := range changes {
			d = max(d, time.Until(c.shows))
		}
	}
	return d
}

func (x *togetherWorld) holds() map[uint64]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	held := map[uint64]int{}
	for id := range x.changes {
		if value := x.value(id); value != absent {
			held[id] = value
		}
	}
	return held
}

func (x *togetherWorld) holdsNow(id uint64) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.value(id)
}

// changed returns how many operations have begun.
func (x *togetherWorld) changed() (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, tries := range x.tries {
		if id != foreign {
			n += int(tries)
		}
	}
	return n
}

// explained reports whether the target has a value for a key, or had it before others changed it.
func (x *togetherWorld) explained(id uint64, value int) bool {
	for _, c := range slices.Backward(x.changes[id]) {
		switch {
		case c.value == value:
			return true
		case c.by == applied, c.by == damage && time.Since(c.at) > slack:
			return false
		}
	}
	return value == absent
}

// hadSince reports whether the target has had a value at some time since then, or would have had without others.
func (x *togetherWorld) hadSince(id uint64, value int, since time.Time) bool {
	for _, c := range slices.Backward(x.changes[id]) {
		switch {
		case c.value == value:
			return true
		case c.by == applied && c.at.Before(since):
			return false
		}
	}
	return value == absent
}

// reached reports whether the target has had a version of a key, or a later one, since that was written. A loop does not
// know of deletions from before it.
func (x *togetherWorld) reached(loop *reconciler.Loop[*part], id uint64, number int) bool {
	return slices.ContainsFunc(x.versions[id], func(v version) bool {
		return v.number >= number && (v.value == absent && v.loop != loop || x.hadSince(id, v.value, v.at))
	})
}

// judge checks (d) for an operation of the journal.
func (x *togetherWorld) judge(event inspect.Operation) {
	looked := strings.Contains(event.Error, "contended: ") && event.Took == 0
	if event.Cause == inspect.CauseAdopted || looked || strings.Contains(event.Error, "looking at the object in the target: ") {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	id, _ := strconv.ParseUint(event.Key, 10, 64)
	n := x.judged[id]
	x.judged[id]++
	repair := event.Cause == inspect.CauseRepair || event.Cause == inspect.CauseVerify
	if repair && n < len(x.ops[id]) && x.ops[id][n] {
		x.violateLocked("(d) object %d was repaired without a reason: %+v\n%s", id, event, x.history(id))
	}
}

func (x *togetherWorld) event(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.log = append(x.log, clock(time.Now())+" "+fmt.Sprintf(format, args...))
}

func (x *togetherWorld) violate(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.violateLocked(format, args...)
}

func (x *togetherWorld) violateLocked(format string, args ...any) {
	if len(x.violations) < 4 {
		text := fmt.Sprintf(format, args...)
		x.violations, x.log = append(x.violations, clock(time.Now())+" "+text), append(x.log, clock(time.Now())+" VIOLATION "+text)
	}
}

// failed reports whether a promise was broken.
func (x *togetherWorld) failed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.violations) > 0
}

// history returns the last versions of a key and changes of its object, in order.
func (x *togetherWorld) history(id uint64) string {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	for _, v := range x.versions[id] {
		lines = append(lines, line{v.at, fmt.Sprintf("version %d is written: %d", v.number, v.value)})
	}
	for _, c := range x.changes[id] {
		lines = append(lines, line{c.at, fmt.Sprintf("the target gets %d by %s", c.value, c.by)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	var text strings.Builder
	for _, l := range lines[max(0, len(lines)-16):] {
		fmt.Fprintf(&text, "    %s %s\n", clock(l.at), l.text)
	}
	return text.String()
}

func (x *togetherWorld) groupOf(id uint64) string {
	if !x.groups {
		return ""
	}
	return strconv.FormatUint(id%4, 10)
}

// begin records that an operation begins, and checks (c).
func (x *togetherWorld) begin(p *part, deletes bool) (rng *rand.Rand) {
	x.mu.Lock()
	defer x.mu.Unlock()
	number := p.Version
	if deletes {
		number = x.latest[p.ID]
		for _, v := range x.versions[p.ID] {
			if v.number > p.Version && v.value == absent {
				number = max(number, v.number)
				break
			}
		}
		if p.ID > hot && !x.initialized {
			x.violateLocked("(d) orphan %d is deleted before the table is initialised", p.ID)
		}
	}
	if x.pruning || x.stopped {
		x.violateLocked("(c) an operation of %d begins during a prune: %t, or after the stop: %t", p.ID, x.pruning, x.stopped)
	}
	if number < x.latest[p.ID] {
		x.violateLocked("(c) an operation of %d for version %d starts after one for version %d\n%s", p.ID, number, x.latest[p.ID], x.history(p.ID))
	}
	x.latest[p.ID] = number
	group := x.groupOf(p.ID)
	for other, g := range x.running {
		if other == p.ID || g != "" && g == group {
			x.violateLocked("(c) operations of %d and %d overlap", p.ID, other)
		}
	}
	x.running[p.ID] = group
	n := len(x.changes[p.ID])
	x.ops[p.ID] = append(x.ops[p.ID], n > 0 && x.changes[p.ID][n-1].by == applied && x.changes[p.ID][n-1].shows.Equal(x.changes[p.ID][n-1].at))
	x.tries[p.ID]++
	return rand.New(rand.NewPCG(x.w.seed, p.ID<<32|x.tries[p.ID]))
}

// end records that an operation ends.
func (x *togetherWorld) end(p *part, deletes bool, by changer, damaged int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.running, p.ID)
	switch {
	case by == damage:
		x.set(p.ID, damaged, damage)
	case by == applied && deletes:
		x.set(p.ID, absent, applied)
	case by == applied:
		x.set(p.ID, p.Value, applied)
	}
}

// do carries an operation out.
func (x *togetherWorld) do(ctx context.Context, txn statedb.ReadTxn, p *part, deletes bool) (err error) {
	rng := x.begin(p, deletes)
	by, damaged := changer(""), pick(rng, absent, 0, 1, 2, 3)
	defer func() { x.end(p, deletes, by, damaged) }()
	if by, err = x.try(ctx, txn, rng, p, deletes); by == "" && err == nil {
		by = applied
	}
	return err
}

// needs: a row with an even ID needs the one before it, if that is wanted, and that is deleted after it. Hot rows do not:
// if both are written faster than they are applied, no version of the one finds the other applied.
func (x *togetherWorld) needs(ctx context.Context, txn statedb.ReadTxn, p *part, deletes bool) error {
	w := x.w
	if deletes && p.ID%2 == 1 {
		return reconciler.NeedDeleted(ctx, nil, func(other *part) bool { return other.ID == p.ID+1 }, "the next one")
	}
	row, revision, wanted := w.e.Table.Get(txn, partIndex.Query(p.ID-1))
	if deletes || p.ID%2 == 1 || !wanted || p.ID > cold {
		return nil
	}
	lacked := x.lacks(row.ID)
	needed, err := reconciler.NeedApplied[*part](ctx, txn, nil, partIndex.Query(row.ID), "the one before")
	if _, now, _ := w.e.Table.Get(w.e.DB.ReadTxn(), partIndex.Query(row.ID)); err == nil && lacked && now == revision && x.lacks(row.ID) {
		x.violate("(g) row %d is applied, and %d is not", p.ID, row.ID)
	}
	if err == nil && x.holdsNow(row.ID) == absent {
		return x.suspect(ctx, p.ID, needed)
	}
	return err
}

// suspect is for an operation on an object that has not found what it needs. It checks (g).
func (x *togetherWorld) suspect(ctx context.Context, id uint64, needed *part) error {
	lost := errors.New("lost")
	err := reconciler.Suspect(ctx, nil, needed, lost)
	_, _, wanted := x.w.e.Table.Get(x.w.e.DB.ReadTxn(), partIndex.Query(needed.ID))
	x.mu.Lock()
	defer x.mu.Unlock()
	if since, was := x.suspected[id]; err != lost {
		x.suspected[id] = time.Now()
	} else if delete(x.suspected, id); x.w.config.Operations != nil && !x.w.prunes && wanted && ctx.Err() == nil {
		if !was || !x.shownSince(needed.ID, since) {
			x.violateLocked("(g) %d fails although no look since %s can have found %d\n%s", id, clock(since), needed.ID, x.history(needed.ID))
		}
	}
	return err
}

// shownSince reports whether the target may have shown an object at some time since then.
func (x *togetherWorld) shownSince(id uint64, since time.Time) bool {
	for _, c := range slices.Backward(x.changes[id]) {
		if c.value != absent {
			return true
		} else if c.shows.Before(since) {
			break
		}
	}
	return false
}

// lacks reports whether the target has not got an object by an operation, or lost it by one.
func (x *togetherWorld) lacks(id uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := len(x.changes[id])
	return n == 0 || x.value(id) == absent && x.changes[id][n-1].by == applied
}

// try returns the drawn outcome of an operation, and how it has changed the target; nothing if it has only succeeded.
func (x *togetherWorld) try(ctx context.Context, txn statedb.ReadTxn, rng *rand.Rand, p *part, deletes bool) (by changer, err error) {
	w := x.w
	time.Sleep(x.takes)
	if p.ID > cold {
		time.Sleep(10 * time.Millisecond)
	}
	if err := x.needs(ctx, txn, p, deletes); err != nil {
		return "", err
	}
	if p.Value == 2 && !deletes {
		if _, err := reconciler.Need(txn, statedb.Table[*part](w.devices), partIndex.Query(p.ID%4), "device"); err != nil {
			return "", err
		}
	}
	if x.isCalm() || rng.IntN(24) >= x.trouble {
		if !w.beside && !deletes {
			p.Handle = int(p.ID)
		}
		return "", nil
	}
	switch rng.IntN(18) {
	case 0, 1:
		return "", errors.New("no")
	case 2, 3:
		if ctx.Err() == nil {
			return damage, errors.New("half way")
		}
		return "", ctx.Err()
	case 4:
		time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
	case 5:
		// The operation outlives its timeout.
		time.Sleep(1500 * time.Millisecond)
	case 6:
		if _, has := ctx.Deadline(); has {
			<-ctx.Done()
			return "", ctx.Err()
		}
	case 7:
		return applied, reconciler.Requeue(time.Duration(rng.IntN(300)) * time.Millisecond)
	case 8:
		return applied, reconciler.RequeueBackoff()
	case 9:
		return "", reconciler.Blocked("odd")
	case 10:
		return "", reconciler.Blocked("gate", x.gateNow())
	case 11:
		return "", reconciler.TerminalError(errors.New("bad"))
	case 12:
		return "", reconciler.RetryAfter(errors.New("later"), 200*time.Millisecond)
	case 13:
		panic("odd")
	case 14:
		if !w.beside && !deletes {
			p.Handle = rng.IntN(100)
			if err := reconciler.Checkpoint(ctx, p); err != nil {
				return "", err
			}
		}
		time.Sleep(x.takes)
	case 15, 16:
		if _, gets := x.w.config.Lister.(gettingParts); gets {
			x.late(p.ID, time.Duration(rng.IntN(60))*time.Millisecond)
		}
	default:
		reconciler.NoteOn(ctx, p, "a note")
		// The deadline has passed, and it works all the same.
		time.Sleep(60 * time.Millisecond)
	}
	return "", nil
}

// late lets the effect of the running operation of a key show a while after its end.
func (x *togetherWorld) late(id uint64, by time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lag[id] = by
}

func (x *togetherWorld) Update(ctx context.Context, txn statedb.ReadTxn, _ statedb.Revision, p *part) error {
	return x.do(ctx, txn, p, false)
}

func (x *togetherWorld) Delete(ctx context.Context, txn statedb.ReadTxn, _ statedb.Revision, p *part) error {
	return x.do(ctx, txn, p, true)
}

// Prune deletes what has no row, and checks (d). With a Lister nothing is pruned.
func (x *togetherWorld) Prune(_ context.Context, _ statedb.ReadTxn, rows iter.Seq2[*part, statedb.Revision]) error {
	x.mu.Lock()
	if !x.w.prunes || !x.initialized || len(x.running) > 0 {
		x.violateLocked("(d) the target is pruned: wanted %t, initialised %t, beside %v", x.w.prunes, x.initialized, x.running)
	}
	x.pruning = true
	x.tries[foreign]++
	rng := rand.New(rand.NewPCG(x.w.seed, x.tries[foreign]))
	x.mu.Unlock()
	time.Sleep(x.takes)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pruning = false
	if trouble := rng.IntN(4); !x.isCalm() && trouble == 0 {
		return errors.New("interrupted")
	}
	kept := map[uint64]bool{}
	for p := range rows {
		kept[p.ID] = true
	}
	for id := range x.changes {
		if kept[id] || id == foreign || x.value(id) == absent {
			continue
		}
		deleted := slices.ContainsFunc(x.versions[id], func(v version) bool { return v.number >= x.latest[id] && v.value == absent })
		if len(x.ops[id]) > 0 && id <= hot && !deleted {
			x.violateLocked("(d) a prune does not get row %d\n%s", id, x.history(id))
		}
		x.set(id, absent, applied)
	}
	return nil
}

// List lists what the target has, but what is foreign.
func (x *togetherWorld) List(ctx context.Context, _ statedb.ReadTxn, yield func(*part) bool) error {
	x.mu.Lock()
	x.tries[foreign]++
	rng := rand.New(rand.NewPCG(x.w.seed, x.tries[foreign]))
	x.mu.Unlock()
	way := 20
	if !x.isCalm() {
		way = rng.IntN(20)
	}
	held := x.shown()
	x.event("a listing of %v begins, way %d", held, way)
	for _, id := range slices.Sorted(maps.Keys(held)) {
		if id == foreign {
			continue
		}
		yield(&part{ID: id, Value: held[id]})
		if way == 0 {
			yield(&part{ID: id, Value: held[id]})
		}
		if way <= 4 {
			// What the target has changes while it is listed.
			time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
		}
	}
	switch way {
	case 5, 6:
		return errors.New("interrupted")
	case 7:
		panic("odd")
	case 8, 9:
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
	case 10:
		// It hangs.
		select {
		case <-ctx.Done():
		case <-x.calm:
		}
	}
	x.event("a listing ends")
	return nil
}

// gettingParts is a target whose objects can be got.
type gettingParts struct{ *togetherWorld }

// Get returns what the target has, after a while, or fails in some way. It checks (c).
func (x gettingParts) Get(ctx context.Context, _ statedb.ReadTxn, wanted *part) (*part, bool, error) {
	x.mu.Lock()
	if _, runs := x.running[wanted.ID]; runs {
		x.violateLocked("(c) a get of %d overlaps an operation", wanted.ID)
	}
	x.running[wanted.ID] = x.groupOf(wanted.ID)
	x.gets++
	rng := rand.New(rand.NewPCG(x.w.seed, 1<<60|x.gets))
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.running, wanted.ID)
	}()
	way := 20
	if !x.isCalm() {
		way = rng.IntN(20)
	}
	switch way {
	case 0:
		return nil, false, errors.New("no answer")
	case 1:
		panic("odd")
	case 2:
		return nil, false, reconciler.TerminalError(errors.New("bad"))
	case 3:
		// It hangs.
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-x.calm:
		case <-time.After(2 * time.Second):
		}
	case 4, 5, 6:
		time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
	}
	value, has := x.shown()[wanted.ID]
	switch way {
	case 7:
		// What it returns is old.
		time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
	case 8, 9:
		value, has = rng.IntN(3), rng.IntN(3) > 0
		x.lie(wanted.ID, value, has)
	}
	return &part{ID: wanted.ID, Value: value}, has, nil
}

// lie records what Get says and is not so, as if others had changed it for a moment.
func (x *togetherWorld) lie(id uint64, value int, has bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !has {
		value = absent
	}
	now, is := time.Now(), x.value(id)
	x.changes[id] = append(x.changes[id], change{value, now, drifted, now}, change{is, now, drifted, now})
}

// togetherBatches and togetherRounds implement the batch and the round operations.
type togetherBatches struct{ *togetherWorld }

func (b togetherBatches) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*part]) {
	for i := range batch {
		batch[i].Result = b.do(ctx, txn, batch[i].Object, false)
	}
}

func (b togetherBatches) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*part]) {
	for i := range batch {
		batch[i].Result = b.do(ctx, txn, batch[i].Object, true)
	}
}

type togetherRounds struct{ togetherBatches }

func (r togetherRounds) ProcessRound(ctx context.Context, txn statedb.ReadTxn, deletes, updates []reconciler.BatchEntry[*part]) {
	r.DeleteBatch(ctx, txn, deletes)
	r.UpdateBatch(ctx, txn, updates)
}

// commits calls a function after each commit of any table.
type commits struct {
	*statedb.ExpVarMetrics
	f func()
}

func (c *commits) WriteTxnDuration(string, []string, time.Duration) { c.f() }

// clock returns the time of day in a bubble, which begins at midnight.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

// otherTarget is the target of the second reconciler of the rows.
type otherTarget struct{ x *togetherWorld }

func (o otherTarget) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, p *part) error {
	time.Sleep(o.x.takes)
	if !o.x.isCalm() && p.Version%5 == 0 && p.Other.Kind != reconciler.StatusKindRefreshing {
		return reconciler.RetryAfter(errors.New("other"), 20*time.Millisecond)
	}
	return nil
}

func (o otherTarget) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *part) error {
	return nil
}

func (o otherTarget) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*part, statedb.Revision]) error {
	return nil
}
