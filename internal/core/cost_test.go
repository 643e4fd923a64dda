// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
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
		p.Index.Unreconciled(0, func(u UnreconciledKey[*thing]) bool { u.Describe(); n++; return n < visited })
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

// crowd is a plant with many keys that wait for the same thing.
type crowd struct {
	*plant
	things []*thing
	// member has the objects of the crowd.
	member map[*thing]bool
	// paused and grouped count the calls of the functions for pauses and groups.
	paused, grouped int
	launched        []Operation[*thing]
}

// crowds has a way to wait for each state: gather makes all keys of a crowd wait, scatter ends it.
var crowds = []struct {
	state   State
	gather  func(c *crowd)
	scatter func(c *crowd)
}{
	{Retry, func(c *crowd) { c.rounds(c.things, parks) }, later},
	{Terminal, func(c *crowd) { c.rounds(c.things, as(FailedForGood)) }, touch},
	{Blocked, func(c *crowd) { c.rounds(c.things, as(BlockedOn)) }, func(c *crowd) {
		for _, o := range c.things {
			c.Release(string(o.key), c.now)
		}
	}},
	{Requeue, func(c *crowd) {
		c.rounds(c.things, func(it *Operation[*thing]) Outcome[*thing] {
			return Outcome[*thing]{Kind: DoneAgain, Delay: time.Hour, Object: it.Obj, NewRevision: it.Revision}
		})
	}, later},
	{Held, func(c *crowd) {
		c.rounds(c.things, parks)
		c.rounds(c.things, nil)
	}, later},
	{Paused, func(c *crowd) {
		c.SetPaused(func(o *thing) bool { c.paused++; return c.member[o] })
		c.rounds(c.things, nil)
	}, func(c *crowd) {
		c.SetPaused(nil)
		for c.Walk(c.now) {
		}
	}},
	{Queued, func(c *crowd) {
		c.SetGrouping(true)
		c.launch(&thing{key: []byte("first")})
		c.rounds(c.things, nil)
	}, func(c *crowd) { c.finish(); c.SetGrouping(false) }},
	{InFlight, func(c *crowd) {
		for _, o := range c.things {
			c.launch(o)
		}
	}, func(c *crowd) { c.finish() }},
	{Unseen, func(c *crowd) {
		c.rounds(c.things, func(it *Operation[*thing]) Outcome[*thing] {
			return Outcome[*thing]{Kind: Failed, Text: &parked, Lost: true}
		})
	}, func(c *crowd) { c.now += time.Hour; touch(c) }},
	{Ready, func(c *crowd) {
		for _, o := range c.things {
			c.AddOrphan(o, 1)
		}
	}, func(*crowd) {}},
}

func later(c *crowd) { c.now += 2 * time.Hour }
func touch(c *crowd) { c.rounds(c.things, succeeds) }

// as returns an outcome of a kind, with an error text.
func as(k Kind) func(it *Operation[*thing]) Outcome[*thing] {
	return func(it *Operation[*thing]) Outcome[*thing] {
		return Outcome[*thing]{Kind: k, Text: &parked, Object: it.Obj, NewRevision: it.Revision}
	}
}

// newCrowd returns a crowd of n keys that do not wait yet.
func newCrowd(n int) *crowd {
	c := &crowd{things: newThings("crowd", n), member: map[*thing]bool{}}
	for _, o := range c.things {
		c.member[o] = true
	}
	cfg := thingConfig(100)
	cfg.GroupOf = func(o *thing) string {
		c.grouped++
		if c.member[o] || string(o.key) == "first" {
			return "crowd"
		}
		return ""
	}
	c.plant = &plant{Core: New(cfg)}
	return c
}

func (c *crowd) launch(o *thing) {
	c.Begin(c.now, 1, false)
	c.revision++
	c.Observe(Change[*thing]{Obj: o, Revision: c.revision, Since: c.revision, Lane: Backlog})
	items := c.Plan()
	c.launched = append(c.launched, items[0])
}

func (c *crowd) finish() {
	for i := range c.launched {
		c.Settle(c.now, &c.launched[i], succeeds(&c.launched[i]))
	}
	c.launched = nil
}

// among runs a round among the crowd: one key fails, and some things succeed. The breaker may close all the time.
func (c *crowd) among(fresh []*thing) {
	c.now++
	flapping := &thing{key: fmt.Append(nil, "flapping", c.revision)}
	c.round([]*thing{flapping}, func(it *Operation[*thing]) Outcome[*thing] {
		if it.Obj == flapping {
			return parks(it)
		}
		return succeeds(it)
	})
	c.EndBackoffs(c.now)
	c.round(fresh, succeeds)
	c.NextDue()
	c.Index.LowWatermark()
	c.Index.Attempted(c.revision)
}

// gathered returns a crowd of n keys that wait.
func gathered(t *testing.T, way int, n int) *crowd {
	c := newCrowd(n)
	crowds[way].gather(c)
	require.Equal(t, n, c.Index.figures.States[crowds[way].state])
	return c
}

// The cost of a round depends on its items, not on the number of waiting keys (DESIGN section 6,
// no. 7).
func TestRoundCostDependsOnItsItemsOnly(t *testing.T) {
	const rounds = 5
	counts := countingTest(t)
	for way, of := range crowds {
		t.Run(of.state.String(), func(t *testing.T) {
			cost := func(n int) (statements int, allocations float64) {
				c, fresh := gathered(t, way, n), newThings("fresh", 50)
				c.among(fresh)
				c.paused, c.grouped = 0, 0
				c.among(fresh)
				require.LessOrEqual(t, c.paused, 100, "calls of the function")
				require.LessOrEqual(t, c.grouped, 100, "calls of the function")
				allocations = testing.AllocsPerRun(rounds, func() { c.among(fresh) })
				require.NotZero(t, c.Index.figures.States[of.state], "the crowd has not been worked off")
				return (counts(t, way, n, 2*rounds) - counts(t, way, n, rounds)) / rounds, allocations
			}
			n := 1_000
			if of.state == Ready {
				n = 5_000 // each round works some off
			}
			few, fewAllocations := cost(n)
			many, manyAllocations := cost(20 * n)
			t.Logf("%d statements a round, %d with a crowd that is 20 times as large", few, many)
			require.InDelta(t, fewAllocations, manyAllocations, 60, "allocations")
			// The heaps are deeper. A walk over the crowd would be several times as much.
			require.Less(t, many, few+few/2, "statements")
		})
	}
}

// countedCrowd is the environment variable with which [countingTest] runs TestCountedRounds.
const countedCrowd = "STATEKEEL_CROWD"

func TestCountedRounds(t *testing.T) {
	var way, n, rounds int
	if _, err := fmt.Sscan(os.Getenv(countedCrowd), &way, &n, &rounds); err != nil {
		t.Skip("runs in TestRoundCostDependsOnItsItemsOnly")
	}
	c, fresh := gathered(t, way, n), newThings("fresh", 50)
	for range rounds {
		c.among(fresh)
	}
}

// countingTest builds a test of this package that counts statements. It returns a function that returns how many of the core
// and its heaps are executed while a crowd gathers, and in a number of rounds then.
func countingTest(t *testing.T) func(t *testing.T, way, n, rounds int) int {
	binary, profile := filepath.Join(t.TempDir(), "core.test"), filepath.Join(t.TempDir(), "profile")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", binary, "-ldflags=-w", "-covermode=count", "-coverpkg=.,../keyheap")
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)
	return func(t *testing.T, way, n, rounds int) (statements int) {
		run := exec.CommandContext(t.Context(), binary, "-test.run=^TestCountedRounds$", "-test.coverprofile="+profile)
		run.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d", countedCrowd, way, n, rounds))
		said, err := run.CombinedOutput()
		require.NoError(t, err, "%s", said)
		text, err := os.ReadFile(profile)
		require.NoError(t, err)
		_, blocks, _ := strings.Cut(string(text), "\n")
		for block := range strings.Lines(blocks) {
			var place string
			var size, count int
			_, err := fmt.Sscan(block, &place, &size, &count)
			require.NoError(t, err, block)
			statements += size * count
		}
		return statements
	}
}

// When the keys of a crowd have ended their wait, their memory is released.
func TestMemoryIsReleasedWhenManyWaitsEnd(t *testing.T) {
	const n = 20_000
	for _, way := range crowds {
		t.Run(way.state.String(), func(t *testing.T) {
			c := newCrowd(n)
			before := heapInUse()
			way.gather(c)
			require.Equal(t, n, c.Index.figures.States[way.state])
			grown := heapInUse() - before
			way.scatter(c)
			for len(c.keys.entries) > 0 {
				require.LessOrEqual(t, len(c.keys.entries), c.keys.peak)
				require.Less(t, c.keys.peak, max(minPeak, 4*len(c.keys.entries))+4, "the map is too large for its entries")
				c.now += time.Hour
				c.round(nil, succeeds)
			}
			require.Empty(t, c.queues.groups.byName)
			left := heapInUse() - before
			require.Less(t, left, grown/10, "bytes left of %d", grown)
			runtime.KeepAlive(c)
		})
	}
}
