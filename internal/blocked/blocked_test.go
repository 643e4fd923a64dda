// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package blocked

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// releases returns the keys that are released now, in order. A call of Release releases some of them.
func releases(b *Keys) []string {
	var keys []string
	for {
		n := 0
		b.Release(func(key string) { keys = append(keys, key); n++ })
		if n > maxReleased {
			panic(fmt.Sprintf("%d keys in one call", n))
		} else if n < maxReleased || len(b.closed) == 0 {
			return keys
		}
		<-b.Released()
	}
}

func list(channels ...<-chan struct{}) []<-chan struct{} { return channels }

func openChannels(n int) []chan struct{} {
	channels := make([]chan struct{}, n)
	for i := range channels {
		channels[i] = make(chan struct{})
	}
	return channels
}

func TestKeysOnOneChannelShareAWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Stop()
		ch := make(chan struct{})
		var want []string
		for i := range 5000 {
			key := fmt.Sprint(i * 7919 % 5000)
			b.Set(key, list(ch))
			want = append(want, key)
		}
		b.Remove(want[17])
		want = slices.Delete(want, 17, 18)
		synctest.Wait()
		require.Empty(t, b.Released())

		close(ch)
		<-b.Released()
		require.Equal(t, want, releases(b))
		require.False(t, b.Any())
		synctest.Wait()
		require.Empty(t, b.Released())
	})
}

// A release may block keys again, even on the channel that is being released.
func TestKeysMayBlockAgainDuringARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Stop()
		one, two := make(chan struct{}), make(chan struct{})
		b.Set("a", list(one, two))
		b.Set("b", list(one, two))
		close(one)
		close(two)
		synctest.Wait()
		var keys []string
		b.Release(func(key string) {
			keys = append(keys, key)
			require.LessOrEqual(t, len(keys), 2, "a key that blocks during a release is released by it")
			b.Set(key+"'", list(one, two))
		})
		require.Equal(t, []string{"a", "b"}, keys)
		for _, ch := range list(one, two) {
			q := b.byChannel.entries[ch].Value
			require.Equal(t, []string{"a'", "b'"}, []string{q.first.key, q.last.key}, "one waiter")
		}
		synctest.Wait()
		require.Equal(t, []string{"a'", "b'"}, releases(b))
		require.Empty(t, b.byChannel.entries)
	})
}

func TestReleasedKeysReleaseMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Stop()
		const n = 50_000
		channels := openChannels(n)
		before := heap()
		for i, ch := range channels {
			b.Set(fmt.Sprint(i), list(ch))
		}
		require.Greater(t, heap(), before+n*300)
		for i := range n - 1 {
			b.Remove(fmt.Sprint(i))
		}
		synctest.Wait()
		// The goroutines are not freed: Go keeps them for new ones.
		require.Less(t, heap(), before+n*30)
		require.Len(t, b.byKey.entries, 1)
		require.Len(t, b.byChannel.entries, 1)
		runtime.KeepAlive(channels)
	})
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// In the model, a key has a set of channels and is released if one of them is closed.
func TestRandomWalkAgreesWithTheModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		b := New()
		defer b.Stop()
		model := map[string][]chan struct{}{}
		channels := openChannels(6)

		released := func() []string {
			var keys []string
			for key, waits := range model {
				if slices.ContainsFunc(waits, isClosed) {
					keys = append(keys, key)
				}
			}
			slices.Sort(keys)
			return keys
		}
		for range 20_000 {
			key := string('a' + rune(random.IntN(12)))
			switch r := random.IntN(10); {
			case r < 5:
				var waits []chan struct{}
				var given []<-chan struct{}
				for range random.IntN(4) {
					ch := channels[random.IntN(len(channels))]
					waits, given = append(waits, ch), append(given, ch)
				}
				delete(model, key)
				if len(waits) > 0 {
					model[key] = waits
				}
				b.Set(key, given)
			case r < 6:
				delete(model, key)
				b.Remove(key)
			case r < 8:
				if ch := channels[random.IntN(len(channels))]; !isClosed(ch) {
					close(ch)
				}
			case r < 9:
				// A new channel replaces one that keys may still wait for.
				channels[random.IntN(len(channels))] = make(chan struct{})
			default:
				synctest.Wait()
				got := releases(b)
				slices.Sort(got)
				require.Equal(t, released(), got)
				for _, key := range got {
					delete(model, key)
				}
			}
			require.Equal(t, len(model) > 0, b.Any())
		}
		for key := range maps.Clone(model) {
			b.Remove(key)
		}
		require.Empty(t, b.byKey.entries)
		require.Empty(t, b.byChannel.entries)
		synctest.Wait()
		require.Empty(t, releases(b))
	})
}

func isClosed(ch chan struct{}) bool { return watch.IsClosed(ch) }
