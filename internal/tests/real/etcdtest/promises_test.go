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

	"go.etcd.io/etcd/api/v3/authpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/tests/long"
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
	health *healthReports
}

// newWorld starts one with some keys; their values are numbers from 1.
func newWorld(t *testing.T, p plan, keys ...string) *world {
	w := &world{server: newServers(t, 1)[0], lists: &listLog{}, health: &healthReports{}, calls: &between{}}
	w.proxy, w.admin = newProxy(t, w.server.client), connect(t, w.server.client)
	p.client, p.lists, p.health = connectThrough(t, w.calls, "", w.proxy.address), w.lists, w.health
	for i, key := range keys {
		if _, err := w.admin.Put(t.Context(), "desired/"+key, fmt.Sprint(i+1)); err != nil {
			t.Fatal(err)
		}
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
			put, err := w.admin.Put(ctx, "desired/"+kvs[i], kvs[i+1])
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
	if _, err := w.admin.Delete(w.t.Context(), "desired/"+key, opts...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) compact() {
	w.t.Helper()
	if _, err := w.admin.Compact(w.t.Context(), int64(w.read(w.admin).revision)); err != nil {
		w.t.Fatal(err)
	}
}

// equal waits until the source says that it has everything, and compares at once.
func (w *world) equal() {
	w.t.Helper()
	if c := w.compare(w.admin); !maps.Equal(c.rows, c.good) {
		w.t.Fatalf("the table has %v, the store %v", c.rows, c.good)
	}
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

func (w *world) listed(why string) error {
	for _, reason := range w.lists.reasons() {
		if strings.Contains(reason, why) {
			return nil
		}
	}
	return fmt.Errorf("listed because of %q, not of %q", w.lists.reasons(), why)
}

func TestProgressMovesTheRevisionOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a")
	put, err := w.admin.Put(t.Context(), "elsewhere", "1")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the revision", func() error {
		if at := w.source.State().Input; at < uint64(put.Header.Revision) {
			return fmt.Errorf("it is %d, the store is at %d", at, put.Header.Revision)
		}
		return nil
	})
	if why := w.lists.reasons(); len(why) > 0 {
		t.Errorf("the prefix was listed: %q", why)
	}
}

func TestBrokenWatchGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a", "b", "c", "d")
	for i := range 5 {
		w.proxy.setRefuse(true)
		w.put("a", fmt.Sprint(10+i), fmt.Sprint("new", i), "1")
		w.delete(fmt.Sprint("new", i-1))
		w.proxy.setRefuse(false)
		w.equal()
	}
	if why := w.lists.reasons(); len(why) > 0 {
		t.Errorf("the prefix was listed: %q", why)
	}
}

func TestCompactionInsideTheWatchLeadsToAList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a", "b", "c")
	w.proxy.setRefuse(true)
	w.put("a", "10", "d", "4")
	w.delete("b")
	w.compact()
	w.proxy.setRefuse(false)
	w.equal()
	if err := w.listed("compacted"); err != nil {
		t.Error(err)
	}
}

func TestReplacedStoreIsNoticedAtHigherRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a", "b", "c")
	old := w.read(w.admin).revision
	w.proxy.setRefuse(true)
	w.server.wipe()
	// Another agent may have been first.
	if _, err := w.admin.Put(t.Context(), "identity", "another"); err != nil {
		t.Fatal(err)
	}
	// These come at revisions that the source has passed.
	w.put("a", "10", "x", "11")
	for range old + 10 {
		w.put("y", "12")
	}
	w.proxy.setRefuse(false)
	w.equal()
	if err := w.listed("another identity"); err != nil {
		t.Error(err)
	}
}

func TestEmptyStoreInItsPlaceLeavesRowsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a", "b", "c")
	w.server.wipe()
	holding := func(n int) {
		t.Helper()
		await(t, "the source to hold", func() error {
			if h := w.source.Holding(); h != n {
				return fmt.Errorf("it holds %d rows, wanted %d", h, n)
			}
			return nil
		})
	}
	holding(3)
	w.have(map[string]int{"a": 1, "b": 2, "c": 3})
	await(t, "health", func() error { return w.health.says("replaced by an empty one, 3 row(s) are held") })
	await(t, "the ack", func() error {
		if ack, _ := w.ack(w.admin); ack.Held != 3 || len(ack.Problems) == 0 || ack.Applied(0) {
			return fmt.Errorf("the ack is %+v", ack)
		}
		return nil
	})
	// A list by itself ends nothing while the store is empty, nor does a new connection.
	w.proxy.cut()
	time.Sleep(time.Second)
	holding(3)
	w.have(map[string]int{"a": 1, "b": 2, "c": 3})
	// Changes are applied, and the hold ends when the store has been filled.
	w.put("b", "20")
	holding(0)
	w.equal()
	w.have(map[string]int{"b": 20})
	await(t, "health", func() error { return w.health.says("OK") })
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
	await(t, "the source to hold", func() error {
		if h := w.source.Holding(); h != 2 {
			return fmt.Errorf("it holds %d rows", h)
		}
		return nil
	})
	w.put("a", "10")
	w.put("b", "20")
	await(t, "the changes", func() error {
		if h := w.source.Holding(); h != 0 {
			return fmt.Errorf("it holds %d rows", h)
		}
		return nil
	})
	w.have(map[string]int{"a": 10, "b": 20})
	if store := w.source.Store(); store != "" {
		t.Errorf("the revision %d is called one of the store %s", w.source.State().Input, store)
	}
	await(t, "the ack", func() error {
		if ack, found := w.ack(w.admin); !found || ack.Revision != 0 || ack.Applied(1) {
			return fmt.Errorf("the ack is %+v, %t", ack, found)
		}
		return nil
	})
}

func TestListsByTimeHoldRowsOfAnEmptyStore(t *testing.T) {
	long.Only(t)
	t.Parallel()
	w := newWorld(t, plan{config: func(c *etcd.Config[*row]) { c.Relist = 400 * time.Millisecond }}, "a", "b")
	w.server.wipe()
	lists := func(n int) {
		have := len(w.lists.reasons())
		await(t, "lists", func() error {
			if now := len(w.lists.reasons()); now < have+n {
				return fmt.Errorf("%d lists, wanted %d", now, have+n)
			}
			return nil
		})
	}
	lists(4)
	if h, rows := w.source.Holding(), w.rows(); h != 2 || len(rows) != 2 {
		t.Fatalf("%d rows are held: %v", h, rows)
	}
	w.server.wipe()
	lists(4)
	if h, rows := w.source.Holding(), w.rows(); h != 2 || len(rows) != 2 {
		t.Fatalf("%d rows are held: %v", h, rows)
	}
}

func TestEmptyStoreEmptiesTheTableWithAllowEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{allowEmpty: true}, "a", "b", "c")
	w.server.wipe()
	w.have(map[string]int{})
	w.equal()
}

func TestSameStoreThatWasEmptiedMeanwhileIsBelieved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a", "b", "c")
	w.proxy.setRefuse(true)
	w.delete("", clientv3.WithPrefix())
	if _, err := w.admin.Put(t.Context(), "elsewhere", "1"); err != nil {
		t.Fatal(err)
	}
	w.compact()
	w.proxy.setRefuse(false)
	w.equal()
	w.have(map[string]int{})
	if err := w.listed("compacted"); err != nil {
		t.Error(err)
	}
}

func TestListOfUnchangedKeysWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{config: func(c *etcd.Config[*row]) { c.Relist = 300 * time.Millisecond }}, "a", "b", "c", "d", "e", "f", "g")
	w.put("b", "bad")
	w.settle(w.admin)
	before := w.table.Revision(w.db.ReadTxn())
	await(t, "lists", func() error {
		if n := len(w.lists.reasons()); n < 4 {
			return fmt.Errorf("%d lists", n)
		}
		return nil
	})
	if now := w.table.Revision(w.db.ReadTxn()); now != before {
		t.Errorf("the table was at revision %d, and is at %d", before, now)
	}
	if n := len(w.rows()); n != 7 {
		t.Errorf("%d rows", n)
	}
}

func TestRowsNeverGoBackWhileThePrefixIsListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{config: func(c *etcd.Config[*row]) { c.Check, c.Relist = 20*time.Millisecond, time.Millisecond }},
		"a", "b", "c", "d", "e")
	until := time.Now().Add(3 * time.Second)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 10; time.Now().Before(until); n++ {
			_, _ = w.admin.Put(context.Background(), fmt.Sprint("desired/", string("abcde"[n%5])), fmt.Sprint(n))
		}
	}()
	published, err := inputs.Open(w.db, "rows")
	if err != nil {
		t.Fatal(err)
	}
	rows, at := map[string]int{}, uint64(0)
	for ended := false; !ended; {
		txn := w.db.ReadTxn()
		all, changed := w.table.AllWatch(txn)
		input, moved, _ := published.Watch(txn, "etcd")
		now := map[string]int{}
		for r := range all {
			now[r.Key] = r.Value
			if r.Value < rows[r.Key] {
				t.Fatalf("row %s was %d, and is %d", r.Key, rows[r.Key], r.Value)
			}
		}
		if input.Input < at {
			t.Fatalf("the revision was %d, and is %d", at, input.Input)
		}
		rows, at = now, input.Input
		select {
		case <-changed:
		case <-moved:
		case <-done:
			ended = true
		}
	}
	t.Logf("%d lists", len(w.lists.reasons()))
	if len(w.lists.reasons()) < 10 {
		t.Error("there were hardly any lists")
	}
	w.equal()
}

func TestStoreFromABackupIsListedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a", "b")
	backup := w.server.backUp()
	w.server.start()
	at := uint64(w.put("a", "10", "c", "11", "d", "12"))
	w.equal()
	w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(at) })

	w.server.restore(backup)
	w.server.start()
	// What the table had is gone before the ack says anything.
	w.acked("the ack", func(a etcd.Ack) bool { return a.Revision > 0 && a.Revision < at })
	w.have(map[string]int{"a": 1, "b": 2})
	if err := w.listed("went back"); err != nil {
		t.Error(err)
	}
	w.put("e", "13")
	w.equal()
}

func TestBadValueIsNamedAndItsRowStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a", "b", "c")
	bad := func(keys ...string) {
		t.Helper()
		if got := w.badKeys(); fmt.Sprint(got) != fmt.Sprint(keys) {
			t.Errorf("the bad keys are %q, wanted %q", got, keys)
		}
	}
	w.put("a", "many", "new", "", "b", "panic", "c", "30")
	w.settle(w.admin)
	bad("a", "b", "new")
	w.have(map[string]int{"a": 1, "b": 2, "c": 30})
	for _, text := range []string{"3 bad key(s)", `"desired/a": strconv.Atoi`, "panicked: cannot say"} {
		await(t, "health", func() error { return w.health.says(text) })
	}
	await(t, "the ack", func() error {
		if ack, _ := w.ack(w.admin); ack.Bad != 3 || !strings.Contains(fmt.Sprint(ack.Problems), `"desired/b"`) || ack.Applied(1) {
			return fmt.Errorf("the ack is %+v", ack)
		}
		return nil
	})

	// A list finds the same.
	w.proxy.setRefuse(true)
	w.put("c", "31")
	w.compact()
	w.proxy.setRefuse(false)
	w.settle(w.admin)
	bad("a", "b", "new")
	w.have(map[string]int{"a": 1, "b": 2, "c": 31})

	w.put("a", "11", "new", "4")
	w.delete("b")
	w.settle(w.admin)
	bad()
	w.have(map[string]int{"a": 11, "c": 31, "new": 4})
	await(t, "health", func() error { return w.health.says("OK") })
}

func TestLargeResponsesAreTakenWhole(t *testing.T) {
	long.Only(t)
	t.Parallel()
	w := newWorld(t, plan{}, "a")
	w.proxy.setRefuse(true)
	spaces := strings.Repeat(" ", 700<<10)
	for i := range 9 {
		w.put(fmt.Sprint("k", i%6), fmt.Sprint(i)+spaces)
	}
	w.proxy.setRefuse(false)
	w.equal()
	if why := w.lists.reasons(); len(why) > 0 {
		t.Errorf("the prefix was listed: %q", why)
	}
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

func TestAgentNeedsNoMorePermissionsThanDocumented(t *testing.T) {
	t.Parallel()
	s := newServers(t, 1)[0]
	root := connect(t, s.client)
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(root.Put(t.Context(), "identity", "made by an operator"))
	do(root.Put(t.Context(), "desired/a", "1"))
	do(root.RoleAdd(t.Context(), "agent"))
	grant := func(prefix string, kind clientv3.PermissionType) {
		t.Helper()
		do(root.RoleGrantPermission(t.Context(), "agent", prefix, clientv3.GetPrefixRangeEnd(prefix), kind))
	}
	grant("desired/", clientv3.PermissionType(authpb.READ))
	grant("identity", clientv3.PermissionType(authpb.READ))
	grant("acks/a", clientv3.PermissionType(authpb.READWRITE))
	grant("alive/a", clientv3.PermissionType(authpb.READWRITE))
	for _, user := range []string{"agent", "root"} {
		do(root.UserAdd(t.Context(), user, user))
		do(root.UserGrantRole(t.Context(), user, user))
	}
	do(root.AuthEnable(t.Context()))

	w := &world{server: s, admin: connectAs(t, "root", s.client)}
	w.agent = newAgent(t, plan{client: connectAs(t, "agent", s.client)})
	w.equal()
	at := uint64(w.put("b", "2"))
	w.equal()
	w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(at) && a.Store == "made by an operator" })
	w.awaitAlive()
}

func TestChangeThatTheSinkDidNotTakeIsNotSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a")
	w.sink.Close()
	w.put("a", "2")
	await(t, "a list", func() error { return w.listed("the source is closed") })
}
