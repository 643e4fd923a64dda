// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcdtest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/source/etcd"
)

// world is an etcd, a client of its own, and an agent behind a proxy.
type world struct {
	*agent
	server *server
	proxy  *proxy
	calls  *between // of the agent
	admin  *clientv3.Client
	lists  *listLog
	health *reconcilertest.Health
}

// newWorld starts one with some keys; their values are numbers from 1.
func newWorld(t *testing.T, p plan, keys ...string) *world {
	w := &world{server: newServers(t, 1)[0], lists: &listLog{}, health: &reconcilertest.Health{}, calls: &between{}}
	w.proxy, w.admin = newProxy(t, w.server.client), connect(t, w.server.client)
	p.client, p.lists, p.health = connectThrough(t, w.calls, "", w.proxy.address), w.lists, w.health
	for i, key := range keys {
		_, err := w.admin.Put(t.Context(), "desired/"+key, fmt.Sprint(i+1))
		require.NoError(t, err)
	}
	w.agent = newAgent(t, p)
	w.equal()
	return w
}

// put puts keys and values, and returns the revision.
func (w *world) put(kvs ...string) (revision int64) {
	w.t.Helper()
	for i := 0; i < len(kvs); i += 2 {
		await(w.t, "a put", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			put, err := w.admin.Put(ctx, w.prefix+kvs[i], kvs[i+1])
			if err == nil {
				revision = put.Header.Revision
			}
			return err
		})
	}
	return revision
}

func (w *world) delete(key string, opts ...clientv3.OpOption) {
	w.t.Helper()
	_, err := w.admin.Delete(w.t.Context(), w.prefix+key, opts...)
	require.NoError(w.t, err)
}

// compactMeanwhile compacts the store after changes that the source has not seen.
func (w *world) compactMeanwhile(changes func()) {
	w.t.Helper()
	w.proxy.setRefuse(true)
	changes()
	_, err := w.admin.Compact(w.t.Context(), int64(w.read(w.admin).revision))
	require.NoError(w.t, err)
	w.proxy.setRefuse(false)
}

// equal waits until the source says that it has everything, and compares at once.
func (w *world) equal() {
	w.t.Helper()
	c := w.compare(w.admin)
	require.Equal(w.t, c.good, c.rows)
}

// have waits until the table has these rows.
func (w *world) have(rows map[string]int) {
	w.t.Helper()
	await(w.t, "rows", func() error {
		if got := w.rows(); !maps.Equal(got, rows) {
			return fmt.Errorf("the table has %v, wanted %v", got, rows)
		}
		return nil
	})
}

// holds waits until the source holds a number of rows.
func (w *world) holds(n int) {
	w.t.Helper()
	await(w.t, "the source to hold", func() error {
		if held := w.source.Holding(); held != n {
			return fmt.Errorf("it holds %d row(s), wanted %d", held, n)
		}
		return nil
	})
}

func (w *world) listed(why string) error {
	for _, reason := range w.lists.reasons() {
		if strings.Contains(reason, why) {
			return nil
		}
	}
	return fmt.Errorf("listed because of %q, not of %q", w.lists.reasons(), why)
}

// awaitLists waits until the prefix was listed some more times.
func (w *world) awaitLists(n int) {
	w.t.Helper()
	before := len(w.lists.reasons())
	await(w.t, "lists", func() error {
		if now := len(w.lists.reasons()); now < before+n {
			return fmt.Errorf("%d lists, wanted %d", now, before+n)
		}
		return nil
	})
}

func TestProgressMovesTheRevisionOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a")
	lists := w.lists.reasons() // the first one may have failed
	put, err := w.admin.Put(t.Context(), "elsewhere", "1")
	require.NoError(t, err)
	await(t, "the revision", func() error {
		if at := w.source.State().Input; at < uint64(put.Header.Revision) {
			return fmt.Errorf("it is %d, the store is at %d", at, put.Header.Revision)
		}
		return nil
	})
	assert.Equal(t, lists, w.lists.reasons())
}

// Without a comparison, which asks etcd for progress, too: the next one is a minute away.
func TestLoadedIncludesWhatWasPutJustNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{config: func(c *etcd.Config[*row]) { c.Check = time.Minute }}, "a")
	loaded := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		require.NoError(t, w.sink.Loaded(ctx))
	}
	for i := range 50 {
		w.put("a", fmt.Sprint(i), fmt.Sprint("b", i), fmt.Sprint(i))
		loaded()
		require.Equal(t, i, w.rows()["a"])
		require.Len(t, w.rows(), i+2)
	}
	put, err := w.admin.Put(t.Context(), "elsewhere", "1")
	require.NoError(t, err)
	loaded()
	require.GreaterOrEqual(t, w.source.State().Input, uint64(put.Header.Revision))
	assert.Empty(t, w.lists.reasons())

	// What was put while there was no connection.
	w.proxy.setRefuse(true)
	w.put("a", "1000")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, w.sink.Loaded(ctx), context.DeadlineExceeded)
	w.proxy.setRefuse(false)
	loaded()
	require.Equal(t, 1000, w.rows()["a"])
}

// The table is not what the new store wants before a full list, even if each held row was put again: the
// revision of the sink is of the former store, and is higher.
func TestHeldRowsAreOfNoRevisionOfTheNewStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{config: func(c *etcd.Config[*row]) { c.Check = time.Minute }}, "a", "b")
	for range 20 {
		w.put("a", "1")
	}
	w.equal()
	w.server.wipe()
	w.holds(2)
	w.put("a", "10", "b", "20")
	w.holds(0)
	w.have(map[string]int{"a": 10, "b": 20})
	assert.Empty(t, w.source.Store(), "the revision %d is called one of the store", w.source.State().Input)
	w.acked("the ack", func(a etcd.Ack) bool { return a.Store != "" && a.Revision == 0 && !a.Applied(1) })
}

func TestListOfUnchangedKeysWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{config: func(c *etcd.Config[*row]) { c.Relist = 300 * time.Millisecond }}, "a", "b", "c", "d", "e", "f", "g")
	w.put("b", "bad")
	w.settle(w.admin)
	before := w.table.Revision(w.db.ReadTxn())
	w.awaitLists(4)
	assert.Equal(t, before, w.table.Revision(w.db.ReadTxn()))
	assert.Len(t, w.rows(), 7)
}

// A backup has the identity, and soon the revision that the source has seen. Of an empty store in its place another
// agent may have been the first.
func TestReplacedStoreIsNoticedAtHigherRevision(t *testing.T) {
	t.Parallel()
	for why, replace := range map[string]func(w *world, backup, identity string) string{
		"raft term of the store went back": func(w *world, backup, identity string) string {
			w.server.restore(backup)
			return identity
		},
		"another cluster ID": func(w *world, _, identity string) string {
			w.server.erase()
			peer := freeAddress(t)
			w.server.cluster = strings.ReplaceAll(w.server.cluster, w.server.peer, peer)
			w.server.peer = peer
			return identity
		},
		"another identity": func(w *world, _, _ string) string {
			w.server.erase()
			return "another"
		},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, plan{}, "a", "b")
			identity := w.read(w.admin).identity
			backup := w.server.backUp()
			w.server.startAfterElections()
			at := w.put("a", "10", "c", "11")
			w.equal()
			w.proxy.setRefuse(true)
			identity = replace(w, backup, identity)
			w.server.start()
			_, err := w.admin.Put(t.Context(), "identity", identity)
			require.NoError(t, err)
			for w.put("b", "20") < at+5 {
			}
			w.proxy.setRefuse(false)
			w.equal()
			assert.NoError(t, w.listed(why))
		})
	}
}

// A list of large values takes longer than the time in which the source checks the store, and a response of the watch
// comes in parts.
func TestLargeValuesOverASlowConnectionAreTakenWhole(t *testing.T) {
	long.Only(t)
	t.Parallel()
	w := newWorld(t, plan{config: func(c *etcd.Config[*row]) { c.Check, c.PageSize = time.Second, 0 }}, "a")
	w.proxy.setSlow(20 * time.Millisecond)
	large := func(n int) string { return fmt.Sprint(n) + strings.Repeat(" ", 100<<10) }
	w.compactMeanwhile(func() {
		for i := range 40 {
			w.put(fmt.Sprint(i), large(i))
		}
	})
	w.equal()
	lists := w.lists.reasons()
	w.proxy.setSlow(0)
	w.proxy.setRefuse(true)
	for i := range 60 {
		w.put(fmt.Sprint(i%40), large(100+i))
	}
	w.proxy.setRefuse(false)
	w.equal()
	assert.Equal(t, lists, w.lists.reasons())
}

func TestThreeMembersWithOneStoppedLeaveNoGap(t *testing.T) {
	t.Parallel()
	servers := newServers(t, 3)
	addresses := addressesOf(servers)
	w := &world{admin: connect(t, addresses...)}
	w.agent = newAgent(t, plan{client: connect(t, addresses...), config: func(c *etcd.Config[*row]) { c.Check = 2 * time.Second }})
	stop, written := make(chan struct{}), make(chan int)
	put := func(key string, n int) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		// While members change it may fail: the next one follows.
		_, _ = w.admin.Put(ctx, "desired/"+key, fmt.Sprint(n))
	}
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				written <- n
				return
			default:
			}
			put("counter", n)
			put(fmt.Sprint("k", n%50), n)
		}
	}()
	for _, s := range servers {
		s.kill()
		time.Sleep(1500 * time.Millisecond)
		w.settle(w.admin)
		s.start()
		w.settle(w.admin)
	}
	close(stop)
	t.Logf("%d values were written", <-written)
	w.equal()
}

func TestPrefixesOfAllKinds(t *testing.T) {
	t.Parallel()
	admin := connect(t, newServers(t, 1)[0].client)
	for _, prefix := range []string{"d", "desired", "\xff", "a\xff", "ü/", "\x00", "d/\x00"} {
		w := &world{admin: admin}
		w.agent = newAgent(t, plan{client: admin, prefix: prefix, config: func(c *etcd.Config[*row]) { c.PageSize = 2 }})
		for i, key := range []string{"", "\x00", "a", "ä", "\xff"} {
			w.put(key, fmt.Sprint(i))
		}
		for _, beside := range []string{"c", "e"} {
			_, err := admin.Put(t.Context(), beside, "no")
			require.NoError(t, err)
		}
		w.equal()
		w.put("a", "2", "ab", "7")
		w.equal()
		assert.GreaterOrEqual(t, len(w.rows()), 6)
		w.stop()
	}
}

// A list takes longer than the store keeps history.
func TestListByTimeEndsNoWatchThatWorks(t *testing.T) {
	long.Only(t)
	t.Parallel()
	s := newServers(t, 1)[0]
	w := &world{server: s, admin: connect(t, s.client), proxy: newProxy(t, s.client), lists: &listLog{}}
	for i := range 100 {
		_, err := w.admin.Put(t.Context(), fmt.Sprint("desired/", i), fmt.Sprint(i)+strings.Repeat(" ", 10<<10))
		require.NoError(t, err)
	}
	w.proxy.slow = 100 * time.Millisecond
	end := make(chan struct{})
	defer close(end)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-end:
				return
			case <-time.After(30 * time.Millisecond):
			}
			if put, err := w.admin.Put(context.Background(), "desired/busy", fmt.Sprint(n)); err == nil {
				_, _ = w.admin.Compact(context.Background(), put.Header.Revision)
			}
		}
	}()
	w.agent = newAgent(t, plan{client: connect(t, w.proxy.address), lists: w.lists, config: func(c *etcd.Config[*row]) {
		c.PageSize, c.Check, c.Relist = 5, 10*time.Second, 100*time.Millisecond
	}})
	await(t, "the first list", func() error {
		if n := len(w.rows()); n != 101 || !w.source.State().Connected {
			return fmt.Errorf("%d rows, %+v", n, w.source.State())
		}
		return nil
	})
	since, longest := w.source.State().Since, time.Duration(0)
	for n := 1000; len(w.lists.reasons()) < 4; n++ {
		began := time.Now()
		at := uint64(w.put("a", fmt.Sprint(n)))
		await(t, "the event", func() error {
			if in := w.source.State().Input; in < at || w.rows()["a"] != n {
				return fmt.Errorf("the table is at %d, the put at %d", in, at)
			}
			return nil
		})
		longest = max(longest, time.Since(began))
	}
	now := w.source.State()
	assert.True(t, now.Connected && now.Since.Equal(since), "the watch has ended: %+v, since %s before; %q", now, since, w.lists.reasons())
	// 20 pages of two or three delays each take five seconds at least.
	assert.LessOrEqual(t, longest, 4*time.Second, "an event has waited for the list")
}
