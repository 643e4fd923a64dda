// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// watched is a table that an nft of somebody else changes.
type watched struct {
	*testing.T
	*Table
	at place
}

func newWatched(t *testing.T) *watched {
	at := newPlace(t)
	w := &watched{t, openIn(t, at), at}
	b := NewBatch()
	w.fill(b, web)
	w.fill(b, twin(web))
	require.NoError(t, w.Commit(b))
	return w
}

// fill gives a service three endpoints.
func (w *watched) fill(b *Batch, service Service) {
	b.SetCount(service, 3)
	for i := range 3 {
		b.SetSlot(Slot{service, i}, netip.AddrPortFrom(service.Address.Addr(), uint16(8080+i)))
	}
}

// changes returns what others have changed. It ends in any case, by a change of the set same.
func (w *watched) changes() (c Changes) {
	w.Helper()
	require.NoError(w, w.at.Nft("flush set ip services same"))
	for !c.Rules {
		more, err := w.Changed(w.Context())
		require.NoError(w, err)
		c.By, c.Slots = more.By, append(c.Slots, more.Slots...)
		c.Rules, c.More = more.Rules, c.More || more.More
	}
	_, err := w.Repair()
	require.NoError(w, err)
	return c
}

func TestOwnTransactionsAreNoChanges(t *testing.T) {
	w := newWatched(t)
	for i := range 20 {
		b := NewBatch()
		for j := range 500 { // more than a socket's buffer has room for
			w.fill(b, Service{TCP, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 97, byte(i), byte(j)}), uint16(j))})
		}
		require.NoError(t, w.Commit(b))
	}
	wrote, err := w.Repair()
	require.NoError(t, err)
	require.False(t, wrote)
	_, err = w.List()
	require.NoError(t, err)
	c := w.changes()
	assert.Empty(t, c.Slots)
	assert.False(t, c.More)
	assert.Equal(t, "nft", c.By)
}

func TestChangesOfOthersAreNamed(t *testing.T) {
	w := newWatched(t)
	slot := func(n int) Slot { return Slot{web, n} }
	for script, want := range map[string]Changes{
		"delete element ip services endpoints { tcp . 10.96.0.1 . 80 . 1 }":                      {Slots: []Slot{slot(1)}},
		"add element ip services endpoints { tcp . 10.96.0.1 . 80 . 7 : 10.2.0.1 . 1 }":          {Slots: []Slot{slot(7)}},
		"destroy element ip services endpoints { tcp . 10.96.0.1 . 80 . 2 }":                     {Slots: []Slot{slot(2)}},
		"delete element ip services services { tcp . 10.96.0.1 . 80 }":                           {Slots: []Slot{slot(-1)}},
		"add element ip services empty { tcp . 10.96.0.1 . 80 }":                                 {Slots: []Slot{slot(-1)}},
		"add element ip services empty { sctp . 10.96.0.1 . 80, 255 . 10.96.0.1 . 80 }":          {Slots: []Slot{{Service{unix.IPPROTO_SCTP, web.Address}, -1}, {Service{255, web.Address}, -1}}},
		"flush map ip services services":                                                         {},
		"add element ip services endpoints { tcp . 10.96.0.1 . 80 . 4294967295 : 10.2.0.1 . 1 }": {More: true},
		"add set ip services theirs { type ipv4_addr; }; delete set ip services theirs":          {},
		"add chain ip services theirs; add rule ip services theirs accept":                       {},
		"add table ip theirs; add chain ip theirs output; delete table ip theirs":                {},
		"add table inet services; add chain inet services output; delete table inet services":    {},
		"delete table ip6 services": {More: true},
		"flush chain ip services reject-input; flush chain ip services reject-forward":                  {},
		"delete element ip6 services services { tcp . " + twin(web).Address.Addr().String() + " . 80 }": {Slots: []Slot{{twin(web), -1}}},
	} {
		b := NewBatch()
		w.fill(b, web)
		w.fill(b, twin(web))
		require.NoError(t, w.Commit(b))
		w.changes()
		if err := w.at.Nft(script); strings.HasPrefix(script, "destroy") && err != nil {
			continue // an nft that does not know it
		} else {
			require.NoError(t, err, script)
		}
		c := w.changes()
		if strings.HasPrefix(script, "flush map") {
			assert.Contains(t, c.Slots, slot(-1), script)
			continue
		}
		assert.ElementsMatch(t, want.Slots, c.Slots, script)
		assert.Equal(t, want.More, c.More, script)
	}
}

func TestLostEventsAreChanges(t *testing.T) {
	w := newWatched(t)
	require.NoError(t, w.events.conn.SetReadBuffer(1))
	var script strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&script, "add element ip services empty { tcp . 10.98.%d.%d . 80 }\n", i/256, i%256)
	}
	require.NoError(t, w.at.Nft(script.String()))
	c, err := w.Changed(t.Context())
	require.NoError(t, err)
	for !c.More {
		c, err = w.Changed(t.Context())
		require.NoError(t, err)
	}
	assert.True(t, c.Rules)
	w.changes()
}

func TestWaitForChangesEndsWithItsContext(t *testing.T) {
	w := newWatched(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := w.Changed(ctx)
		ended <- err
	}()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	assert.True(t, w.changes().Rules, "and another one begins")
}

func TestGetIsAsListed(t *testing.T) {
	w := newWatched(t)
	for _, script := range []string{
		"add set ip services theirs { type ipv4_addr; }",
		"delete element ip services endpoints { tcp . 10.96.0.1 . 80 . 1 }",
		"add element ip services endpoints { tcp . 10.96.0.1 . 80 . 7 : 10.2.0.1 . 1 }",
		"add element ip services empty { tcp . 10.96.0.1 . 80 }",
		"delete element ip services services { tcp . 10.96.0.1 . 80 }",
		"delete element ip services empty { tcp . 10.96.0.1 . 80 }",
		"add element ip services services { tcp . 10.96.0.1 . 80 : drop }",
		"flush map ip services endpoints",
		"delete table ip services; delete table ip6 services",
	} {
		require.NoError(t, w.at.Nft(script), script)
		got, err := w.Get(web, 8)
		require.NoError(t, err, script)
		six, err := w.Get(twin(web), 0)
		require.NoError(t, err, script)
		all, err := w.List()
		require.NoError(t, err, script)
		for service, n := range six.Counts {
			got.Counts[service] = n
		}
		for slot, endpoint := range six.Slots {
			got.Slots[slot] = endpoint
		}
		assert.Equal(t, all, got, script)
	}
	many := NewBatch()
	many.SetCount(dns, 250)
	for i := range 250 {
		many.SetSlot(Slot{dns, i}, numberedEndpoint(i))
	}
	require.NoError(t, w.Commit(many))
	got, err := w.Get(dns, 0)
	require.NoError(t, err)
	assert.Len(t, got.Slots, 250)
}
