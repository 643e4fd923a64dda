// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// joining is a running join without a kernel.
type joining struct {
	*testing.T
	db        *statedb.DB
	services  statedb.RWTable[*Service]
	slices    statedb.RWTable[*EndpointSlice]
	frontends statedb.RWTable[*Frontend]
	join      *Join
}

func newJoining(t *testing.T) *joining {
	j := &joining{T: t, db: statedb.New()}
	var err error
	j.services, err = NewServices(j.db)
	require.NoError(t, err)
	j.slices, err = NewSlices(j.db)
	require.NoError(t, err)
	j.frontends, err = NewFrontends(j.db)
	require.NoError(t, err)
	j.join, err = Derive(derive.Config[*Frontend]{DB: j.db}, j.services, j.slices, j.frontends)
	require.NoError(t, err)
	t.Cleanup(j.join.Close)
	reconcilertest.Go(t, j.join.Run)
	return j
}

// change makes a change in one transaction, and waits until the frontends follow from it.
func (j *joining) change(change func(txn statedb.WriteTxn)) {
	j.Helper()
	txn := j.db.WriteTxn(j.services, j.slices)
	change(txn)
	txn.Commit()
	rest, err := j.join.WaitAll(j.Context(), reconciler.Applied)
	require.NoError(j, err)
	require.NoError(j, rest.Err())
}

func (j *joining) put(txn statedb.WriteTxn, s *Service, of ...*EndpointSlice) {
	_, _, err := j.services.Insert(txn, s)
	require.NoError(j, err)
	for _, slice := range of {
		_, _, err := j.slices.Insert(txn, slice)
		require.NoError(j, err)
	}
}

// has returns the frontends: a name and the endpoints by address.
func (j *joining) has() map[string]string {
	all := map[string]string{}
	for f := range j.frontends.All(j.db.ReadTxn()) {
		all[f.At.String()] = strings.TrimSuffix(f.Name()+" "+texts(f.Endpoints), " ")
	}
	return all
}

func TestTheOldestServiceHasTheAddress(t *testing.T) {
	j := newJoining(t)
	winner := func(change func(txn statedb.WriteTxn)) string {
		j.change(change)
		return j.has()[web.String()]
	}
	names := []string{"zero", "hastings", "epoch", "today-a", "today-b", "far"}
	created := []time.Time{
		{}, time.Date(1066, 10, 14, 0, 0, 0, 0, time.UTC), time.Unix(0, 0), time.Unix(1<<31, 0), time.Unix(1<<31, 0),
		time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	want := func(i int) string { return fmt.Sprintf("%s %s", names[i], endpointAt(i)) }
	for i := len(names) - 1; i >= 0; i-- {
		w := service(names[i], web, i)
		w.Created = created[i]
		require.Equal(t, want(i), winner(func(txn statedb.WriteTxn) { j.put(txn, w.service(), w.slices()...) }))
	}
	for i, name := range names[:len(names)-1] {
		gone := func(txn statedb.WriteTxn) { _, _, _ = j.services.Delete(txn, &Service{Name: name}) }
		require.Equal(t, want(i+1), winner(gone))
	}
}

// What kube-proxy does with the same objects.
func TestFrontendsHaveTheEndpointsThatKubeProxyTakes(t *testing.T) {
	addr := netip.MustParseAddr
	four, both := []netip.Addr{addr("10.96.0.1")}, []netip.Addr{addr("10.96.0.1"), addr("fd00::1")}
	http, dns := Port{"http", kernel.TCP, 80}, Port{"dns", kernel.UDP, 53}
	ready := func(addresses ...string) (all []Endpoint) {
		for _, a := range addresses {
			all = append(all, Endpoint{Address: addr(a), Ready: true, Serving: true})
		}
		return all
	}
	leaving := Endpoint{Address: addr("10.2.0.9"), Serving: true, Terminating: true}
	pods := []Port{{"http", kernel.TCP, 8080}}
	for name, c := range map[string]struct {
		service *Service
		slices  []*EndpointSlice
		want    map[string]string
	}{
		"several slices with other ports": {
			&Service{Addresses: four, Ports: []Port{http}},
			[]*EndpointSlice{{Ports: pods, Endpoints: ready("10.2.0.2", "10.2.0.1")}, {Ports: []Port{{"http", kernel.TCP, 9090}}, Endpoints: ready("10.2.0.1")}},
			map[string]string{"tcp/10.96.0.1:80": "web:http 10.2.0.1:8080 10.2.0.1:9090 10.2.0.2:8080"},
		},
		"an endpoint in two slices counts once, and is ready if one says so": {
			&Service{Addresses: four, Ports: []Port{http}},
			[]*EndpointSlice{{Ports: pods, Endpoints: ready("10.2.0.1")}, {Ports: pods, Endpoints: append(ready("10.2.0.1"), Endpoint{Address: addr("10.2.0.2")})}, {Ports: pods, Endpoints: ready("10.2.0.2")}},
			map[string]string{"tcp/10.96.0.1:80": "web:http 10.2.0.1:8080 10.2.0.2:8080"},
		},
		"ports by name and protocol": {
			&Service{Addresses: four, Ports: []Port{http, dns, {"dns", kernel.TCP, 53}, {"other", kernel.TCP, 8080}, {"", kernel.TCP, 1}}},
			[]*EndpointSlice{{Ports: append(pods, Port{"dns", kernel.UDP, 5353}, Port{"", kernel.UDP, 2}), Endpoints: ready("10.2.0.1")}},
			map[string]string{
				"tcp/10.96.0.1:80": "web:http 10.2.0.1:8080", "udp/10.96.0.1:53": "web:dns 10.2.0.1:5353",
				"tcp/10.96.0.1:53": "web:dns", "tcp/10.96.0.1:8080": "web:other", "tcp/10.96.0.1:1": "web",
			},
		},
		"two families": {
			&Service{Addresses: both, Ports: []Port{http}},
			[]*EndpointSlice{{Ports: pods, Endpoints: ready("10.2.0.1")}, {Ports: pods, Endpoints: ready("fd00::2", "fd00::3")}},
			map[string]string{"tcp/10.96.0.1:80": "web:http 10.2.0.1:8080", "tcp/[fd00::1]:80": "web:http [fd00::2]:8080 [fd00::3]:8080"},
		},
		"those that leave get nothing while one is ready": {
			&Service{Addresses: four, Ports: []Port{http}},
			[]*EndpointSlice{{Ports: pods, Endpoints: []Endpoint{leaving}}, {Ports: pods, Endpoints: ready("10.2.0.1")}},
			map[string]string{"tcp/10.96.0.1:80": "web:http 10.2.0.1:8080"},
		},
		"without a ready one those that serve while they terminate": {
			&Service{Addresses: both, Ports: []Port{http}},
			[]*EndpointSlice{
				{Ports: pods, Endpoints: []Endpoint{leaving, {Address: addr("10.2.0.8"), Terminating: true}, {Address: addr("10.2.0.7"), Serving: true}}},
				{Ports: pods, Endpoints: ready("fd00::2")}, // of another family
			},
			map[string]string{"tcp/10.96.0.1:80": "web:http 10.2.0.9:8080", "tcp/[fd00::1]:80": "web:http [fd00::2]:8080"},
		},
		"slices without ports, and without addresses": {
			&Service{Addresses: four, Ports: []Port{http}},
			[]*EndpointSlice{{Endpoints: ready("10.2.0.1")}, {Ports: pods, Endpoints: []Endpoint{{Ready: true}}}},
			map[string]string{"tcp/10.96.0.1:80": "web:http"},
		},
		"a service without an address": {
			&Service{Ports: []Port{http}}, []*EndpointSlice{{Ports: pods, Endpoints: ready("10.2.0.1")}}, map[string]string{},
		},
		"a slice of another service": {
			&Service{Addresses: four, Ports: []Port{http}},
			[]*EndpointSlice{{Service: "we", Ports: pods, Endpoints: ready("10.2.0.1")}, {Service: "web/x", Ports: pods, Endpoints: ready("10.2.0.2")}},
			map[string]string{"tcp/10.96.0.1:80": "web:http"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJoining(t)
			c.service.Name = "web"
			for i, s := range c.slices {
				s.Name, s.Service = fmt.Sprint("slice-", i), cmp.Or(s.Service, "web")
			}
			j.change(func(txn statedb.WriteTxn) { j.put(txn, c.service, c.slices...) })
			require.Equal(t, c.want, j.has())
		})
	}
}

// A restart reads the services before the slices. Clients of what the kernel has from before must not be rejected meanwhile,
// and nothing may be deleted.
func TestNothingIsDerivedBeforeAllIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		run := func(change func(p *program)) {
			p, err := startedProgram(t.Context(), f)
			require.NoError(t, err)
			change(p)
			time.Sleep(time.Hour)
			require.NoError(t, p.Stop(quiet, context.Background()))
		}
		m := message{Rows: []*wish{service("web", web, 0, 1), service("dns", dns, 2)}}
		run(func(p *program) { require.NoError(t, p.write(m)) })
		want, commits := f.list(), f.commits
		for i, only := range []string{"services", "slices"} {
			run(func(p *program) {
				write := []func(statedb.WriteTxn, message) error{p.writeServices, p.writeSlices}[i]
				require.NoError(t, p.commit(m, write))
				require.NoError(t, p.commit(m, func(txn statedb.WriteTxn, _ message) error { p.unread[i](txn); return nil }))
			})
			require.Equal(t, want, f.list(), "only the %s were read", only)
		}
		run(func(p *program) { require.NoError(t, p.write(m)) })
		require.Equal(t, commits, f.commits, "an equal kernel gets no write")
	})
}

// Random services and slices: what is derived is what a plain computation of kube-proxy's rules gives.
func TestJoinIsAsComputedFromAllRows(t *testing.T) {
	for range long.Times(20) {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			j := newJoining(t)
			for range 50 {
				j.change(func(txn statedb.WriteTxn) {
					for range 1 + random.IntN(4) {
						j.random(txn, random)
					}
				})
				require.Equal(t, j.computed(), j.has())
			}
		})
	}
}

var (
	randomNames     = []string{"a", "b", "c"}
	randomPorts     = []string{"", "x", "y"}
	randomProtocols = []kernel.Protocol{kernel.TCP, kernel.UDP}
)

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

func randomAddr(random *rand.Rand) netip.Addr {
	return netip.MustParseAddr(pick(random, "10.0.0.", "fd00::") + fmt.Sprint(1+random.IntN(3)))
}

// random changes a row.
func (j *joining) random(txn statedb.WriteTxn, random *rand.Rand) {
	name, ports := pick(random, randomNames...), []Port{}
	for _, i := range random.Perm(6)[:random.IntN(4)] {
		ports = append(ports, Port{randomPorts[i%3], randomProtocols[i%2], uint16(1 + i)})
	}
	slice := &EndpointSlice{Name: fmt.Sprint("slice-", random.IntN(6)), Service: name}
	for _, port := range ports {
		slice.Ports = append(slice.Ports, Port{port.Name, port.Protocol, port.Number + uint16(10*random.IntN(2))})
	}
	for range random.IntN(4) {
		is := random.IntN(8)
		slice.Endpoints = append(slice.Endpoints, Endpoint{randomAddr(random), is&1 != 0, is&2 != 0, is&4 != 0})
	}
	s := &Service{Name: name, Created: time.Unix(random.Int64N(2), 0), Ports: ports}
	for _, address := range []netip.Addr{randomAddr(random), randomAddr(random)} {
		if !slices.Contains(s.Addresses, address) && random.IntN(3) > 0 {
			s.Addresses = append(s.Addresses, address)
		}
	}
	switch random.IntN(6) {
	case 0:
		_, _, _ = j.services.Delete(txn, s)
	case 1:
		_, _, _ = j.slices.Delete(txn, slice)
	case 2:
		_, _, _ = j.services.Insert(txn, s)
	default:
		_, _, _ = j.slices.Insert(txn, slice)
	}
}

// computed returns what has should: for each address it looks at all rows.
func (j *joining) computed() map[string]string {
	txn, want := j.db.ReadTxn(), map[string]string{}
	services := statedb.Collect(j.services.All(txn))
	slices.SortFunc(services, func(a, b *Service) int { // the winner is last
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.Name, a.Name))
	})
	for _, s := range services {
		for _, address := range s.Addresses {
			for _, port := range s.Ports {
				all, leaving := map[netip.AddrPort]bool{}, map[netip.AddrPort]bool{}
				for slice := range j.slices.All(txn) {
					for _, e := range slice.Endpoints {
						n := slices.IndexFunc(slice.Ports, func(p Port) bool { return p.Name == port.Name && p.Protocol == port.Protocol })
						if slice.Service != s.Name || n < 0 || e.Address.Is4() != address.Is4() {
							continue
						}
						at := netip.AddrPortFrom(e.Address, slice.Ports[n].Number)
						all[at] = all[at] || e.Ready
						leaving[at] = leaving[at] || e.Serving && e.Terminating
					}
				}
				takes := all
				if !slices.Contains(slices.Collect(maps.Values(all)), true) {
					takes = leaving
				}
				maps.DeleteFunc(takes, func(_ netip.AddrPort, takes bool) bool { return !takes })
				name := strings.TrimSuffix(s.Name+":"+port.Name, ":")
				endpoints := slices.SortedFunc(maps.Keys(takes), netip.AddrPort.Compare)
				want[fmt.Sprintf("%s/%s", port.Protocol, netip.AddrPortFrom(address, port.Number))] = strings.TrimSuffix(name+" "+texts(endpoints), " ")
			}
		}
	}
	return want
}
