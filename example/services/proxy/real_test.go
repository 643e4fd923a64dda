// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/nettest"
)

// entry is a service with what was wanted of it, for those who check answers while that changes.
type entry struct {
	name   string
	at     kernel.Service
	steady bool // it always has an endpoint

	mu sync.Mutex
	// wanted are the sets of endpoints that are ready, as bits, of which the last one is wanted now. A set is empty if the
	// service rejects, or is unknown.
	wanted []uint16
	known  bool // as wanted now
	// oldest is the first that the kernel may have still.
	oldest int
	// ready ends when a set is empty.
	ready context.Context
	end   context.CancelFunc
}

func (e *entry) want(known bool, set uint16) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted, e.known = append(e.wanted, set), known
	switch {
	case set == 0:
		e.end()
	case e.ready.Err() != nil:
		e.ready, e.end = context.WithCancel(context.Background())
	}
}

// since returns the endpoints that were wanted since the oldest of sets. always is true if there was one all the time.
func (e *entry) since(oldest int) (endpoints uint16, always bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	always = true
	for _, set := range e.wanted[oldest:] {
		endpoints, always = endpoints|set, always && set != 0
	}
	return endpoints, always
}

// now returns the oldest set that the kernel may have, and the context of connections that begin now.
func (e *entry) now() (oldest int, ready context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.oldest, e.ready
}

// current is what is wanted now.
func (e *entry) current() uint16 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wanted[len(e.wanted)-1]
}

func (e *entry) has(set uint16, endpoint netip.AddrPort) bool {
	for i := range nettest.EndpointCount {
		if set&(1<<i) != 0 && endpointOf(e.at, i) == endpoint {
			return true
		}
	}
	return false
}

// world is a network whose node runs the program, and what is wanted of that.
type world struct {
	*testing.T
	*nettest.Network
	*child
	random  *rand.Rand
	entries []*entry
	rows    map[string]*wish
	table   *kernel.Table // to look
	number  int

	answered, abandoned, refused atomic.Int64
}

func (w *world) Helper() { w.T.Helper() }

// connect connects to a service, and checks that an endpoint answers that was wanted meanwhile.
func (w *world) connect(e *entry) error {
	oldest, ready := e.now()
	if _, always := e.since(oldest); !always {
		w.abandoned.Add(1)
		return nil
	}
	g, err := nettest.Ask(ready, e.at.Protocol.String(), e.at.Address, netip.AddrPort{})
	endpoints, always := e.since(oldest)
	// The port may be that of an older flow, which conntrack forgets beside the rounds.
	for deadline := time.Now().Add(nettest.Limit); e.at.Protocol == kernel.UDP && err == nil && !e.has(endpoints, g.Endpoint) && time.Now().Before(deadline); {
		g, err = nettest.Ask(ready, e.at.Protocol.String(), e.at.Address, netip.AddrPort{})
		endpoints, always = e.since(oldest)
	}
	switch {
	case err != nil && !always:
		w.abandoned.Add(1)
	case err != nil:
		return fmt.Errorf("%s has had an endpoint all the time, after %d others: %w", e.name, w.answered.Load(), err)
	case !e.has(endpoints, g.Endpoint):
		return fmt.Errorf("%s answers from %s, which was not wanted: the sets were %b", e.name, g.Endpoint, e.wanted[oldest:])
	default:
		w.answered.Add(1)
	}
	return nil
}

// change makes a random change.
func (w *world) change() message {
	e := w.entries[w.random.IntN(len(w.entries))]
	set, known := e.current(), true
	switch kind := w.random.IntN(8); {
	case kind < 4: // another number of endpoints, by one
		if bit := uint16(1) << w.random.IntN(nettest.EndpointCount); w.random.IntN(2) == 0 {
			set |= bit
		} else {
			set &^= bit
		}
	case kind < 6:
		set = uint16(w.random.IntN(1 << nettest.EndpointCount))
	case kind < 7 && !e.steady:
		set = 0
	case !e.steady:
		set, known = 0, false
	}
	if e.steady && set == 0 {
		set = 1 << w.random.IntN(nettest.EndpointCount)
	}
	return w.want(e, known, set)
}

// want returns the message that makes a service have these endpoints, if it is to be known.
func (w *world) want(e *entry, known bool, set uint16) message {
	e.want(known, set)
	if !known {
		delete(w.rows, e.name)
		return message{Gone: []string{e.name}}
	}
	row := &wish{Name: e.name, At: e.at}
	for i := range nettest.EndpointCount {
		// One that is not ready is listed, or not.
		if ready := set&(1<<i) != 0; ready || w.random.IntN(2) == 0 {
			row.Endpoints = append(row.Endpoints, wished{endpointOf(e.at, i), ready})
		}
	}
	w.rows[e.name] = row
	return message{Rows: []*wish{row}}
}

// restart starts the program with everything that is wanted now.
func (w *world) restart() {
	w.child = startChild(w.T, w.Node)
	m := message{}
	for _, row := range w.rows {
		m.Rows = append(m.Rows, row)
	}
	w.child.send(m)
}

// settle waits until the kernel has what is wanted now.
func (w *world) settle() {
	w.T.Helper()
	newest := map[*entry]int{}
	for _, e := range w.entries {
		newest[e] = len(e.wanted) - 1
	}
	w.number++
	w.child.send(message{Number: w.number})
	w.child.applied(w.number)
	for e, i := range newest {
		e.mu.Lock()
		e.oldest = i
		e.mu.Unlock()
	}
}

// check waits until the kernel has what is wanted and no more: no wait covers what is left of an earlier process.
func (w *world) check() {
	w.T.Helper()
	want := kernel.Listing{Counts: map[kernel.Service]int{}, Slots: map[kernel.Slot]netip.AddrPort{}}
	for _, row := range w.rows {
		want.Counts[row.At] = len(row.ready())
		for i, endpoint := range row.ready() {
			want.Slots[kernel.Slot{Service: row.At, Number: i}] = endpoint
		}
	}
	for deadline := time.Now().Add(nettest.Limit); ; time.Sleep(time.Millisecond) {
		l, err := w.table.List()
		require.NoError(w.T, err)
		if has := dumpOf(l); maps.Equal(dumpOf(want), has) || time.Now().After(deadline) {
			require.Equal(w.T, dumpOf(want), has)
			return
		}
	}
}

// checkRefused connects to the services without endpoints.
func (w *world) checkRefused() {
	w.T.Helper()
	for _, e := range w.entries {
		if e.known && e.current() == 0 {
			w.Client.Do(func() error {
				_, err := nettest.Ask(context.Background(), e.at.Protocol.String(), e.at.Address, netip.AddrPort{})
				assert.ErrorIs(w.T, err, unix.ECONNREFUSED, e.name)
				return nil
			})
			w.refused.Add(1)
		}
	}
}

// dialFrom connects from the client, until the test ends.
func (w *world) dialFrom(at kernel.Service, from netip.AddrPort) (conn net.Conn) {
	w.Client.Do(func() (err error) {
		conn, err = nettest.Dial(context.Background(), at.Protocol.String(), at.Address, from)
		return err
	})
	w.Cleanup(func() { require.NoError(w.T, conn.Close()) })
	return conn
}

func newWorld(t *testing.T) *world {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &world{T: t, Network: nettest.NewNetwork(t), random: rand.New(rand.NewPCG(seed, 0)), rows: map[string]*wish{}}
	w.table = openTable(t, w.Node)
	for i := range 12 {
		at := kernel.Service{Protocol: []kernel.Protocol{kernel.TCP, kernel.UDP}[i%2],
			Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 1, byte(i)}), 80)}
		if i%4 >= 2 {
			at = twin(at)
		}
		e := &entry{name: fmt.Sprintf("service-%d", i), at: at, steady: i < 6}
		e.ready, e.end = context.WithCancel(context.Background())
		if e.want(e.steady, 0); e.steady {
			e.want(true, 1)
			w.rows[e.name] = service(e.name, at, 0)
		}
		w.entries = append(w.entries, e)
	}
	return w
}

// open opens the table in a namespace.
func open(at *nettest.Place) (table *kernel.Table, err error) {
	err = at.Try(func() (err error) {
		table, err = kernel.Open("services")
		return err
	})
	return table, err
}

func openTable(t testing.TB, at *nettest.Place) *kernel.Table {
	table, err := open(at)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	return table
}

func TestNoConnectionIsLostWhateverHappens(t *testing.T) {
	const kills, changes = 20, 10_000
	w := newWorld(t)
	echo := kernel.Service{Protocol: kernel.TCP, Address: netip.MustParseAddrPort("10.96.2.1:7")}
	w.rows["echo"] = &wish{Name: "echo", At: echo, Endpoints: []wished{{nettest.Echo, true}}}
	foreign := newForeign(t, w.Node)
	before := foreign.dump()
	w.restart()
	w.settle()
	w.check()
	kept := w.dialFrom(echo, netip.AddrPort{})
	udp := w.entries[1]
	fixed := w.dialFrom(udp.at, netip.MustParseAddrPort(nettest.ClientAddress+":5353"))

	var stop atomic.Bool
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop.Store(true)
	for i, place := range []*nettest.Place{w.Client, w.Client, w.Node} {
		random := rand.New(rand.NewPCG(w.random.Uint64(), uint64(i)))
		clients.Go(func() {
			assert.NoError(t, place.Try(func() error {
				for !stop.Load() {
					if err := w.connect(w.entries[random.IntN(len(w.entries))]); err != nil {
						return err
					}
					// Some of the processors are for those who are tested.
					time.Sleep(2 * time.Millisecond)
				}
				return nil
			}))
		})
	}

	for round := range kills {
		killed := w.random.IntN(changes / kills)
		for i := range changes / kills {
			w.child.send(w.change())
			switch {
			case i == killed:
				w.child.kill()
				w.restart()
			case w.random.IntN(10) == 0:
				w.settle()
			}
			require.False(t, t.Failed(), "a client has failed in round %d", round)
		}
		w.child.send(w.want(w.entries[10], true, 0))
		w.child.send(w.want(w.entries[11], true, 0))
		w.settle()
		w.check()
		w.checkRefused()

		// Conntrack forgets beside the rounds.
		for deadline := time.Now().Add(nettest.Limit); ; time.Sleep(time.Millisecond) {
			require.NoError(t, fixed.SetDeadline(deadline))
			g, err := nettest.Exchange(fixed)
			require.NoError(t, err, "the client with a fixed port leaves an endpoint that is gone")
			if udp.has(udp.current(), g.Endpoint) {
				break
			}
		}

		generation := w.Node.Generation()
		w.child.kill()
		w.restart()
		w.settle()
		assert.Equal(t, generation, w.Node.Generation(), "an equal kernel gets no write")

		require.NoError(t, kept.SetDeadline(time.Now().Add(nettest.Limit)))
		_, err := kept.Write([]byte("hello"))
		require.NoError(t, err)
		_, err = kept.Read(make([]byte, 10))
		require.NoError(t, err)
	}
	stop.Store(true)
	clients.Wait()
	assert.Equal(t, before, foreign.dump())
	t.Logf("%d connections, %d abandoned, %d to services that refuse", w.answered.Load(), w.abandoned.Load(), w.refused.Load())
	assert.Greater(t, w.answered.Load(), int64(1000))
	assert.GreaterOrEqual(t, w.refused.Load(), int64(2*kills))
}
