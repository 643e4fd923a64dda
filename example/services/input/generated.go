// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package input

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/proxy"
	"github.com/statekeel/statekeel/reconciler/source"
)

// Generated are services that are made up, all with the same number of endpoints. Churn is how many endpoints are
// replaced in a second, each by a new one. The endpoints are the same each time.
type Generated struct{ Services, Endpoints, Churn int }

// ParseGenerated returns services of a size as in 10000x10: services x endpoints of each.
func ParseGenerated(size string, churn int) (g Generated, err error) {
	g.Churn = churn
	_, err = fmt.Sscanf(size, "%dx%d", &g.Services, &g.Endpoints)
	switch {
	case err != nil || size != fmt.Sprintf("%dx%d", g.Services, g.Endpoints):
		err = fmt.Errorf("%q is not of the form 10000x10", size)
	case g.Services < 1 || g.Services > maxServices || g.Endpoints < 0 || g.Endpoints > maxEndpoints:
		err = fmt.Errorf("%q: at most %d services of %d endpoints, and at least one service", size, maxServices, maxEndpoints)
	case g.Churn < 0 || g.Churn > int(time.Second):
		err = fmt.Errorf("a churn of %d changes in a second, must be from 0 to a billion", g.Churn)
	case g.Churn > 0 && g.Endpoints == 0:
		err = errors.New("a churn needs endpoints")
	}
	return g, err
}

// The addresses of services and of endpoints have room for these numbers.
const (
	maxServices  = 1 << 16
	maxEndpoints = 100
)

var (
	serviceNet  = netip.MustParseAddr("10.96.0.0")
	endpointNet = netip.MustParseAddr("10.128.0.0")
	endpointNum = uint32(1 << 23) // up to 10.255.255.255
)

// numbered returns the nth address after another.
func numbered(first netip.Addr, n uint32) netip.Addr {
	addr := first.As4()
	binary.BigEndian.PutUint32(addr[:], binary.BigEndian.Uint32(addr[:])+n)
	return netip.AddrFrom4(addr)
}

// made are the rows that were made so far.
type made struct {
	Generated
	services []*proxy.Service
	slices   []*proxy.EndpointSlice
	next     uint32 // the number of the next endpoint
	random   *rand.Rand
}

func (g Generated) make() *made {
	m := &made{Generated: g, random: rand.New(rand.NewPCG(1, 2))}
	for i := range g.Services {
		s := &proxy.Service{
			Name: fmt.Sprintf("default/service-%05d", i), Created: time.Unix(int64(i), 0).UTC(),
			Addresses: []netip.Addr{numbered(serviceNet, uint32(i+1))}, Ports: []proxy.Port{{Name: "http", Protocol: kernel.TCP, Number: 80}},
		}
		of := &proxy.EndpointSlice{
			Name: s.Name + "-1", Service: s.Name, Ports: []proxy.Port{{Name: "http", Protocol: kernel.TCP, Number: 8080}},
		}
		for range g.Endpoints {
			of.Endpoints = append(of.Endpoints, m.endpoint())
		}
		m.services, m.slices = append(m.services, s), append(m.slices, of)
	}
	return m
}

func (m *made) endpoint() proxy.Endpoint {
	addr := numbered(endpointNet, m.next%endpointNum)
	m.next++
	return proxy.Endpoint{Address: addr, Ready: true, Serving: true}
}

// change replaces an endpoint of a slice by a new one, and returns the new slice: rows do not change.
func (m *made) change() *proxy.EndpointSlice {
	i := m.random.IntN(len(m.slices))
	s := *m.slices[i]
	s.Endpoints = slices.Clone(s.Endpoints)
	s.Endpoints[m.random.IntN(len(s.Endpoints))] = m.endpoint()
	m.slices[i] = &s
	return &s
}

func (g Generated) name() string { return "generated" }
func (g Generated) apart() bool  { return false }

func (g Generated) job(
	toServices *source.Sink[*proxy.Service], toSlices *source.Sink[*proxy.EndpointSlice], _ *slog.Logger,
) (func(context.Context) error, error) {
	return func(ctx context.Context) error {
		m, at := g.make(), uint64(1)
		if _, err := toSlices.Replace(ctx, m.slices, at); err != nil {
			return err
		}
		if _, err := toServices.Replace(ctx, m.services, at); err != nil || g.Churn == 0 {
			return err
		}
		// A tick that is late is left out: a slow machine gets fewer changes, and no burst.
		ticker := time.NewTicker(time.Second / time.Duration(g.Churn))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			at++
			if _, err := toSlices.Apply(ctx, []source.Change[*proxy.EndpointSlice]{{Object: m.change()}}, at); err != nil {
				return err
			}
		}
	}, nil
}
