// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cilium/hive/cell"

	"github.com/statekeel/statekeel/example/services/kernel"
)

// stale are the flows that conntrack must forget. They are searched beside the rounds: among 100,000 flows, that takes 22 to
// 370 ms.
type stale struct {
	mu    sync.Mutex
	flows map[kernel.Flow]bool
	// unfit also has all flows that do not fit to what the kernel has.
	unfit bool
	// due has a value if there are any.
	due chan struct{}
}

func newStale() *stale { return &stale{flows: map[kernel.Flow]bool{}, due: make(chan struct{}, 1)} }

// add adds flows, and with unfit all that do not fit to what the kernel has.
func (s *stale) add(unfit bool, flows ...kernel.Flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, flow := range flows {
		s.flows[flow] = true
	}
	if s.unfit = s.unfit || unfit; len(s.flows) > 0 || s.unfit {
		select {
		case s.due <- struct{}{}:
		default:
		}
	}
}

// take returns them, and leaves none.
func (s *stale) take() (flows map[kernel.Flow]bool, unfit bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	flows, unfit = s.flows, s.unfit
	s.flows, s.unfit = map[kernel.Flow]bool{}, false
	return flows, unfit
}

// flowsOf returns the flows that conntrack has to forget after a change: those to endpoints that are gone, and those that
// were not translated because there was no endpoint. Of TCP, it forgets those that were not answered.
func flowsOf(at kernel.Service, from, to slots) (flows []kernel.Flow) {
	if from.count <= 0 || to.count <= 0 {
		return []kernel.Flow{{Service: at}} // an earlier process may have left some, too
	}
	for _, endpoint := range from.endpoints {
		if endpoint.IsValid() && !slices.Contains(to.endpoints, endpoint) {
			flows = append(flows, kernel.Flow{Service: at, Endpoint: endpoint})
		}
	}
	return flows
}

// fits reports whether the kernel would send a flow where it goes.
func fits(flow kernel.Flow, have map[kernel.Service]slots) bool {
	s, known := have[flow.Service]
	return !known || s.count < 0 || slices.Contains(s.endpoints, flow.Endpoint) ||
		s.count == 0 && flow.Endpoint == flow.Service.Address
}

// keepForgetting has conntrack forget what is stale, until the context ends. It starts at once, and rests twice as long as
// that has taken, so that many changes share a search, or a second after a failure, which health tells.
func (o *operations) keepForgetting(ctx context.Context, health cell.Health) error {
	for {
		select {
		case <-o.stale.due:
		case <-ctx.Done():
			return nil
		}
		begin := time.Now()
		err := o.forget(ctx)
		rest := 2 * time.Since(begin)
		if err == nil {
			health.OK("conntrack has no old flows")
		} else {
			health.Degraded("conntrack has old flows", err)
			rest = time.Second
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return nil
		}
	}
}

// forget has conntrack forget what is stale. If that fails, it stays so.
func (o *operations) forget(ctx context.Context) (err error) {
	flows, unfit := o.stale.take()
	defer func() {
		if err != nil {
			o.stale.add(unfit, slices.Collect(maps.Keys(flows))...)
		}
	}()
	if err := o.lock(ctx); err != nil {
		return err
	}
	have := map[kernel.Service]slots{}
	if unfit {
		have = maps.Clone(o.have)
	} else {
		for flow := range flows {
			have[flow.Service] = o.of(flow.Service)
		}
	}
	o.unlock()
	// An endpoint may be back.
	maps.DeleteFunc(flows, func(flow kernel.Flow, _ bool) bool {
		return flow.Endpoint.IsValid() && slices.Contains(have[flow.Service].endpoints, flow.Endpoint)
	})
	if !unfit {
		return o.target.DeleteFlows(slices.Collect(maps.Keys(flows))...)
	}
	return o.target.DeleteFlowsIf(func(flow kernel.Flow) bool {
		return flows[flow] || flows[kernel.Flow{Service: flow.Service}] || !fits(flow, have)
	})
}
