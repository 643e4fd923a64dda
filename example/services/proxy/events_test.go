// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/services/kernel"
)

// wild is a fake kernel that fails at random, and whose table and chains somebody else deletes.
type wild struct {
	*fake
	random *rand.Rand

	mu    sync.Mutex
	fails bool
	gone  bool         // the table
	drawn map[int]bool // the chains that are gone
}

// chance is true now and then, while the kernel fails.
func (w *wild) chance() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fails && w.random.IntN(8) == 0
}

// lookUp returns why the kernel refuses a batch for what somebody else has deleted. Chains are written again.
func (w *wild) lookUp(b *kernel.Batch) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return unix.ENOENT
	}
	for service, n := range b.Counts {
		if w.drawn[n] {
			err = errors.Join(err, &kernel.ElementError{Service: service, Slot: -1, Err: unix.ENOENT})
		}
	}
	clear(w.drawn)
	return err
}

// life is the kernel for one program, which is killed after a number of calls, unless that is negative.
type life struct {
	*wild
	mu    sync.Mutex
	calls int
}

func (l *life) end(calls int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = calls
}

func (l *life) call(f func() error) error {
	l.mu.Lock()
	left := l.calls
	l.calls = max(left-1, min(left, 0))
	l.mu.Unlock()
	if left == 0 {
		return errors.New("the program was killed")
	}
	time.Sleep(time.Millisecond)
	if l.chance() {
		return unix.ENOMEM
	}
	err := f()
	if err == nil && l.chance() {
		return unix.ENOBUFS // the answer is lost
	}
	return err
}

func (l *life) Commit(b *kernel.Batch) error {
	defer clear(b.Slots)
	defer clear(b.Counts)
	if len(b.Slots)+len(b.Counts) == 0 {
		return nil
	}
	return l.call(func() error {
		err := cmp.Or(l.check(b), l.lookUp(b))
		if err == nil {
			l.commit(b)
		}
		return err
	})
}

func (l *life) List() (listing kernel.Listing, err error) {
	err = l.call(func() error {
		l.wild.mu.Lock()
		defer l.wild.mu.Unlock()
		l.gone, listing = false, l.list()
		return nil
	})
	return listing, err
}

func (l *life) DeleteFlows(flows ...kernel.Flow) error {
	return l.DeleteFlowsIf(among(flows))
}

func (l *life) DeleteFlowsIf(stale func(kernel.Flow) bool) error {
	return l.call(func() error { l.deleteFlowsIf(stale); return nil })
}

// events makes random events of rows, programs and others.
type events struct {
	*testing.T
	*program
	*life
	random *rand.Rand
	rows   map[string]*wish
	// quietly: somebody else also changes what only a resync finds.
	quietly bool
}

// dnsToo is an address of one more service.
var dnsToo = kernel.Service{Protocol: kernel.UDP, Address: netip.MustParseAddrPort("10.96.0.3:53")}

// six is an address of IPv6.
var six = kernel.Service{Protocol: kernel.TCP, Address: netip.MustParseAddrPort("[fd00::1]:80")}

var addresses = []kernel.Service{web, dns, admin, dnsToo}

func (e *events) row() *wish {
	created := []time.Time{{}, time.Unix(0, 0), time.Unix(100, 0), time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)}
	s := &wish{
		Name: fmt.Sprintf("service-%d", e.random.IntN(8)),
		At:   addresses[e.random.IntN(len(addresses))], Created: created[e.random.IntN(len(created))],
	}
	for range e.random.IntN(6) {
		s.Endpoints = append(s.Endpoints, wished{endpointAt(e.random.IntN(6)), e.random.IntN(5) > 0})
	}
	if e.random.IntN(10) == 0 { // an address that the kernel cannot have
		s.At = six
		s.Endpoints = append(s.Endpoints, wished{netip.MustParseAddrPort("[fd00::2]:8080"), true})
	}
	return s
}

// change makes up to n changes of rows, and returns a message with them.
func (e *events) change(n int) (m message) {
	changed := map[string]bool{}
	for range n {
		s := e.row()
		switch {
		case changed[s.Name]:
		case e.random.IntN(3) == 0:
			delete(e.rows, s.Name)
			m.Gone = append(m.Gone, s.Name)
		default:
			e.rows[s.Name] = s
			m.Rows = append(m.Rows, s)
		}
		changed[s.Name] = true
	}
	return m
}

func (e *events) start() {
	e.life = &life{wild: e.wild, calls: -1}
	var err error
	e.program, err = startedProgram(context.Background(), e.life)
	require.NoError(e, err)
	m := message{}
	for _, s := range e.rows {
		m.Rows = append(m.Rows, s)
	}
	require.NoError(e, e.write(m))
}

func (e *events) stop() { require.NoError(e, e.Stop(quiet, context.Background())) }

func (e *events) edit() {
	at := addresses[e.random.IntN(len(addresses))]
	switch e.random.IntN(4) {
	case 0:
		delete(e.counts, at)
	case 1:
		delete(e.slots, kernel.Slot{Service: at, Number: e.random.IntN(3)})
	case 2:
		e.slots[kernel.Slot{Service: at, Number: e.random.IntN(5)}] = elsewhere
	case 3:
		e.counts[at] = e.random.IntN(6) - 1
	}
}

func (e *events) event() {
	switch kind := e.random.IntN(16); {
	case kind < 6:
		require.NoError(e, e.write(e.change(1+e.random.IntN(4))))
	case kind == 6:
		e.wild.mu.Lock()
		e.fails = !e.fails
		e.wild.mu.Unlock()
	case kind == 7:
		e.wild.mu.Lock()
		e.outside(func() { clear(e.slots); clear(e.counts) })
		e.gone = true
		e.wild.mu.Unlock()
	case kind == 8:
		e.wild.mu.Lock()
		e.drawn[1+e.random.IntN(5)] = true
		e.wild.mu.Unlock()
	case kind == 9:
		e.loop.Resync()
	case kind == 10:
		if e.quietly {
			e.outside(e.edit)
		}
	case kind == 11:
		e.end(e.random.IntN(4))
		time.Sleep(time.Duration(e.random.IntN(2000)) * time.Millisecond)
		e.end(0)
		e.stop()
		e.change(e.random.IntN(3))
		e.start()
	case kind == 12: // a packet that was not translated
		e.outside(func() {
			for at, to := range e.flows {
				if !to.IsValid() {
					e.flows[at] = at.Address
				}
			}
		})
	default:
		times := []time.Duration{time.Millisecond, 5 * time.Millisecond, 100 * time.Millisecond, time.Second, 40 * time.Second}
		time.Sleep(times[e.random.IntN(len(times))])
	}
}

// wanted returns what the kernel should have.
func (e *events) wanted() map[string]string {
	best := map[kernel.Service]*wish{}
	for _, s := range e.rows {
		if b := best[s.At]; b == nil || cmp.Or(s.Created.Compare(b.Created), cmp.Compare(s.Name, b.Name)) < 0 {
			best[s.At] = s
		}
	}
	want := kernel.Listing{Counts: map[kernel.Service]int{}, Slots: map[kernel.Slot]netip.AddrPort{}}
	for at, s := range best {
		want.Counts[at] = len(s.ready())
		for i, endpoint := range s.ready() {
			want.Slots[kernel.Slot{Service: at, Number: i}] = endpoint
		}
	}
	return dumpOf(want)
}

// settle ends the failures, and mends the rows that the kernel cannot have.
func (e *events) settle() {
	e.wild.mu.Lock()
	e.fails = false
	e.wild.mu.Unlock()
	m := message{Rows: []*wish{service("last", orphan, 0)}} // a change, which finds out what a change can
	for name, s := range e.rows {
		if s.At == six {
			m.Rows = append(m.Rows, service(name, dnsToo, 5))
			m.Rows[len(m.Rows)-1].Created = s.Created
		}
	}
	for _, s := range m.Rows {
		e.rows[s.Name] = s
	}
	require.NoError(e, e.write(m))
	time.Sleep(10 * time.Minute)
	if e.quietly {
		e.loop.Resync()
		time.Sleep(10 * time.Minute)
	}
}

// The kernel ends with what the rows want, also the flows of clients with fixed ports: after all failures, deletions and
// edits of others, and kills of the program. Unless somebody else has edited quietly, that takes no resync that the program
// does not ask for itself.
func TestKernelEndsWithWhatIsWanted(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				e := &events{T: t, random: random, rows: map[string]*wish{}, quietly: random.IntN(2) == 0}
				e.life = &life{wild: &wild{fake: newFake(), random: rand.New(rand.NewPCG(seed, 1)), drawn: map[int]bool{}}}
				e.most = []int{0, 8, 20}[random.IntN(3)]
				e.start()
				defer func() { e.stop() }()
				for range 5 + random.IntN(30) {
					e.event()
				}
				e.settle()
				require.Equal(t, e.wanted(), e.dump())
				rest, err := e.wait(t.Context())
				require.NoError(t, err)
				require.Empty(t, rest.Keys)
			})
		})
	}
}
