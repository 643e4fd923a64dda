// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/internal/health"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/observed"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// patience is how long a test waits for what takes milliseconds on an idle machine.
const patience = time.Minute

// followed is a namespace with a feed of its links.
type followed struct {
	*fixture
	feed   *feed
	health *health.Registry
	stop   func()

	mu    sync.Mutex
	undid map[string]desired.Effect
}

// follow starts a feed in the test's namespace, after prepare has changed it. The feed ends with the test.
func follow(t *testing.T, prepare func(*feed)) *followed {
	f := &followed{fixture: newFixture(t), undid: make(map[string]desired.Effect)}
	registry, reports := health.New()
	f.health = registry
	f.feed = &feed{Surroundings: f.in, log: slog.New(slog.NewTextHandler(&f.log, nil))}
	f.feed.Undid = func(link string, effect desired.Effect) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.undid[link] |= effect
	}
	if prepare != nil {
		prepare(f.feed)
	}
	here, err := os.Open("/proc/thread-self/ns/net")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, here.Close()) })
	ctx, cancel := context.WithCancel(t.Context())
	f.stop = cancel
	reconcilertest.Go(t, func(context.Context) error {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f.feed.run(ctx, reports)
	})
	f.until("lo is known", func(links map[string]observed.Link) bool { return len(links) == 1 })
	return f
}

// until waits for a condition of the table of observed links.
func (f *followed) until(what string, condition func(map[string]observed.Link) bool) {
	f.Helper()
	deadline := time.After(patience)
	for {
		rows, changed := f.in.Links.AllWatch(f.in.DB.ReadTxn())
		links := make(map[string]observed.Link)
		for row := range rows {
			links[row.Name] = *row
		}
		if condition(links) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			require.Fail(f, "timed out: "+what, "%v\n%s", links, &f.log)
		}
	}
}

// untilTrue waits until the table equals the kernel's links.
func (f *followed) untilTrue() {
	f.Helper()
	have, err := netlink.LinkList()
	require.NoError(f, err)
	want := make(map[string]observed.Link)
	for _, link := range have {
		want[link.Attrs().Name] = *rowOf(link)
	}
	f.until("the table is as the kernel", func(links map[string]observed.Link) bool {
		return assert.ObjectsAreEqual(want, links)
	})
}

// came returns the effects since the last call, including those of all messages that the feed has received:
// it reports a change before it applies the next but one.
func (f *followed) came() map[string]desired.Effect {
	f.Helper()
	for range 2 {
		f.byHand(netlink.LinkAdd(&netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Name: "marker"}}))
		f.untilTrue()
		f.byHand(netlink.LinkDel(f.link("marker")))
		f.untilTrue()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	undid := f.undid
	delete(undid, "marker")
	f.undid = make(map[string]desired.Effect)
	return undid
}

func TestLinksMadeByHandAreObserved(t *testing.T) {
	f := follow(t, nil)
	lo := f.link("lo").Attrs()
	f.until("lo is seen", func(links map[string]observed.Link) bool {
		return links["lo"] == observed.Link{Name: "lo", Index: lo.Index, Kind: "device", MTU: 65536}
	})

	f.byHand(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a0", MTU: 1400}, PeerName: "a1"}))
	f.byHand(netlink.LinkSetUp(f.link("a0")))
	f.untilTrue()
	f.until("a0 is seen", func(links map[string]observed.Link) bool {
		return links["a0"] == observed.Link{Name: "a0", Index: f.link("a0").Attrs().Index, Kind: "veth", MTU: 1400, Up: true} && !links["a1"].Up
	})

	f.byHand(netlink.LinkSetMTU(f.link("a0"), 1300))
	f.byHand(netlink.LinkSetDown(f.link("a0")))
	f.byHand(netlink.LinkSetName(f.link("a1"), "renamed"))
	f.untilTrue()
	f.byHand(netlink.LinkDel(f.link("a0")))
	f.until("both are gone", func(links map[string]observed.Link) bool { return len(links) == 1 })
}

func TestPortThatLeavesItsBridgeIsStillALink(t *testing.T) {
	f := follow(t, nil)
	f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
	f.byHand(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a0"}, PeerName: "a1"}))
	f.byHand(netlink.LinkSetMaster(f.link("a0"), f.link("br0")))
	f.byHand(netlink.LinkSetNoMaster(f.link("a0"))) // "a0 is gone", says the bridge
	f.byHand(netlink.LinkSetUp(f.link("br0")))
	f.until("the last change is seen", func(links map[string]observed.Link) bool { return links["br0"].Up })
	f.untilTrue()
	assert.NotContains(t, f.came(), "a0", "it had no effect")
}

func TestEffectsOfALinkChangeAreReported(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*followed)
		want   map[string]desired.Effect
	}{
		"gone": {
			func(f *followed) { f.byHand(netlink.LinkDel(f.link("br0"))) },
			map[string]desired.Effect{"br0": desired.UndidAll},
		},
		"created again": {
			func(f *followed) {
				f.byHand(netlink.LinkDel(f.link("br0")))
				f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
			},
			map[string]desired.Effect{"br0": desired.UndidAll},
		},
		"down": {
			func(f *followed) { f.byHand(netlink.LinkSetDown(f.link("br0"))) },
			map[string]desired.Effect{"br0": desired.UndidLink | desired.UndidAddresses | desired.UndidRoutes},
		},
		"larger": {
			func(f *followed) { f.byHand(netlink.LinkSetMTU(f.link("br0"), 9000)) },
			map[string]desired.Effect{"br0": desired.UndidRefusals},
		},
		"renamed": {
			func(f *followed) {
				f.byHand(netlink.LinkSetDown(f.link("br0")))
				f.untilTrue()
				f.came()
				f.byHand(netlink.LinkSetName(f.link("br0"), "br1"))
			},
			map[string]desired.Effect{"br0": desired.UndidAll},
		},
		"new": {func(*followed) {}, map[string]desired.Effect{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := follow(t, nil)
			f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
			f.byHand(netlink.LinkSetUp(f.link("br0")))
			f.untilTrue()
			f.came()
			test.change(f)
			assert.Equal(t, test.want, f.came())
		})
	}
}

func TestOverrunFeedListsAgain(t *testing.T) {
	f := follow(t, func(feed *feed) { feed.receiveBuffer = 1 }) // the smallest that the kernel allows
	f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
	f.untilTrue()

	// While another transaction holds the table the feed cannot apply its messages.
	txn := f.in.DB.WriteTxn(f.in.Links)
	for i := range 400 {
		f.byHand(netlink.LinkSetMTU(f.link("br0"), 1000+i))
	}
	f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br1"}}))
	f.byHand(netlink.LinkDel(f.link("br0"))) // the last message, which is lost
	txn.Abort()
	f.untilTrue()
	deadline := time.Now().Add(patience)
	for len(f.health.Degraded()) > 0 {
		require.True(t, time.Now().Before(deadline), "it is healthy again")
		<-time.After(time.Millisecond)
	}
	assert.Contains(t, f.log.String(), "no buffer space available", "it was overrun")

	f.byHand(netlink.LinkDel(f.link("br1")))
	f.untilTrue() // the feed still runs
}

// Messages that are not applied yet must not keep the feed from ending.
func TestFeedThatIsBehindCanBeStopped(t *testing.T) {
	for range 4 {
		f := follow(t, nil)
		f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
		f.untilTrue()
		txn := f.in.DB.WriteTxn(f.in.Links)
		for i := range 150 { // more than one transaction and the queue hold
			f.byHand(netlink.LinkSetMTU(f.link("br0"), 1000+i))
		}
		f.stop()
		txn.Abort()
	}
}
