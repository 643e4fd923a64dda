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

func TestWorkload(t *testing.T) {
	shape := Shape{Services: 7, Endpoints: 5}
	w, same := NewWorkload(shape), NewWorkload(shape)
	seen := make(map[netip.AddrPort]bool)
	for i := range shape.Services {
		s := w.Service(i)
		if len(s.Endpoints) != 5 {
			t.Errorf("service %d has %d endpoints", i, len(s.Endpoints))
		}
		if serial, ok := serviceSerial(netip.AddrPortFrom(s.Addr, s.Port)); !ok || serial != int32(i) {
			t.Errorf("the address of service %d is that of %d, %v", i, serial, ok)
		}
		for _, e := range s.Endpoints {
			if seen[e] {
				t.Errorf("two services have the endpoint %v", e)
			}
			seen[e] = true
		}
	}
	changed := make(map[int32]bool)
	for n := range 2 * 35 {
		before := make([]Service, shape.Services)
		for i := range before {
			before[i] = w.Service(i)
		}
		service, removed, added := w.Change()
		if s, r, a := same.Change(); s != service || r != removed || a != added {
			t.Fatalf("change %d is not the same in another workload", n)
		}
		if n < 35 && (changed[removed] || removed >= 35) {
			t.Errorf("change %d visits an endpoint again before all others", n)
		}
		changed[removed] = true
		for i := range before {
			after := w.Service(i).Endpoints
			if i != service && !slices.Equal(after, before[i].Endpoints) {
				t.Errorf("change %d of service %d changes service %d", n, service, i)
			}
			for slot, e := range after {
				old := before[i].Endpoints[slot]
				if e == old {
					continue
				}
				gone, _ := endpointSerial(old)
				if serial, ok := endpointSerial(e); !ok || serial != added || gone != removed || seen[e] {
					t.Errorf("change %d makes %v of %v", n, e, old)
				}
				seen[e] = true
			}
		}
	}
	if len(seen) != 35+2*35 {
		t.Errorf("there were %d endpoints", len(seen))
	}
	for _, a := range []string{"10.128.0.0:80", "10.96.0.0:80", "9.0.0.1:8080", "11.0.0.0:8080", "[::1]:8080"} {
		_, endpoint := endpointSerial(netip.MustParseAddrPort(a))
		_, service := serviceSerial(netip.MustParseAddrPort(a))
		if endpoint || service {
			t.Errorf("%s is of the workload", a)
		}
	}
}

func TestQuantileIsTheNearestRank(t *testing.T) {
	var times []time.Duration
	for i := 200; i > 0; i-- {
		times = append(times, time.Duration(i))
	}
	for share, want := range map[float64]time.Duration{0.5: 100, 0.99: 198, 1: 200} {
		if got := quantile(times, share); got != want {
			t.Errorf("quantile %v is %d, want %d", share, got, want)
		}
	}
	if got := quantile(times[:1], 0.5); got != 1 {
		t.Errorf("the median of one is %d", got)
	}
}
