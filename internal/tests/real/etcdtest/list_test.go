// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcdtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler/source/etcd"
)

// A list takes longer than the store keeps history.
func TestListByTimeEndsNoWatchThatWorks(t *testing.T) {
	long.Only(t)
	t.Parallel()
	s := newServers(t, 1)[0]
	admin, p, lists := connect(t, s.client), newProxy(t, s.client), &listLog{}
	spaces := strings.Repeat(" ", 10<<10)
	for i := range 100 {
		if _, err := admin.Put(t.Context(), fmt.Sprint("desired/", i), fmt.Sprint(i)+spaces); err != nil {
			t.Fatal(err)
		}
	}
	p.slow = 10 * time.Millisecond
	end := make(chan struct{})
	defer close(end)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-end:
				return
			case <-time.After(30 * time.Millisecond):
			}
			if put, err := admin.Put(context.Background(), "desired/busy", fmt.Sprint(n)); err == nil {
				_, _ = admin.Compact(context.Background(), put.Header.Revision)
			}
		}
	}()
	w := &world{server: s, admin: admin, proxy: p}
	w.agent = newAgent(t, plan{client: connect(t, p.address), lists: lists, config: func(c *etcd.Config[*row]) {
		c.PageSize, c.Check, c.Relist = 5, time.Second, 100*time.Millisecond
	}})
	await(t, "the first list", func() error {
		if n := len(w.rows()); n != 101 || !w.source.State().Connected {
			return fmt.Errorf("%d rows, %+v", n, w.source.State())
		}
		return nil
	})
	since, longest := w.source.State().Since, time.Duration(0)
	for n := 1000; len(lists.reasons()) < 4; n++ {
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
	if now := w.source.State(); !now.Connected || !now.Since.Equal(since) {
		t.Errorf("the watch has ended: %+v, since %s before; %q", now, since, lists.reasons())
	}
	// 20 pages of two or three delays each take half a second at least.
	if t.Logf("the slowest event took %s", longest); longest > 400*time.Millisecond {
		t.Errorf("an event took %s: it has waited for the list", longest)
	}
}

// A backup has the identity, and soon the revision that the source has seen.
func TestStoreFromABackupThatHasGoneOnIsNoticed(t *testing.T) {
	t.Parallel()
	for why, restore := range map[string]func(w *world, backup string){
		"raft term of the store went back": func(w *world, backup string) {
			w.server.restore(backup)
		},
		"another cluster ID": func(w *world, backup string) {
			w.server.erase()
			peer := freeAddress(t)
			w.server.cluster = strings.ReplaceAll(w.server.cluster, w.server.peer, peer)
			w.server.peer = peer
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
			restore(w, backup)
			w.server.start()
			if _, err := w.admin.Put(t.Context(), "identity", identity); err != nil {
				t.Fatal(err)
			}
			for w.put("b", "20") < at+5 {
			}
			w.proxy.setRefuse(false)
			w.equal()
			if err := w.listed(why); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSecondKeyOfARowIsABadKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{config: func(c *etcd.Config[*row]) {
		c.Decode = func(key string, value []byte) (*row, error) { return decode(strings.TrimRight(key, "'"), value) }
	}}, "a", "b")
	second := func(bad string) {
		t.Helper()
		w.settle(w.admin)
		if errs, _ := w.source.Bad(9); fmt.Sprint(errs) != bad {
			t.Errorf("bad are %v, wanted %s", errs, bad)
		}
	}
	w.put("a'", "5", "a", "6")
	second(`["desired/a'": the key "desired/a" has the same row]`)
	w.have(map[string]int{"a": 6, "b": 2})
	w.proxy.setRefuse(true)
	w.delete("a", clientv3.WithRange("desired/a "))
	w.compact()
	w.proxy.setRefuse(false)
	second("[]")
	w.have(map[string]int{"a": 5, "b": 2})
}
