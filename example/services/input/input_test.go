// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package input

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/statekeel/statekeel/example/internal/health"
	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/proxy"
	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is a hive with an input alone.
type program struct {
	*testing.T
	db       *statedb.DB
	services statedb.RWTable[*proxy.Service]
	slices   statedb.RWTable[*proxy.EndpointSlice]
	health   *health.Registry
	log      *testlog.Buffer
}

// start starts an input, until the test ends.
func start(t *testing.T, in Input) *program {
	p := &program{T: t, log: &testlog.Buffer{}}
	log := slog.New(slog.NewTextHandler(p.log, nil))
	h := hive.New(statedb.Cell, job.Cell, inspect.Cell, cell.Provide(health.New, proxy.NewServices, proxy.NewSlices), Cell(in),
		cell.Invoke(func(
			db *statedb.DB, services statedb.RWTable[*proxy.Service], slices statedb.RWTable[*proxy.EndpointSlice], registry *health.Registry,
		) {
			p.db, p.services, p.slices, p.health = db, services, slices, registry
			assert.Empty(t, p.initialized(), "a reconciler would prune before the first list")
		}))
	require.NoError(t, h.Start(log, t.Context()))
	t.Cleanup(func() { require.NoError(t, h.Stop(log, context.Background())) })
	return p
}

// names returns the names of the services, and of their slices.
func (p *program) names() string {
	var names []string
	for s := range p.services.All(p.db.ReadTxn()) {
		names = append(names, s.Name)
	}
	for s := range p.slices.All(p.db.ReadTxn()) {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

// initialized returns the names of the tables that are.
func (p *program) initialized() (names []string) {
	for _, table := range []statedb.TableMeta{p.services, p.slices} {
		if is, _ := table.Initialized(p.db.ReadTxn()); is {
			names = append(names, table.Name())
		}
	}
	return names
}

// until waits for events whose time depends on the kernel.
func (p *program) until(what string, condition func() bool) {
	p.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		require.True(p, time.Now().Before(deadline), "timed out waiting until %s; services: %s\n%s", what, p.names(), p.log)
	}
}

const (
	web = "  - {name: web, address: tcp/10.96.0.1:80, created: 2026-01-31T12:00:00Z, endpoints: [10.2.0.11:8080, 10.2.0.11:9090], unready: [10.2.0.12:8080]}\n"
	dns = "  - {name: dns, address: udp/10.96.0.1:53}\n"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func TestEditsAreFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "services.yaml")
	put(t, path, "services:\n"+web)
	p := start(t, File(path))
	p.until("the file is applied", func() bool { return p.names() == "web web/8080 web/9090" && len(p.initialized()) == 2 })
	row, _, _ := p.services.Get(p.db.ReadTxn(), proxy.ByName("web"))
	addr := netip.MustParseAddr
	assert.Equal(t, &proxy.Service{
		Name: "web", Created: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC),
		Addresses: []netip.Addr{addr("10.96.0.1")}, Ports: []proxy.Port{{Protocol: kernel.TCP, Number: 80}},
	}, row)
	assert.Equal(t, []*proxy.EndpointSlice{
		{
			Name: "web/8080", Service: "web", Ports: []proxy.Port{{Protocol: kernel.TCP, Number: 8080}},
			Endpoints: []proxy.Endpoint{{Address: addr("10.2.0.11"), Ready: true, Serving: true}, {Address: addr("10.2.0.12")}},
		},
		{
			Name: "web/9090", Service: "web", Ports: []proxy.Port{{Protocol: kernel.TCP, Number: 9090}},
			Endpoints: []proxy.Endpoint{{Address: addr("10.2.0.11"), Ready: true, Serving: true}},
		},
	}, statedb.Collect(p.slices.All(p.db.ReadTxn())))

	put(t, path, "services:\n"+web+dns)
	p.until("a service is added", func() bool { return p.names() == "dns web web/8080 web/9090" })
	again, _, _ := p.services.Get(p.db.ReadTxn(), proxy.ByName("web"))
	assert.Same(t, row, again, "the other one is not written")

	put(t, path, "services:\n"+web+web)
	p.until("the problem is reported", func() bool { return len(p.health.Degraded()) == 1 })
	assert.Contains(t, p.health.Degraded()[0].String(), path+`:3:12: service "web" is there twice, first in line 2`)
	assert.Equal(t, "dns web web/8080 web/9090", p.names(), "the last good file stays in force")

	put(t, path, "services:\n"+dns)
	p.until("a service is removed", func() bool { return p.names() == "dns" && len(p.health.Degraded()) == 0 })
	put(t, path, "services: []\n")
	p.until("all are removed", func() bool { return p.names() == "" })
}

// An earlier run may have left services in the kernel: nothing is initialised, so they stay.
func TestBadFileAtTheStartIsReportedAndInitialisesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "services.yaml")
	p := start(t, File(path))
	degraded := func(want string) {
		t.Helper()
		p.until("health has "+want, func() bool {
			return len(p.health.Degraded()) == 1 && strings.Contains(p.health.Degraded()[0].String(), want)
		})
		assert.Empty(t, p.initialized())
		assert.Empty(t, p.names())
	}
	degraded(path + ": no such file or directory")
	put(t, path, "services:\n"+web+web)
	degraded(path + `:3:12: service "web" is there twice, first in line 2`)
	put(t, path, "services:\n"+dns)
	p.until("the good file is applied", func() bool {
		return p.names() == "dns" && len(p.initialized()) == 2 && len(p.health.Degraded()) == 0
	})
}

func TestProblemsHavePositions(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "f:1: is empty",
		"# nothing\n":                 "f:1: is empty",
		"{}":                          "f:1:1: services is missing; for no service, write services: []",
		web:                           "f:1:3: services is missing; for no service, write services: []",
		"services: 3":                 "f:1: cannot unmarshal !!int `3` into []yaml.Node",
		"services: []\n---\nx: 1":     "f:2:1: a second document; only one is read",
		"services:\n\t- x":            "f:2: found character that cannot start any token",
		"services: []\nroutes: []":    `f:2:9: unknown field "routes"`,
		"services:\n" + web + "  - 7": "f:3:5: a service is a mapping, with an address",
		"services:\n  - {name: x}":    "f:2:5: address is missing, such as tcp/10.96.0.1:80",
		"services:\n  - {name: a b, port: 1, address: sctp/10.96.0.1:80}": `f:2:23: unknown field "port"` +
			"\n" + `f:2:12: the name "a b" is not made of letters, digits and ._:/-` +
			"\n" + `f:2:35: "sctp/10.96.0.1:80" does not begin with tcp/ or udp/`,
		"services:\n  - {address: 'tcp/[fe80::1%eth0]:80'}": `f:2:5: the name "" is not made of letters, digits and ._:/-` +
			"\n" + "f:2:15: [fe80::1%eth0]:80 is not a plain address of IPv4 or IPv6 with a port",
		"services:\n  - {name: x, address: tcp/10.96.0.1:80, endpoints: ['[::ffff:10.2.0.1]:80', '[fd00::1]:80']}": "f:2:54: [::ffff:10.2.0.1]:80 is not a plain address of IPv4 or IPv6 with a port" +
			"\n" + "f:2:54: endpoint [::ffff:10.2.0.1]:80 is not of the family of 10.96.0.1:80" +
			"\n" + "f:2:78: endpoint [fd00::1]:80 is not of the family of 10.96.0.1:80",
		"services:\n  - {name: x, address: tcp/10.96.0.1, created: 1066-10-14}":   `f:2:24: "tcp/10.96.0.1": not an ip:port`,
		"services:\n  - {name: x, address: tcp/10.96.0.1:80, created: yesterday}": `f:2:51: "yesterday" is not a time such as 2026-01-31T12:00:00Z`,
		"services:\n  - {name: x, address: tcp/10.96.0.1:80, created: [2026]}":    `f:2:51: "" is not a time such as 2026-01-31T12:00:00Z`,
		"services:\n  - name: x\n    address: tcp/10.96.0.1:80\n    endpoints:\n    - 10.2.0.1:8080\n    - 10.2.0.1:0\n    - 10.2.0.1:8080": "f:6:7: 10.2.0.1:0 has no port" +
			"\n" + "f:7:7: endpoint 10.2.0.1:8080 is there twice",
	} {
		_, err := parseFile("f", []byte(text))
		assert.EqualError(t, err, want, text)
	}
}

func TestFormattedServicesAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		service := rapid.Custom(func(t *rapid.T) *Entry {
			size := rapid.SampledFrom([]int{4, 16}).Draw(t, "size")
			address := rapid.Custom(func(t *rapid.T) netip.AddrPort {
				addr, _ := netip.AddrFromSlice(append([]byte{0xfd}, rapid.SliceOfN(rapid.Byte(), size-1, size-1).Draw(t, "addr")...))
				return netip.AddrPortFrom(addr, rapid.Uint16Min(1).Draw(t, "port"))
			})
			s := &Entry{
				Name: rapid.StringMatching(nameForm.String()).Draw(t, "name"),
				At: kernel.Service{
					Protocol: rapid.SampledFrom([]kernel.Protocol{kernel.TCP, kernel.UDP}).Draw(t, "protocol"), Address: address.Draw(t, "at"),
				},
				Created: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "created"), 0).UTC(),
			}
			all := rapid.SliceOfNDistinct(address, 0, 5, rapid.ID).Draw(t, "endpoints")
			ready := rapid.IntRange(0, len(all)).Draw(t, "ready")
			s.Endpoints, s.Unready = append(s.Endpoints, all[:ready]...), append(s.Unready, all[ready:]...)
			return s
		})
		services := rapid.SliceOfNDistinct(service, 1, 5, func(s *Entry) string { return s.Name }).Draw(t, "services")
		text, err := Format(services)
		require.NoError(t, err)
		entries, err := parseFile("f", text)
		require.NoError(t, err, "%s", text)
		var read []*Entry
		for _, e := range entries {
			read = append(read, e.Object)
		}
		require.Equal(t, services, read, "%s", text)
	})
}

func TestSizeOfGeneratedServicesIsChecked(t *testing.T) {
	g, err := ParseGenerated("10000x10", 100)
	require.NoError(t, err)
	assert.Equal(t, Generated{10000, 10, 100}, g)
	for size, churn := range map[string]int{"10": 0, "x": 0, "3x4x5": 0, "0x1": 0, "1x101": 0, "65537x1": 0, "2x2": -1, "2x0": 1, " 2x2": 0} {
		_, err := ParseGenerated(size, churn)
		assert.Error(t, err, "%q %d", size, churn)
	}
}

func TestEachGeneratedChangeReplacesOneEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Generated{Services: 20, Endpoints: 5, Churn: 10})
		all := func() (endpoints map[netip.Addr]bool) {
			endpoints = map[netip.Addr]bool{}
			for s := range p.slices.All(p.db.ReadTxn()) {
				assert.Len(t, s.Endpoints, 5)
				assert.Equal(t, 5, s.Ready())
				for _, e := range s.Endpoints {
					endpoints[e.Address] = true
				}
			}
			return endpoints
		}
		synctest.Wait()
		before := all()
		require.Len(t, before, 100, "20 services of 5, all different")
		assert.Equal(t, "default/service-00000", p.names()[:21])
		time.Sleep(2 * time.Second)
		synctest.Wait()
		after, same := all(), 0
		for endpoint := range after {
			if before[endpoint] {
				same++
			}
		}
		assert.Len(t, after, 100)
		// Of 20 changes in two seconds some may replace an endpoint that is new itself.
		assert.True(t, after[numbered(endpointNet, 119)], "the 20th new endpoint is there")
		assert.GreaterOrEqual(t, same, 80)
		assert.Less(t, same, 100)
	})
}

func TestGeneratedServicesStayWithoutChurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Generated{Services: 3, Endpoints: 0})
		synctest.Wait()
		assert.Equal(t, 3, p.services.NumObjects(p.db.ReadTxn()))
		revision := p.services.Revision(p.db.ReadTxn())
		time.Sleep(time.Hour)
		assert.Equal(t, revision, p.services.Revision(p.db.ReadTxn()))
	})
}
