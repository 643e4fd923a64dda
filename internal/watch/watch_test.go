// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package watch

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestValueCountsAsClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ready := newSet(t, perChunk)
		ch := make(chan struct{})
		for i := range 3 {
			s.Add(ch, i)
		}
		synctest.Wait()
		for range 3 {
			ch <- struct{}{}
			<-ready
			require.Len(t, s.Take(), 1)
		}
		require.Empty(t, s.chunks)
	})
}

func TestAnyClosedFindsOneClosedChannel(t *testing.T) {
	open := make(chan struct{})
	require.False(t, AnyClosed(nil))
	require.False(t, AnyClosed([]<-chan struct{}{nil, open}))
	require.True(t, AnyClosed([]<-chan struct{}{nil, open, Closed}))
}

func TestStopEndsAllGoroutines(t *testing.T) {
	s, _ := newSet(t, 4)
	var waits []*Wait[int]
	ch := make(chan struct{})
	for i := range 100 {
		waits = append(waits, s.Add(ch, i))
	}
	s.Stop()
	require.Empty(t, s.chunks)
	close(ch)
	s.Add(ch, 100)
	for _, w := range waits[50:] {
		s.Remove(w)
	}
	s.Stop()
	require.Nil(t, s.Take())
}

// A goroutine for each channel would cost 2,700 bytes.
func TestChannelCostsLittleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSet(t, perChunk)
		const n = 20_000
		channels := make([]chan struct{}, n)
		for i := range channels {
			channels[i] = make(chan struct{})
		}
		before := inUse()
		for i, ch := range channels {
			s.Add(ch, i)
		}
		synctest.Wait()
		each := (inUse() - before) / n
		t.Logf("%d bytes a channel", each)
		require.Less(t, each, uint64(800))
	})
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newSet returns a set with chunks of the given size, and a channel that receives when there is
// something to take. The set is stopped when the test ends.
func newSet(t testing.TB, perChunk int) (*Set[int], chan struct{}) {
	ready := make(chan struct{}, 1)
	s := New[int](func() {
		select {
		case ready <- struct{}{}:
		default:
		}
	})
	s.perChunk = perChunk
	t.Cleanup(s.Stop)
	return s, ready
}

// requireSound checks that the parts of a set agree, and that it has no more chunks than promised.
// The goroutines must be waiting.
func requireSound(t require.TestingT, s *Set[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for c := range s.chunks {
		live := 0
		for _, w := range c.members {
			if w.chunk == c {
				live++
			}
		}
		n += live
		require.Equal(t, c.live, live)
		require.Positive(t, live, "a goroutine that waits for nothing")
		require.LessOrEqual(t, len(c.members), s.perChunk)
		require.Less(t, len(c.members), 2*live, "too many removed channels")
		require.True(t, c == s.open || !s.few(live), "a thin chunk of %d", live)
	}
	require.True(t, s.open == nil || len(s.open.members) > 0)
	require.LessOrEqual(t, len(s.chunks), 1+4*n/s.perChunk)
	for _, w := range s.closed {
		require.Nil(t, w.chunk, "a closed wait in a chunk")
	}
}

// walker adds, removes, closes and takes channels at random, and tracks what the set must report.
type walker struct {
	t      *testing.T
	random *rand.Rand
	set    *Set[int]

	channels map[*Wait[int]]chan struct{}
	// waiting are the waits whose channel is open. due are those whose channel is closed and that
	// were not taken yet. over are those that must not be reported any more.
	waiting, due, over []*Wait[int]
}

func (w *walker) add() {
	// Sometimes a channel that is waited for already, or that is closed already.
	ch := make(chan struct{})
	switch r := w.random.IntN(10); {
	case r == 0 && len(w.waiting) > 0:
		ch = w.channels[w.waiting[w.random.IntN(len(w.waiting))]]
	case r == 1:
		close(ch)
		w.due = append(w.due, w.keep(ch))
		return
	}
	w.waiting = append(w.waiting, w.keep(ch))
}

func (w *walker) keep(ch chan struct{}) *Wait[int] {
	wait := w.set.Add(ch, len(w.channels))
	w.channels[wait] = ch
	return wait
}

func (w *walker) remove() {
	for _, from := range []*[]*Wait[int]{&w.waiting, &w.due, &w.over} {
		if w.random.IntN(2) == 0 || len(*from) == 0 {
			continue
		}
		i := w.random.IntN(len(*from))
		w.set.Remove((*from)[i])
		w.over = append(w.over, (*from)[i])
		*from = slices.Delete(*from, i, i+1)
	}
}

func (w *walker) close() {
	if len(w.waiting) == 0 {
		return
	}
	ch := w.channels[w.waiting[w.random.IntN(len(w.waiting))]]
	close(ch)
	w.waiting = slices.DeleteFunc(w.waiting, func(wait *Wait[int]) bool {
		if w.channels[wait] != ch {
			return false
		}
		w.due = append(w.due, wait)
		return true
	})
}

// take takes what the set has reported so far, all of which must be due.
func (w *walker) take() {
	for _, wait := range w.set.Take() {
		i := slices.Index(w.due, wait)
		require.GreaterOrEqual(w.t, i, 0, "%d is not due", wait.Value)
		w.due = slices.Delete(w.due, i, i+1)
		w.over = append(w.over, wait)
	}
}

// quiet waits until the goroutines are idle, and takes all that is due.
func (w *walker) quiet() {
	synctest.Wait()
	requireSound(w.t, w.set)
	w.take()
	require.Empty(w.t, w.due, "closed and not reported")
	n := 0
	for c := range w.set.chunks {
		n += c.live
	}
	require.Equal(w.t, len(w.waiting), n)
}

func (w *walker) step(grow int) {
	switch r := w.random.IntN(100); {
	case r < grow:
		w.add()
	case r < 60:
		w.remove()
	case r < 90:
		w.close()
	case r < 95:
		w.take()
	default:
		w.quiet()
	}
}

// A closed channel is reported once, whatever is added, removed and closed before its goroutine
// checks. A removed wait is never reported.
func TestRandomWalkAgreesWithTheModel(t *testing.T) {
	for _, size := range []int{1, 2, 4, 9, perChunk} {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			t.Logf("chunks of %d, seed %d", size, seed)
			set, _ := newSet(t, size)
			w := &walker{
				t: t, random: rand.New(rand.NewPCG(seed, 0)), set: set, channels: map[*Wait[int]]chan struct{}{},
			}
			for range 20 {
				// The set grows and shrinks in turns, so that chunks fill up and empty.
				for range 200 {
					w.step(55)
				}
				for range 200 {
					w.step(15)
				}
			}
			for len(w.waiting) > 0 {
				w.close()
			}
			w.quiet()
			synctest.Wait()
			require.Empty(t, set.chunks)
		})
	}
}

// Many goroutines add, remove and close at once: each closing is taken exactly once.
func TestConcurrentUseLosesNoClosing(t *testing.T) {
	s, ready := newSet(t, 4)
	const adders, each = 8, 300
	var wg sync.WaitGroup
	for a := range adders {
		wg.Go(func() {
			for i := range each {
				ch := make(chan struct{})
				s.Add(ch, a*each+i)
				s.Remove(s.Add(ch, -1))
				close(ch)
			}
		})
	}
	var taken [adders * each]int
	for n := 0; n < len(taken); {
		<-ready
		for _, w := range s.Take() {
			taken[w.Value]++
			n++
		}
	}
	wg.Wait()
	for value, times := range taken {
		require.Equal(t, 1, times, "%d", value)
	}
	s.Stop()
	require.Nil(t, s.Take(), "more than was added")
}
