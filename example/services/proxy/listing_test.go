// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/nettest"
	"github.com/statekeel/statekeel/reconciler"
)

// counted is a kernel that counts what a listing asks of it.
type counted struct {
	Target
	dumps, most atomic.Int64 // of everything; the most keys at once
}

func (c *counted) List() (kernel.Listing, error) {
	c.dumps.Add(1)
	return c.Target.List()
}

func (c *counted) Get(keys kernel.Listing) (kernel.Listing, error) {
	c.most.Store(max(c.most.Load(), int64(len(keys.Counts)+len(keys.Slots))))
	return c.Target.Get(keys)
}

// changing are operations on a kernel with many services, and a client that changes them all the time.
type changing struct {
	*testing.T
	ops     *operations
	kernel  *counted
	table   *kernel.Table // of somebody else
	of      int           // endpoints of each service
	resyncs atomic.Int64
	waits   []time.Duration // of changes
}

// at returns a service; every second one is of IPv6.
func (c *changing) at(i int) kernel.Service {
	address := netip.AddrFrom4([4]byte{10, 97, byte(i >> 8), byte(i)})
	at := kernel.Service{Protocol: kernel.TCP, Address: netip.AddrPortFrom(address, 80)}
	if i%2 == 1 {
		return twin(at)
	}
	return at
}

// entry returns a service whose endpoints begin with a number.
func (c *changing) entry(i, first int) reconciler.BatchEntry[*Frontend] {
	f := &Frontend{At: c.at(i)}
	for k := range c.of {
		n := first + k
		e := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(128 + n>>16), byte(n >> 8), byte(n)}), 8080)
		if i%2 == 1 {
			e = nettest.TwinOf(e)
		}
		f.Endpoints = append(f.Endpoints, e)
	}
	return reconciler.BatchEntry[*Frontend]{Object: f}
}

func (c *changing) round(entries ...reconciler.BatchEntry[*Frontend]) {
	c.ops.ProcessRound(context.Background(), nil, nil, entries)
	for i := range entries {
		require.NoError(c, entries[i].Result)
	}
}

func newChanging(t *testing.T, services, of int) *changing {
	at := nettest.NewPlace(t)
	c := &changing{T: t, of: of, kernel: &counted{Target: openTable(t, at)}, table: openTable(t, at)}
	c.ops = newOperations(c.kernel)
	c.ops.resync = func() { c.resyncs.Add(1) }
	var entries []reconciler.BatchEntry[*Frontend]
	for i := range services {
		if entries = append(entries, c.entry(i, i*of)); len(entries) == 1000 || i == services-1 {
			c.round(entries...)
			entries = nil
		}
	}
	return c
}

// while changes services, each time another one, until f returns. One in ten is deleted and comes back.
func (c *changing) while(services int, pause time.Duration, f func()) {
	var done atomic.Bool
	var client sync.WaitGroup
	client.Go(func() {
		for i := 0; !done.Load(); i++ {
			entry := c.entry(i*7919%services, i)
			begin := time.Now()
			c.round(entry)
			c.waits = append(c.waits, time.Since(begin))
			if i%10 == 0 {
				c.ops.ProcessRound(context.Background(), nil, []reconciler.BatchEntry[*Frontend]{entry}, nil)
				c.round(entry)
			}
			time.Sleep(pause)
		}
	})
	defer client.Wait()
	defer done.Store(true)
	f()
}

// list returns what is listed.
func (c *changing) list() map[kernel.Service]*Frontend {
	all := map[kernel.Service]*Frontend{}
	require.NoError(c, c.ops.List(c.Context(), nil, func(f *Frontend) bool {
		all[f.At] = f
		return true
	}))
	return all
}

// equal checks that the operations know what the kernel has.
func (c *changing) equal() {
	c.Helper()
	l, err := c.table.List()
	require.NoError(c, err)
	require.Equal(c, slotsOf(l), c.ops.have)
}

// Elements of others are found while everything changes, and what this program changes is not taken for theirs.
func TestChangesDuringAListingAreNotTakenForDrift(t *testing.T) {
	const services = 300
	c := newChanging(t, services, 10)
	stranger := kernel.Service{Protocol: kernel.UDP, Address: netip.MustParseAddrPort("10.96.0.9:53")}
	c.while(services, 0, func() {
		for i := range 30 {
			b := kernel.NewBatch()
			if i%3 == 0 {
				b.SetSlot(kernel.Slot{Service: stranger, Number: i}, elsewhere)
				b.SetCount(stranger, i%2)
				require.NoError(t, c.table.Commit(b))
			}
			dumps := c.kernel.dumps.Load()
			found := c.list()
			if i%3 == 0 && found[stranger] == nil {
				// The list was read while others committed, and lacks it. Its size says so.
				require.EqualValues(t, 1, c.resyncs.Swap(0))
				found = c.list()
			}
			require.Zero(t, c.resyncs.Load(), "listing %d has found drift", i)
			require.Equal(t, i%3 == 0, c.kernel.dumps.Load() > dumps, "everything is listed if there are strangers")
			if f := found[stranger]; i%3 == 0 {
				require.True(t, f.Torn)
				require.Len(t, f.Endpoints, i+1)
				entry := reconciler.BatchEntry[*Frontend]{Object: f}
				c.ops.ProcessRound(t.Context(), nil, []reconciler.BatchEntry[*Frontend]{entry}, nil)
			} else {
				require.Nil(t, f)
			}
			for at, f := range found {
				require.True(t, at == stranger || !f.Torn && len(f.Endpoints) == c.of, "%v", f)
			}
		}
	})
	c.equal()
	require.Greater(t, len(c.waits), 100)
	require.LessOrEqual(t, c.kernel.most.Load(), int64(30+1), "a change waits for the elements of one service")
}

// Whatever somebody else does to what is known is found without a list of everything, if the number stays the same.
func TestAListingFindsWhatOthersHaveChanged(t *testing.T) {
	c := newChanging(t, 50, 4)
	other := netip.MustParseAddrPort("[fd00::a02:99]:80")
	b := kernel.NewBatch()
	b.SetSlot(kernel.Slot{Service: c.at(1), Number: 2}, other)
	require.NoError(t, c.table.Commit(b))
	found := c.list()
	require.Contains(t, found[c.at(1)].Endpoints, other)
	require.Zero(t, c.kernel.dumps.Load())
	require.EqualValues(t, 1, c.resyncs.Load())
	c.equal()

	b.DeleteSlot(kernel.Slot{Service: c.at(3), Number: 3})
	b.DeleteService(c.at(5))
	b.SetCount(c.at(7), 0)
	require.NoError(t, c.table.Commit(b))
	found = c.list()
	require.True(t, found[c.at(3)].Torn)
	require.True(t, found[c.at(5)].Torn)
	require.True(t, found[c.at(7)].Torn)
	require.EqualValues(t, 2, c.resyncs.Load())
	c.equal()
}

// SERVICES_LISTED is a size such as 10000x10: the times are those of so many services of so many endpoints. Changes come at
// up to 100 in a second.
func TestChangesDoNotWaitForAListing(t *testing.T) {
	services, of := 500, 10
	if size := os.Getenv("SERVICES_LISTED"); size != "" {
		_, err := fmt.Sscanf(size, "%dx%d", &services, &of)
		require.NoError(t, err)
	}
	c := newChanging(t, services, of)
	measure := func(name string, f func()) {
		c.waits = nil
		begin := time.Now()
		c.while(services, 10*time.Millisecond, f)
		slices.Sort(c.waits)
		at := func(percent int) time.Duration { return c.waits[(len(c.waits)-1)*percent/100] }
		t.Logf("%s: %d changes in %v, p50 %v, p90 %v, p99 %v, max %v",
			name, len(c.waits), time.Since(begin), at(50), at(90), at(99), at(100))
	}
	const times = 10
	measure("without a listing", func() { time.Sleep(100 * time.Millisecond) })
	measure("while what is known is listed", func() {
		for range times {
			c.list()
		}
	})
	require.Zero(t, c.kernel.dumps.Load())
	measure("while everything is listed", func() {
		for range times {
			require.NoError(t, c.ops.inTurn(t.Context(), func() error {
				clear(c.ops.have) // as after a commit whose effect is not known
				return nil
			}))
			c.list()
		}
	})
	require.Zero(t, c.resyncs.Load())
	c.equal()
}
