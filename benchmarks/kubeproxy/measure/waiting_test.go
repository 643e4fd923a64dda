// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestWaitingForReplacedEndpoints(t *testing.T) {
	w := newWaiting(Shape{Services: 1, Endpoints: 2})
	at := func(ms int) time.Time { return w.zero.Add(time.Duration(ms) * time.Millisecond) }
	saw := func(serial int32, ms int) {
		w.sawEndpoint(netip.AddrPortFrom(addrOf(firstEndpoint, serial), endpointPort), at(ms))
	}
	want := func(ms ...int) {
		t.Helper()
		var times []time.Duration
		for _, m := range ms {
			times = append(times, time.Duration(m)*time.Millisecond)
		}
		if got := w.take(); !slices.Equal(got, times) {
			t.Errorf("waited %v, want %v", got, times)
		}
	}
	done := func() bool {
		select {
		case <-w.none:
			return true
		default:
			return false
		}
	}
	if !done() {
		t.Error("it waits for something before the start")
	}

	w.endpoint(2, 0, at(10))
	w.endpoint(3, 1, at(20))
	if done() {
		t.Error("it waits for nothing")
	}
	saw(1, 25) // which does not wait
	saw(3, 30)
	want(10)
	// The endpoint after the next one is the first that the kernel gets.
	w.endpoint(4, 2, at(40))
	w.endpoint(5, 4, at(50))
	saw(5, 60)
	want(10, 20, 50)
	if !done() {
		t.Error("it waits for an endpoint that was replaced")
	}
	saw(5, 70)
	saw(4, 70)
	want()

	w.endpoint(6, 5, at(80))
	if done() {
		t.Error("it waits for nothing again")
	}
	saw(6, 90)
	want(10)
	if last, err := w.wait(t.Context(), time.Minute); err != nil || !last.Equal(at(90)) {
		t.Errorf("the last was seen at %v, %v", last.Sub(w.zero), err)
	}
}
