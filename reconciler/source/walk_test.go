// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/source"
)

// unlucky is the value of an object for which an index panics.
const unlucky = 13

// walk is a random walk of three sources in one table, beside a loop that writes the statuses of rows:
// between the transactions of a call, and while a call compares rows. A model says what each call does.
type walk struct {
	*env
	rng     *rand.Rand
	sources map[string]*walkSource
	// model has the rows as the model has them, without a status.
	model map[string]row
	at    uint64

	// writing reports whether the loop writes statuses now, and statuses how often it wrote those of
	// each row in the present call.
	writing  bool
	statuses map[string]int
	// commits counts the transactions of the table in the present call, and revision is that of the
	// table after the last one. cancel is called after the commit cancelAfter; zero is never. changed is
	// what the call returned.
	commits, cancelAfter int
	changed              int
	revision             uint64
	cancel               func()

	// cursed is the key for which Owner panics; empty if there is none. calling is the source of the present
	// call, hung reports whether Same has hung in it, and left whether it was told to be disconnected meanwhile.
	cursed     string
	calling    *walkSource
	hung, left bool
}

// walkSource is a source of a walk, and its model.
type walkSource struct {
	*source.Sink[*row]
	name              string
	rejected          map[string]bool
	unnamed           int
	input             uint64
	full, listed      bool
	connected, refuse bool
	// bound is how many rows a call may delete; zero is no bound. held are the keys of deletions that are held, and upTo
	// is the revision that the table includes but for these.
	bound int
	held  map[string]bool
	upTo  uint64
	// reported is the number of problems that Report was told last.
	reported int
	log      *testlog.Buffer
}

// holds reports whether a call may not delete so many rows.
func (s *walkSource) holds(deletions int) bool { return s.bound > 0 && deletions > max(1, s.bound) }

// expected is what the model says of a call.
type expected struct {
	table    map[string]row
	rejected map[string]bool
	// failed is the number of errors, unnamed that of objects without a key, and hold that of deletions that the call
	// holds.
	failed, unnamed, hold int
}

func TestWalkEqualsTheModel(t *testing.T) {
	for range long.Times(60) {
		seed := rand.Uint64()
		run(t, func(e *env) {
			defer func() {
				if e.Failed() {
					e.Logf("seed %d", seed)
				}
			}()
			newWalk(e, seed).walk(80)
		})
		if t.Failed() {
			return
		}
	}
}

func newWalk(e *env, seed uint64) *walk {
	w := &walk{env: e, rng: rand.New(rand.NewPCG(seed, 0)), sources: map[string]*walkSource{}, model: map[string]row{}}
	for _, name := range []string{"a", "b", "c"} {
		w.sources[name] = &walkSource{name: name, refuse: name != "c", bound: map[string]int{"b": 2, "c": 1}[name]}
		w.open(w.sources[name])
	}
	e.spy.committed = w.committed
	e.spy.indexed = func(r *row) {
		if r.Value == unlucky {
			panic("unlucky")
		}
		if !w.writing {
			time.Sleep(2 * time.Millisecond)
		}
	}
	return w
}

func (w *walk) open(s *walkSource) {
	committed := w.spy.committed
	w.spy.committed = nil
	defer func() { w.spy.committed = committed }()
	log := &testlog.Buffer{}
	same := func(r, obj *row) bool {
		w.hang(r.Key)
		w.writeStatuses()
		return sameWish(r, obj)
	}
	owner := func(r *row) string {
		if r.Key == w.cursed {
			panic("cursed")
		}
		return r.Owner
	}
	s.Sink = w.sink(s.name, func(c *source.Config[*row]) {
		c.Owner, c.Same, c.Merge, c.AllowEmpty = owner, same, mergeStatus, !s.refuse
		c.MaxDeletions.Rows, c.Log = s.bound, slog.New(slog.NewTextHandler(log, nil))
	})
	s.log, s.reported = log, 0
	s.rejected, s.unnamed, s.input, s.held, s.upTo = map[string]bool{}, 0, 0, map[string]bool{}, 0
	s.full, s.listed, s.connected = false, false, false
}

// hang lets Same hang for a while, once in some calls: the state names it, and the source may be told to be
// disconnected, or the context of the call may end, meanwhile.
func (w *walk) hang(key string) {
	if w.hung || w.rng.IntN(40) > 0 {
		return
	}
	w.hung = true
	began := time.Now()
	time.Sleep(time.Duration(10+w.rng.IntN(80)) * time.Second)
	require.Equal(w, fmt.Sprintf("Same of %s runs since %s", key, text.Stamp(began)), w.calling.State().Running)
	switch w.rng.IntN(3) {
	case 0:
		w.cancel()
	case 1:
		// Disconnected writes into the table of inputs, which a piece has locked.
		if w.spy.locked == 0 {
			w.calling.Disconnected(errors.New("gone while Same hung"))
			w.left = true
		}
	}
}

// committed is called after each transaction of the table.
func (w *walk) committed() {
	if w.writing {
		return
	}
	w.commits++
	w.revision = w.env.revision()
	if w.commits == w.cancelAfter {
		w.cancel()
	}
	w.writeStatuses()
}

// writeStatuses writes the status of some rows, unless the table is locked.
func (w *walk) writeStatuses() {
	if w.writing || w.spy.locked > 0 || w.rng.IntN(4) > 0 {
		return
	}
	w.writing = true
	defer func() { w.writing = false }()
	for _, r := range w.rows() {
		if w.rng.IntN(3) == 0 {
			r.Status++
			w.write(&r)
			w.statuses[r.Key]++
		}
	}
}

func (w *walk) walk(steps int) {
	names := slices.Sorted(maps.Keys(w.sources))
	for range steps {
		s := w.sources[names[w.rng.IntN(3)]]
		switch w.rng.IntN(15) {
		case 14:
			s.reported = w.rng.IntN(3)
			s.Report(slices.Repeat([]source.Problem{{Err: errors.New("a problem")}}, s.reported)...)
		case 13:
			w.approve(s)
		case 12:
			if w.cursed = ""; w.rng.IntN(2) == 0 {
				w.cursed = fmt.Sprint(10 + w.rng.IntN(30))
			}
		case 0:
			s.Connected()
			s.connected = true
		case 1, 2:
			s.Disconnected([]error{nil, errors.New("no route"), errors.New("refused")}[w.rng.IntN(3)])
			s.connected = false
		case 3:
			time.Sleep(time.Duration(w.rng.IntN(200)) * time.Second)
		case 4:
			if w.rng.IntN(4) == 0 {
				s.Close()
				w.open(s)
			}
		case 5, 6, 7:
			w.replace(s)
		default:
			w.apply(s)
		}
		w.check()
	}
}

// object returns a random object that a source gives; one without a key with a small probability. Most are its own.
func (w *walk) object(s *walkSource) *row {
	switch w.rng.IntN(200) {
	case 0:
		return nil
	case 1:
		return &row{Key: "keyless", Owner: s.name}
	}
	r := &row{Key: fmt.Sprint(10 + w.rng.IntN(30)), Owner: s.name, Value: w.rng.IntN(3)}
	if w.rng.IntN(20) == 0 {
		r.Owner = "x"
	}
	if w.rng.IntN(20) == 0 {
		r.Value = unlucky
	}
	return r
}

func isKeyless(obj *row) bool { return obj == nil || obj.Key == "keyless" }

// owns reports whether a source can know that a row is its own.
func (w *walk) owns(s *walkSource, r row) bool { return r.Owner == s.name && r.Key != w.cursed }

func (w *walk) replace(s *walkSource) {
	var list []*row
	if w.rng.IntN(3) > 0 {
		// Most of the rows that there are.
		for _, key := range slices.Sorted(maps.Keys(w.model)) {
			if r := w.model[key]; r.Owner == s.name && w.rng.IntN(5) > 0 {
				list = append(list, &r)
			}
		}
	}
	for range w.rng.IntN(8) {
		list = append(list, w.object(s))
	}
	w.at++
	if w.rng.IntN(20) == 0 {
		list = nil
	}
	empty := s.refuse // An empty list is refused.
	if len(list) == 0 && w.rng.IntN(2) == 0 {
		empty = false // The source is known to be empty.
	}
	if len(list) == 0 && empty && slices.ContainsFunc(slices.Collect(maps.Values(w.model)), func(r row) bool { return w.owns(s, r) }) {
		before := w.env.revision()
		_, err := s.Replace(w.Context(), list, w.at)
		require.ErrorIs(w, err, source.ErrEmpty)
		require.Equal(w, before, w.env.revision())
		s.full = false
		return
	}

	want := expected{table: maps.Clone(w.model), rejected: map[string]bool{}}
	listed, accepted, planned := map[string]bool{}, 0, 0
	for _, obj := range list {
		switch {
		case isKeyless(obj):
			want.unnamed++
		case listed[obj.Key]:
			want.reject(obj.Key)
		default:
			listed[obj.Key] = true
			if w.mayPut(&want, s, obj) {
				planned++
			}
			if w.put(&want, s, obj) {
				accepted++
			}
		}
	}
	refused, held := false, map[string]bool{}
	if want.unnamed > 0 {
		held = s.held
	} else {
		if _, found := w.model[w.cursed]; found && !listed[w.cursed] {
			want.reject(w.cursed)
		}
		removed := func(key string, r row) bool { return w.owns(s, r) && !listed[key] }
		rest := maps.Clone(want.table)
		maps.DeleteFunc(rest, removed)
		deletions := len(want.table) - len(rest)
		switch {
		case (planned > 0 || !empty) && s.holds(deletions):
			want.hold = deletions
			for key := range want.table {
				if _, stays := rest[key]; !stays {
					held[key] = true
				}
			}
		case empty && accepted == 0 && deletions > 0:
			refused, want.table = true, w.model
		default:
			want.table = rest
		}
	}
	at := w.at
	complete := w.call(s, want, func(ctx context.Context) (n int, err error) {
		if len(list) == 0 && s.refuse && !empty {
			n, err = s.Clear(ctx, at)
		} else {
			n, err = s.Replace(ctx, list, at)
		}
		if ctx.Err() == nil {
			require.Equal(w, refused, errors.Is(err, source.ErrEmpty), "%v", err)
			require.Equal(w, want.hold > 0, errors.Is(err, source.ErrHeld), "%v", err)
		}
		return n, err
	})
	if !complete || refused {
		s.full = false
		return
	}
	s.full, s.held = want.unnamed == 0, held
	s.rejected, s.unnamed = want.rejected, want.unnamed
	if s.full {
		w.moved(s, at)
		s.connected = !w.left
	}
}

// approve approves what a source holds, or something else.
func (w *walk) approve(s *walkSource) {
	set := "other"
	if held := s.Snapshot().Held; held != nil && w.rng.IntN(4) > 0 {
		set = held.Set
	}
	if set == "other" {
		before := w.env.revision()
		_, err := s.Approve(w.Context(), set)
		require.Error(w, err)
		require.Equal(w, before, w.env.revision())
		return
	}
	want := expected{table: maps.Clone(w.model), rejected: map[string]bool{}}
	for key := range s.held {
		if r, found := w.model[key]; found && key == w.cursed {
			want.reject(key)
		} else if found && w.owns(s, r) {
			delete(want.table, key)
		}
	}
	if !w.call(s, want, func(ctx context.Context) (int, error) { return s.Approve(ctx, set) }) {
		return // the rest is held
	}
	s.held = map[string]bool{}
	maps.Copy(s.rejected, want.rejected)
	if s.full {
		w.moved(s, s.upTo)
	}
}

func (w *walk) apply(s *walkSource) {
	want := expected{table: maps.Clone(w.model), rejected: map[string]bool{}}
	var changes []source.Change[*row]
	last := map[string]source.Change[*row]{}
	for range w.rng.IntN(8) {
		change := source.Change[*row]{Object: w.object(s), Deleted: w.rng.IntN(3) == 0}
		changes = append(changes, change)
		if isKeyless(change.Object) {
			want.unnamed++
		} else {
			last[change.Object.Key] = change
		}
	}
	w.at++
	held, deletions := maps.Clone(s.held), []string{}
	for key, change := range last {
		delete(held, key)
		if !change.Deleted {
			w.put(&want, s, change.Object)
		} else if row, found := w.model[key]; found && key == w.cursed {
			want.reject(key)
		} else if found && row.Owner == s.name {
			deletions = append(deletions, key)
		} else if found {
			want.failed++
		}
	}
	if s.holds(len(deletions)) {
		want.hold = len(deletions)
	}
	for _, key := range deletions {
		if want.hold > 0 {
			held[key] = true
		} else {
			delete(want.table, key)
		}
	}
	at := w.at
	if !w.call(s, want, func(ctx context.Context) (int, error) { return s.Apply(ctx, changes, at) }) {
		s.full = false
		return
	}
	for key := range last {
		delete(s.rejected, key)
	}
	maps.Copy(s.rejected, want.rejected)
	s.unnamed += want.unnamed
	s.held = held
	if s.full = s.full && want.unnamed == 0; s.full {
		w.moved(s, at)
	}
}

// mayPut reports whether a source may write an object.
func (w *walk) mayPut(x *expected, s *walkSource, obj *row) bool {
	old, found := x.table[obj.Key]
	return obj.Key != w.cursed && obj.Owner == s.name && (!found || old.Owner == s.name)
}

// put puts an object into the expected table, in place of a row of the source, and reports whether it is accepted.
func (w *walk) put(x *expected, s *walkSource, obj *row) bool {
	old, found := x.table[obj.Key]
	switch {
	case !w.mayPut(x, s, obj):
		x.reject(obj.Key)
		return false
	case found && sameWish(&old, obj):
	case obj.Value == unlucky:
		x.reject(obj.Key)
		return false
	default:
		x.table[obj.Key] = *obj
	}
	return true
}

func (x *expected) reject(key string) {
	x.rejected[key] = true
	x.failed++
}

// call makes a call, some of them with a context that ends, and compares the table with the model. It
// reports whether the call was complete.
func (w *walk) call(s *walkSource, want expected, call func(context.Context) (int, error)) (complete bool) {
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	w.statuses, w.commits, w.cancel = map[string]int{}, 0, cancel
	w.calling, w.hung, w.left = s, false, false
	switch w.cancelAfter = w.rng.IntN(12); {
	case w.cancelAfter > 3:
		w.cancelAfter = 0
	case w.cancelAfter == 0:
		cancel()
	}
	before := map[string]row{}
	for _, r := range w.rows() {
		before[r.Key] = r
	}
	revision := w.env.revision()
	changed, err := call(ctx)
	s.connected = s.connected && !w.left
	complete = !errors.Is(err, context.Canceled)
	if complete {
		require.Equal(w, want.failed+want.unnamed+want.hold > 0, err != nil, "%v", err)
	}

	after, differences := map[string]row{}, 0
	for _, r := range w.rows() {
		require.Equal(w, before[r.Key].Status+w.statuses[r.Key], r.Status, "the status of %s", r.Key)
		r.Status = 0
		after[r.Key] = r
		if old, found := w.model[r.Key]; !found || old != r {
			differences++
		}
	}
	for key := range w.model {
		if _, found := after[key]; !found {
			differences++
		}
	}
	require.Equal(w, differences, changed)
	w.changed = changed
	for _, n := range w.statuses {
		differences += n
	}
	require.Equal(w, revision+uint64(differences), w.env.revision(), "nothing equal is written")
	if complete {
		require.Equal(w, want.table, after)
	} else {
		for key := range maps.Keys(union(w.model, after)) {
			if after[key] != w.model[key] {
				require.Equal(w, want.table[key], after[key])
			}
		}
	}
	w.model = after
	return complete
}

func union(a, b map[string]row) map[string]row {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// moved notes that the table includes a source up to a revision, but for what is held. If nothing is, it checks that the
// revision is published with the last row.
func (w *walk) moved(s *walkSource, at uint64) {
	if s.upTo = at; len(s.held) > 0 {
		return
	}
	s.listed, s.input = true, at
	if w.changed > 0 {
		require.Equal(w, w.revision, w.input(s.name).Output)
	}
}

// check compares what the sources tell about themselves with the model.
func (w *walk) check() {
	pending := w.table.PendingInitializers(w.db.ReadTxn())
	for name, s := range w.sources {
		rows := 0
		for _, r := range w.model {
			if w.owns(s, r) {
				rows++
			}
		}
		state, in := s.State(), w.input(name)
		require.Equal(w, []any{s.connected, rows, len(s.rejected) + s.unnamed + s.reported, len(s.held), s.input},
			[]any{state.Connected, state.Rows, state.Rejected, state.Held, state.Input}, "source %s", name)
		require.Equal(w, []any{s.connected, state.Since, state.Rejected, state.Held, s.input, state.Output},
			[]any{in.Connected, in.Since, in.Rejected, in.Held, in.Input, in.Output}, "source %s", name)
		require.LessOrEqual(w, state.Output, w.env.revision())
		require.NotEqual(w, s.listed, slices.Contains(pending, name))
		before := ""
		for line := range strings.Lines(s.log.String()) {
			if _, said, is := strings.Cut(line, `msg="source `); is {
				now, _, _ := strings.Cut(said, `"`)
				require.NotEqual(w, before, now, "one line for a change of the connection")
				before = now
			}
		}
	}
}
