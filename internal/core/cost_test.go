// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// thing is an object as programs have them: behind a pointer, with a key that is made once.
type thing struct{ key []byte }

func newThings(prefix string, n int) []*thing {
	things := make([]*thing, n)
	for i := range things {
		things[i] = &thing{key: []byte(prefix + strconv.Itoa(i))}
	}
	return things
}

func newThingCore(size int) *Core[*thing] { return New(thingConfig(size)) }

func thingConfig(size int) Config[*thing] {
	return Config[*thing]{
		KeyOf: func(o *thing) []byte { return o.key },
		Limits: Limits{
			MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Hour, Jitter: 0.1, RoundSize: size,
		},
	}
}

// plant is a core under load, with the revision and the time of its rounds.
type plant struct {
	*Core[*thing]
	revision uint64
	now      time.Duration
	// changes and items are memory for the rounds.
	changes, from listed[*thing]
	items         []Operation[*thing]
}

// round observes changes of the given objects and settles everything planned.
func (p *plant) round(changed []*thing, outcome func(it *Operation[*thing]) Outcome[*thing]) {
	p.Begin(p.now, p.roundSize, false)
	p.changes = p.changes[:0]
	for _, o := range changed {
		p.revision++
		p.changes = append(p.changes, Change[*thing]{o, p.revision, p.revision, false, Backlog, false})
	}
	p.from = p.changes
	p.items = reuse(p.items)
	for n := 0; ; n++ {
		p.items = append(p.items, Operation[*thing]{})
		if !p.Next(&p.items[n], &p.from) {
			p.items = p.items[:n]
			break
		}
	}
	for i := range p.items {
		p.Settle(p.now, &p.items[i], outcome(&p.items[i]))
	}
}

// rounds runs changes of the objects in full rounds.
func (p *plant) rounds(objects []*thing, outcome func(it *Operation[*thing]) Outcome[*thing]) {
	for len(objects) > 0 {
		n := min(p.roundSize, len(objects))
		p.round(objects[:n], outcome)
		objects = objects[n:]
	}
}

func succeeds(it *Operation[*thing]) Outcome[*thing] {
	return Outcome[*thing]{Object: it.Obj, NewRevision: it.Revision}
}

// parks makes an object fail and wait for an hour.
func parks(it *Operation[*thing]) Outcome[*thing] {
	return Outcome[*thing]{Kind: Failed, Text: &parked, Delay: time.Hour, Object: it.Obj, NewRevision: it.Revision}
}

var parked = "no route"

// Neither changes that succeed nor retries allocate memory, whether other keys wait or not: the core keeps nothing of
// the former, and the keys of the latter have an entry already.
func TestRoundAllocatesNothing(t *testing.T) {
	failing := func(it *Operation[*thing]) Outcome[*thing] {
		out := parks(it)
		out.Delay = time.Nanosecond
		return out
	}
	for _, waiting := range []int{0, 1000} {
		p := plant{Core: newThingCore(100)}
		p.rounds(newThings("parked", waiting), parks)
		fresh := newThings("fresh", 100)
		p.round(fresh, succeeds)
		require.Zero(t, testing.AllocsPerRun(100, func() { p.round(fresh, succeeds) }), "with %d keys waiting", waiting)
		require.Len(t, p.keys.entries, waiting)

		p.rounds(newThings("failing", 100), failing)
		ran := 0
		retries := func() {
			p.now += time.Second
			p.round(nil, failing)
			ran += len(p.items)
		}
		retries()
		require.Zero(t, testing.AllocsPerRun(100, retries), "with %d keys waiting", waiting)
		require.Equal(t, 102*100, ran, "retries")
	}
}

// Keys that are not visited by a list cost nothing.
func TestListingTheFirstKeysIsCheap(t *testing.T) {
	p := plant{Core: newThingCore(100)}
	p.rounds(newThings("blocked", 10_000), as(BlockedOn))
	const visited = 1000
	look := func() {
		n := 0
		p.Index.Unreconciled(0, func(KeyInfo[*thing]) bool { n++; return n < visited })
		require.Equal(t, visited, n)
	}
	require.Less(t, testing.AllocsPerRun(1, look), 5.0*visited)
}

// A failing object costs at most 300 bytes beside the object itself: its entry, its key, and its
// places in the map, the heap and the queue.
func TestFailingKeyIsSmall(t *testing.T) {
	const keys = 50_000
	p := plant{Core: newThingCore(1000)}
	things := newThings("key/", keys)
	p.round(things[:1000], succeeds)
	before := heapInUse()
	p.rounds(things, parks)
	each := float64(heapInUse()-before) / keys
	t.Logf("%.0f bytes for each failing key", each)
	require.Equal(t, keys, p.Index.figures.Failing)
	require.Less(t, each, 300.0)
	require.Greater(t, each, 64.0, "too little: the measurement is wrong")
	runtime.KeepAlive(things)
}

// heapInUse returns the bytes of reachable objects.
func heapInUse() int64 {
	// The second run frees what the first had only marked as finalizable.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
