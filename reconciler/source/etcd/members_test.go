// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statekeel/statekeel/reconciler/source"
)

// The endpoints of a client may be members of two clusters: one answers, and a watch is on the other.
func TestAWatchOnAMemberOfAnotherClusterIsNotFollowed(t *testing.T) {
	for _, first := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			other := newFakeServer(atOnce)
			other.cluster = 2
			for range 50 {
				other.write(map[string]string{"a": "a/9", "x": "x/9"})
			}
			f := follow(t, atOnce, func(*Config[*thing], *source.Config[*thing]) {})
			defer f.stop()
			if first {
				// Before the first list, which Run begins when time passes.
				f.set(func() { f.watched = other })
			}
			f.put(1, "a")
			f.wait(time.Second)
			f.set(func() { f.watched = other })
			f.cut()
			f.put(2, "a", "b")
			other.write(map[string]string{"a": "a/10"})
			for range 100 {
				f.wait(time.Second)
				if rows := f.rows(); rows["x"] != "" || rows["a"] != "" && rows["a"] != "1" {
					t.Fatalf("the rows are %v", rows)
				}
			}
			if state := f.source.State(); state.Connected || state.Err == nil ||
				!strings.Contains(state.Err.Error(), "the watch is on a member of another cluster, 2, not 1") {
				t.Errorf("the state is %+v", state)
			}
			f.set(func() { f.watched = nil })
			f.wait(30 * time.Second)
			f.has("on the right member", "a:2 b:2", 0)
			if !f.source.State().Connected {
				t.Error("it is not connected")
			}
		})
	}
}

// The backup has the identity of the store. The watch is on a connection that does not tell yet that the store went back.
func TestAStoreThatGoesBackWhileItIsListedRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, atOnce, func(cfg *Config[*thing], _ *source.Config[*thing]) { cfg.PageSize, cfg.Relist = 1, time.Minute })
		defer f.stop()
		f.put(1, "a")
		f.put(1, "b")
		f.wait(time.Second)
		restore := sync.OnceFunc(f.backup())
		f.put(1, "c")
		f.put(1, "d")
		f.wait(time.Second)
		f.has("at first", "a:1 b:1 c:1 d:1", 0)
		f.set(func() { f.paged = restore })
		for held := false; !held; held = f.source.Holding() == 2 {
			f.has("nothing is held yet", "a:1 b:1 c:1 d:1", 0)
			f.wait(time.Second)
		}
		f.wait(3 * check)
		f.has("the store is quiet", "a:1 b:1", 0)
	})
}
