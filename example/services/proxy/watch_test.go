// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/services/nettest"
)

// watched is a program in a namespace that is never listed again after the start.
type watched struct {
	*vandal
	whole []nettest.Object
}

func newWatched(t *testing.T) *watched {
	w := &watched{vandal: &vandal{T: t, at: nettest.NewPlace(t), rows: map[string]*wish{
		"web": service("web", web, 0, 1, 2), "dns": service("dns", dns, 3), "admin": service("admin", admin),
		"six": service("six", six, 4, 5),
	}}}
	t.Cleanup(func() {
		require.NoError(t, w.Stop(quiet, context.Background()))
		require.NoError(t, w.table.Close())
	})
	w.begin()
	w.whole = w.normal(w.at.Ruleset())
	return w
}

// begin starts the program again, and waits until it has nothing to do: the generation stays for longer than any pause.
func (w *watched) begin() {
	w.Helper()
	w.restart()
	_, err := w.wait(w.Context())
	require.NoError(w, err)
	for last, since := w.at.Generation(), time.Now(); time.Since(since) < 10*watchPause; time.Sleep(watchPause) {
		if now := w.at.Generation(); now != last {
			last, since = now, time.Now()
		}
	}
}

// restored waits until the namespace has what it had, and returns how long that took.
func (w *watched) restored() time.Duration {
	w.Helper()
	began := time.Now()
	for {
		missing, added := nettest.Changes(w.whole, w.normal(w.at.Ruleset()))
		if len(missing)+len(added) == 0 {
			return time.Since(began)
		}
		require.Less(w, time.Since(began), nettest.Limit, "missing: %v\nadded: %v", missing, added)
		time.Sleep(time.Millisecond)
	}
}

// No resync is due: the program is told, and restores the table.
func TestWhatNftChangesIsRestoredAtOnce(t *testing.T) {
	w := newWatched(t)
	for _, script := range []string{
		"flush ruleset",
		"delete table ip services",
		"flush table ip services",
		"add chain ip services reject-forward { policy drop; }",
		"add table ip services { flags dormant; }",
		"add rule ip services output accept",
		"insert rule ip services draw-3 drop",
		"flush chain ip services prerouting",
		"flush map ip services endpoints",
		"flush map ip services services; flush chain ip services draw-3; delete chain ip services draw-3",
		"delete element ip services services { tcp . 10.96.0.1 . 80 }",
		"delete element ip services endpoints { tcp . 10.96.0.1 . 80 . 1 }; add element ip services endpoints { tcp . 10.96.0.1 . 80 . 1 : 10.2.0.66 . 66 }",
		"add element ip services endpoints { tcp . 10.96.0.1 . 80 . 9 : 10.2.0.66 . 66 }",
		"add element ip services services { tcp . 10.96.7.7 . 80 : goto draw-1 }",
		"add element ip services empty { udp . 10.96.0.1 . 53 }",
		"delete element ip services same { 0.0.0.0 . 0.0.0.0 }",
		"delete table ip6 services",
		"add chain ip6 services reject-output { policy drop; }",
		sixth("delete element ip services services { tcp . 10.96.0.1 . 80 }"),
	} {
		require.NoError(t, w.at.Nft(script), script)
		t.Logf("%3d ms: %s", w.restored().Milliseconds(), script)
		w.begin() // since a frontend that is changed again and again is contended
	}
}
