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

// model is what a Core is meant to be, written to be believed rather than to be fast: a
// map, and a walk over all of it for every question. It knows no queue, no list and no
// heap, and follows the words of docs/DESIGN.md, sections 4 and 5. Where the design
// leaves a choice (which of two keys that are due at the same time goes first) it checks
// that the core's choice is an allowed one, and takes it over. Only without jitter.
type model struct {
	min, max time.Duration
	size     int

	keys map[string]*modelKey
	// ran counts the operations that were run: every fourth belongs to the due.
	ran      int
	observed uint64

	now time.Duration
	// slots is how much of the round is used up.
	slots   int
	changes []string
}

type modelKey struct {
	state State
	// from is the state before the round took the key; none while it has not.
	from    State
	taken   bool
	deleted bool
	// version is the revision of the object that would be run, owes that of the change
	// that is not reconciled, 0 if all are.
	version, owes uint64
	failures      int
	failure       string
	attempted     time.Duration
	// mark is what the caller noted with the last outcome.
	mark uint8
	// at is when the key is due; clock says whether there is such a time.
	at    time.Duration
	clock bool
}

func newModel(cfg Config[row]) *model {
	return &model{min: cfg.MinBackoff, max: cfg.MaxBackoff, size: cfg.RoundSize, keys: map[string]*modelKey{}}
}

// backoff is the wait after the nth failure in a row.
func (m *model) backoff(failures int) time.Duration {
	wait := m.min
	for range failures - 1 {
		wait = min(wait*2, m.max)
	}
	return min(wait, m.max)
}

// wake puts a key where it waits for a time.
func (k *modelKey) wake(s State, at time.Duration) { k.state, k.at, k.clock = s, at, true }

// rest puts a key where it waits for no time.
func (k *modelKey) rest(s State) { k.state, k.clock = s, false }

// due returns the keys whose time has come.
func (m *model) due() []string {
	var due []string
	for key, k := range m.keys {
		if k.clock && k.at <= m.now {
			due = append(due, key)
		}
	}
	return due
}

// ready returns the keys that were planned and not reached, the oldest change first.
func (m *model) ready() []string {
	var ready []string
	for key, k := range m.keys {
		if k.state == Ready {
			ready = append(ready, key)
		}
	}
	slices.SortFunc(ready, func(a, b string) int { return cmp.Compare(m.keys[a].owes, m.keys[b].owes) })
	return ready
}

// begin checks what the core took into the round, and takes the same.
func (m *model) begin(t testingT, c *Core[row], now time.Duration) {
	t.Helper()
	m.now, m.slots, m.changes = now, 0, nil
	guaranteed := 0
	for i := range m.size {
		if (m.ran+i)%4 == 0 {
			guaranteed++
		}
	}
	var due, ready []string
	for key, e := range c.entries {
		switch {
		case e.state != Planned:
		case m.keys[key].state == Ready:
			ready = append(ready, key)
		default:
			due = append(due, key)
		}
	}
	m.takeDue(t, due, guaranteed)
	for _, key := range ready {
		m.take(key)
	}
	// Those that were taken are no longer in m.ready(): what is left must be younger.
	room := m.size - len(due)
	require.Len(t, ready, min(room, len(ready)+len(m.ready())), "keys taken that were ready")
	for _, left := range m.ready() {
		for _, key := range ready {
			require.Less(t, m.keys[key].owes, m.keys[left].owes, "%q went before %q", key, left)
		}
	}
}

// takeDue checks that exactly those of the due that come first, up to most of them,
// were taken.
func (m *model) takeDue(t testingT, taken []string, most int) {
	t.Helper()
	due := m.due()
	require.Len(t, taken, min(most, len(due)), "due keys taken of %v", due)
	require.Subset(t, due, taken, "keys taken before their time")
	for _, key := range due {
		if slices.Contains(taken, key) {
			continue
		}
		for _, earlier := range taken {
			require.LessOrEqual(t, m.keys[earlier].at, m.keys[key].at, "%q went before %q", earlier, key)
		}
	}
	for _, key := range taken {
		m.take(key)
	}
}

func (m *model) take(key string) {
	k := m.keys[key]
	k.from, k.taken = k.state, true
	k.rest(Planned)
	m.slots++
}

// observe takes in a change.
func (m *model) observe(key string, revision uint64, deleted bool) {
	m.observed = revision
	k := m.keys[key]
	if k != nil {
		k.version, k.owes, k.deleted, k.taken = revision, revision, deleted, false
		if deleted {
			k.failures = 0
		}
		if k.failures > 0 && m.now < k.attempted+m.min {
			k.wake(Held, k.attempted+m.min)
			return
		}
		k.rest(Planned)
	}
	m.changes = append(m.changes, key)
	m.slots++
}

// observeSettled takes in a change that asks for nothing.
func (m *model) observeSettled(key string, revision uint64) {
	m.observed = revision
	if k := m.keys[key]; k != nil && k.state == Awaited {
		if k.deleted {
			delete(m.keys, key)
			return
		}
		k.version = revision
		k.wake(Retry, k.attempted+m.backoff(k.failures))
	}
}

// plan checks a plan.
func (m *model) plan(t testingT, items []Item[row]) {
	t.Helper()
	seen := map[string]bool{}
	var due, ready, changes, late []string
	for _, it := range items {
		key := it.Obj.key
		require.False(t, seen[key], "%q is in the plan twice", key)
		seen[key] = true
		k := m.keys[key]
		switch {
		case !it.Again:
			require.Zero(t, it.Mark, "mark of %q", key)
			changes = append(changes, key)
			continue
		case k.taken && k.from == Ready:
			ready = append(ready, key)
		case k.taken:
			due = append(due, key)
		default:
			due = append(due, key)
			late = append(late, key)
		}
		require.Equal(t, k.version, it.Revision, "revision of %q", key)
		require.Equal(t, k.deleted, it.Deleted, "%q is deleted", key)
		require.Equal(t, k.mark, it.Mark, "mark of %q", key)
		require.Equal(t, k.failures, it.Attempt(), "attempts of %q", key)
	}
	require.Equal(t, m.changes, changes, "changes")
	room := m.size - m.slots
	m.takeDue(t, late, room)
	require.LessOrEqual(t, len(items), m.size, "items")
	for key, k := range m.keys {
		require.True(t, !k.taken || seen[key], "%q was taken into the round and is not in its plan", key)
	}
	m.requireOrder(t, items, due, ready)
}

// requireOrder checks that due keys have every fourth place, in the order in which they
// were due, and that the others are in the order of revisions.
func (m *model) requireOrder(t testingT, items []Item[row], due, ready []string) {
	t.Helper()
	byVersion := func(a, b string) int { return cmp.Compare(m.keys[a].version, m.keys[b].version) }
	byTime := func(a, b string) int { return cmp.Or(cmp.Compare(m.keys[a].at, m.keys[b].at), byVersion(a, b)) }
	require.True(t, slices.IsSortedFunc(due, byTime), "due keys are out of order: %v", due)
	require.True(t, slices.IsSortedFunc(ready, byVersion), "ready keys are out of order: %v", ready)
	dueLeft, otherLeft, readyLeft := len(due), len(items)-len(due), len(ready)
	for i, it := range items {
		isDue := slices.Contains(due, it.Obj.key)
		switch {
		case dueLeft == 0 || otherLeft == 0:
		case (m.ran+i)%4 == 0:
			require.True(t, isDue, "place %d is for a due key, and %q has it", i, it.Obj.key)
		default:
			require.False(t, isDue, "due key %q has place %d", it.Obj.key, i)
		}
		if isDue {
			dueLeft--
			continue
		}
		otherLeft--
		require.Equal(t, readyLeft > 0, it.Again, "%q: ready keys go before changes", it.Obj.key)
		readyLeft--
	}
}

// settle takes in what came of an item.
func (m *model) settle(now time.Duration, it *Item[row], out Outcome[row]) {
	key := it.Obj.key
	k := m.keys[key]
	failed := out.Kind == Failed || out.Kind == FailedForGood
	finished := out.Kind == Done || out.Kind == Void || out.Lost && out.Kind == DoneAgain
	switch {
	case out.Kind == Superseded:
		k.rest(Awaited)
		k.taken = false
		return
	case finished, k == nil && out.Lost && !failed:
		delete(m.keys, key)
		return
	case k == nil:
		k = &modelKey{owes: it.Revision, version: it.Revision, deleted: it.Deleted}
		m.keys[key] = k
	case k.owes == 0:
		// It was reconciled, so that what it owes is newer than all that was seen.
		k.owes = m.observed + 1
	}
	k.attempted, k.taken, k.failure, k.mark = now, false, "", out.Mark
	if !out.Lost {
		k.version = out.Revision
	}
	switch out.Kind {
	case Failed, FailedForGood:
		k.failures++
		k.failure = *out.Failure
	case DoneAgain:
		k.failures, k.owes = 0, 0
	}
	switch {
	case out.Lost:
		k.rest(Awaited)
	case out.Kind == Failed && out.Delay > 0:
		k.wake(Retry, now+out.Delay)
	case out.Kind == Failed:
		k.wake(Retry, now+m.backoff(k.failures))
	case out.Kind == FailedForGood:
		k.rest(Terminal)
	case out.Kind == DoneAgain:
		k.wake(Requeue, now+out.Delay)
	case out.Delay > 0:
		k.wake(Blocked, now+out.Delay)
	default:
		k.rest(Blocked)
	}
}

// putBack takes in that an item was not run.
func (m *model) putBack(it *Item[row]) {
	key := it.Obj.key
	k := m.keys[key]
	switch {
	case k == nil:
		m.keys[key] = &modelKey{state: Ready, owes: it.Revision, version: it.Revision, deleted: it.Deleted}
	case k.taken && k.from != Ready:
		k.wake(k.from, k.at)
		k.taken = false
	default:
		k.rest(Ready)
		k.taken = false
	}
}

// release takes in that a key has what it was blocked on.
func (m *model) release(key string, now time.Duration) bool {
	k := m.keys[key]
	if k == nil || k.state != Blocked {
		return false
	}
	k.wake(Blocked, now)
	return true
}

// requireSame checks everything that a core says between two rounds, given the revision
// up to which the table has been looked at.
func (m *model) requireSame(t testingT, c *Core[row], observed uint64) {
	t.Helper()
	require.ElementsMatch(t, slices.Collect(maps.Keys(m.keys)), slices.Collect(maps.Keys(c.entries)), "keys")
	require.Equal(t, len(m.keys) > 0, c.Tracks())
	counts, failing := map[State]int{}, 0
	var low, oldestReady uint64
	var next time.Duration
	hasNext := false
	for key, k := range m.keys {
		e := c.entries[key]
		require.Equal(t, k.state, e.state, "state of %q: %s, %s in the core", key, k.state, e.state)
		require.Equal(t, k.version, e.revision, "version of %q", key)
		require.Equal(t, k.deleted, e.deleted, "deletion of %q", key)
		require.Equal(t, k.failures, int(e.failures), "failures of %q", key)
		require.True(t, c.TracksKeyOf(row{key: key}))
		counts[k.state]++
		if k.clock {
			require.Equal(t, k.at, e.dueAt, "%q is due", key)
			if !hasNext || k.at < next {
				next, hasNext = k.at, true
			}
		}
		if k.failure != "" {
			failing++
			require.Equal(t, k.failure, *e.failure, "failure of %q", key)
		}
		if k.owes > 0 && (low == 0 || k.owes < low) {
			low = k.owes
		}
		if k.state == Ready && (oldestReady == 0 || k.owes < oldestReady) {
			oldestReady = k.owes
		}
	}
	for s := range numStates {
		require.Equal(t, counts[s], c.Count(s), "keys in state %s", s)
	}
	if counts[Ready] > 0 {
		next, hasNext = 0, true
	}
	at, ok := c.NextDue()
	require.Equal(t, hasNext, ok, "something is due")
	require.Equal(t, next, at, "next due")
	attempted := observed
	if oldestReady > 0 {
		attempted = oldestReady - 1
	}
	require.Equal(t, attempted, c.Attempted(observed), "attempted")
	require.Equal(t, low, c.LowWatermark(), "low watermark")
	require.Equal(t, failing, c.Failing(), "failing")
	require.Equal(t, counts[Awaited] > 0, c.Awaits())
	m.requireFailures(t, c, failing)
}

// requireFailures checks that the core tells all failures, the longest owed first.
func (m *model) requireFailures(t testingT, c *Core[row], failing int) {
	t.Helper()
	var owed []uint64
	var texts, told []string
	for _, k := range m.keys {
		if k.failure != "" {
			owed = append(owed, k.owes)
			texts = append(texts, k.failure)
		}
	}
	c.Failures(func(text string) bool {
		told = append(told, text)
		return true
	})
	require.Len(t, told, failing)
	require.ElementsMatch(t, texts, told, "failures")
	if failing > 0 {
		first := m.textOwing(slices.Min(owed))
		require.Contains(t, first, told[0], "the longest unreconciled comes first")
		c.Failures(func(text string) bool {
			require.Equal(t, told[0], text, "told on although no more was wanted")
			told = nil
			return false
		})
	}
}

// textOwing returns the failures of the keys that owe a change: more than one only if
// they were reconciled before.
func (m *model) textOwing(revision uint64) []string {
	var texts []string
	for _, k := range m.keys {
		if k.owes == revision && k.failure != "" {
			texts = append(texts, k.failure)
		}
	}
	return texts
}
