// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// thing is an object as programs have them: behind a pointer, with its key made once.
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

// plant is a core under load: it fails and heals crowds, and runs rounds of changes.
type plant struct {
	*Core[*thing]
	revision uint64
	now      time.Duration
}

// round observes changes of the given objects and settles everything planned.
func (p *plant) round(changed []*thing, outcome func(it *Item[*thing]) Outcome[*thing]) {
	p.Begin(p.now, p.roundSize, 0)
	for _, o := range changed {
		p.revision++
		p.see(o, p.revision, false, Backlog)
	}
	items := p.Plan()
	for i := range items {
		p.Settle(p.now, &items[i], outcome(&items[i]))
	}
	p.End(len(items))
}

// rounds runs the objects in rounds that are full.
func (p *plant) rounds(objects []*thing, outcome func(it *Item[*thing]) Outcome[*thing]) {
	for len(objects) > 0 {
		n := min(p.roundSize, len(objects))
		p.round(objects[:n], outcome)
		objects = objects[n:]
	}
}

func succeeds(it *Item[*thing]) Outcome[*thing] {
	return Outcome[*thing]{Obj: it.Obj, Revision: it.Revision}
}

// parks makes an object fail and wait for an hour.
func parks(it *Item[*thing]) Outcome[*thing] {
	return Outcome[*thing]{Kind: Failed, Failure: &parked, Delay: time.Hour, Obj: it.Obj, Revision: it.Revision}
}

var parked = "no route"

// Changes that succeed cost no memory, be it that nothing waits or that a crowd does: the
// core keeps no trace of them.
func TestRoundOfSuccessesAllocatesNothing(t *testing.T) {
	for _, waiting := range []int{0, 10_000} {
		p := plant{Core: newThingCore(100)}
		p.rounds(newThings("parked", waiting), parks)
		fresh := newThings("fresh", 100)
		p.round(fresh, succeeds)
		require.Zero(t, testing.AllocsPerRun(100, func() { p.round(fresh, succeeds) }),
			"with %d keys waiting", waiting)
		require.Equal(t, waiting, p.NumFailing())
		require.Equal(t, waiting > 0, p.Tracks())
	}
}

// Retrying what fails costs no memory either: a key has its entry already.
func TestRoundOfRetriesAllocatesNothing(t *testing.T) {
	for _, waiting := range []int{0, 10_000} {
		p := plant{Core: newThingCore(100)}
		p.rounds(newThings("parked", waiting), parks)
		failing := func(it *Item[*thing]) Outcome[*thing] {
			out := parks(it)
			out.Delay = time.Nanosecond
			return out
		}
		p.rounds(newThings("failing", 100), failing)
		p.now += time.Second
		ran := 0
		counted := func(it *Item[*thing]) Outcome[*thing] {
			ran++
			return failing(it)
		}
		p.round(nil, counted)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			p.now += time.Second
			p.round(nil, counted)
		}), "with %d keys waiting", waiting)
		require.Equal(t, 102*100, ran, "retries")
	}
}

// A core asks for a key where it may need it, and nowhere else: it is not asked at all
// while nothing waits, and a round among a crowd asks for those of its own items only.
func TestKeysAreAskedForOfTheRoundOnly(t *testing.T) {
	for _, waiting := range []int{0, 1, 10_000} {
		asked := 0
		c := newThingCore(100)
		keyOf := c.keyOf
		c.keyOf = func(o *thing) []byte { asked++; return keyOf(o) }
		p := plant{Core: c}
		p.rounds(newThings("parked", waiting), parks)
		asked = 0
		p.round(newThings("fresh", 100), succeeds)
		if waiting == 0 {
			require.Zero(t, asked)
		} else {
			require.Equal(t, 100, asked, "with %d keys waiting", waiting)
		}
	}
}

// When a crowd that failed has healed, what it took is given back.
func TestHealedCrowdLeavesNothingBehind(t *testing.T) {
	const crowd = 100_000
	p := plant{Core: newThingCore(1000)}
	things := newThings("crowd", crowd)
	before := heapInUse()
	p.rounds(things, parks)
	require.Equal(t, crowd, p.NumFailing())
	grown := heapInUse() - before

	p.now = 2 * time.Hour
	for p.Tracks() {
		require.LessOrEqual(t, len(p.entries), p.peak)
		require.Less(t, p.peak, max(minPeak, 4*len(p.entries))+4, "the map was made for many more")
		p.round(nil, succeeds)
	}
	check(t, p.Core)
	require.Zero(t, p.NumFailing())
	left := heapInUse() - before
	require.Less(t, left, grown/20, "bytes left of %d", grown)
	runtime.KeepAlive(things)
}

// A failing object costs at most 300 bytes beside the object itself: its entry, its key,
// and its places in the map, the heap and the list.
func TestFailingKeyIsSmall(t *testing.T) {
	const keys = 200_000
	p := plant{Core: newThingCore(1000)}
	things := newThings("key/", keys)
	p.round(things[:1000], succeeds)
	before := heapInUse()
	p.rounds(things, parks)
	each := float64(heapInUse()-before) / keys
	t.Logf("%.0f bytes for each failing key", each)
	require.Equal(t, keys, p.NumFailing())
	require.Less(t, each, 300.0)
	require.Greater(t, each, 64.0, "too good to be true: nothing was kept")
	runtime.KeepAlive(things)
}

// heapInUse returns the bytes of the objects that are reachable.
func heapInUse() int64 {
	// The second run frees what the first had only marked as finalizable.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkRound is a round of 1000 changes that succeed, beside a crowd that failed and
// waits. It is the lookup of the keys that makes the difference between none waiting and
// some; it grows with the cache misses of a larger map and with nothing else.
func BenchmarkRound(b *testing.B) {
	for _, waiting := range []int{0, 1, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			p := plant{Core: newThingCore(1000)}
			p.rounds(newThings("parked", waiting), parks)
			fresh := newThings("fresh", 1000)
			b.ReportAllocs()
			for b.Loop() {
				p.round(fresh, succeeds)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/item")
		})
	}
}

// BenchmarkRetries is a round of 1000 retries that fail again, out of a crowd of so many
// that are due.
func BenchmarkRetries(b *testing.B) {
	for _, crowd := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("failing=%d", crowd), func(b *testing.B) {
			p := plant{Core: newThingCore(1000)}
			failing := func(it *Item[*thing]) Outcome[*thing] {
				out := parks(it)
				out.Delay = time.Nanosecond
				return out
			}
			p.rounds(newThings("failing", crowd), failing)
			b.ReportAllocs()
			for b.Loop() {
				p.now += time.Second
				p.round(nil, failing)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/item")
		})
	}
}

// BenchmarkFirstFailures is a first pass over a crowd of which every object fails.
func BenchmarkFirstFailures(b *testing.B) {
	for _, crowd := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("objects=%d", crowd), func(b *testing.B) {
			things := newThings("failing", crowd)
			b.ReportAllocs()
			for b.Loop() {
				p := plant{Core: newThingCore(1000)}
				p.rounds(things, parks)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(crowd), "ns/item")
		})
	}
}
