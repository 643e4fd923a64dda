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
	health   *health.Registry
	log      *testlog.Buffer
}

// start starts an input, until the test ends.
func start(t *testing.T, in Input) *program {
	p := &program{T: t, log: &testlog.Buffer{}}
	log := slog.New(slog.NewTextHandler(p.log, nil))
	h := hive.New(statedb.Cell, job.Cell, inspect.Cell, cell.Provide(health.New, proxy.NewServices), Cell(in),
		cell.Invoke(func(db *statedb.DB, services statedb.RWTable[*proxy.Service], registry *health.Registry) {
			p.db, p.services, p.health = db, services, registry
			is, _ := services.Initialized(db.ReadTxn())
			assert.False(t, is, "a reconciler would prune before the first list")
		}))
	require.NoError(t, h.Start(log, t.Context()))
	t.Cleanup(func() { require.NoError(t, h.Stop(log, context.Background())) })
	return p
}

// names returns the names of the services.
func (p *program) names() string {
	var names []string
	for s := range p.services.All(p.db.ReadTxn()) {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

// until waits for events whose time depends on the kernel.
func (p *program) until(what string, condition func() bool) {
	p.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		require.True(p, time.Now().Before(deadline), "timed out waiting until %s; services: %s\n%s", what, p.names(), p.log)
	}
}

const (
	web = "  - {name: web, address: tcp/10.96.0.1:80, created: 2026-01-31T12:00:00Z, endpoints: [10.2.0.11:8080], unready: [10.2.0.12:8080]}\n"
	dns = "  - {name: dns, address: udp/10.96.0.1:53}\n"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func TestEditsAreFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "services.yaml")
	put(t, path, "services:\n"+web)
	file, err := OpenFile(path)
	require.NoError(t, err)
	p := start(t, file)
	p.until("the file is applied", func() bool { return p.names() == "web" })
	row, _, _ := p.services.Get(p.db.ReadTxn(), proxy.ByName("web"))
	endpoint := netip.MustParseAddrPort
	assert.Equal(t, &proxy.Service{
		Name: "web", At: kernel.Service{Protocol: kernel.TCP, Address: endpoint("10.96.0.1:80")},
		Created:   time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC),
		Endpoints: []proxy.Endpoint{{Address: endpoint("10.2.0.11:8080"), Ready: true}, {Address: endpoint("10.2.0.12:8080")}},
	}, row)

	put(t, path, "services:\n"+web+dns)
	p.until("a service is added", func() bool { return p.names() == "dns web" })
	again, _, _ := p.services.Get(p.db.ReadTxn(), proxy.ByName("web"))
	assert.Same(t, row, again, "the other one is not written")

	put(t, path, "services:\n"+web+web)
	p.until("the problem is reported", func() bool { return len(p.health.Degraded()) == 1 })
	assert.Contains(t, p.health.Degraded()[0].String(), path+`:3:12: service "web" is there twice, first in line 2`)
	assert.Equal(t, "dns web", p.names(), "the last good file stays in force")

	put(t, path, "services:\n"+dns)
	p.until("a service is removed", func() bool { return p.names() == "dns" && len(p.health.Degraded()) == 0 })
	put(t, path, "services: []\n")
	p.until("all are removed", func() bool { return p.names() == "" })
}

func TestInvalidFileIsNotOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "services.yaml")
	_, err := OpenFile(path)
	assert.ErrorIs(t, err, os.ErrNotExist)
	put(t, path, "services:\n"+web+web)
	_, err = OpenFile(path)
	assert.EqualError(t, err, path+`:3:12: service "web" is there twice, first in line 2`)
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
		"services:\n  - {address: 'tcp/[fd00::1]:80'}": `f:2:5: the name "" is not made of letters, digits and ._:/-` +
			"\n" + "f:2:15: [fd00::1]:80 is not an IPv4 address with a port",
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
		address := rapid.Custom(func(t *rapid.T) netip.AddrPort {
			addr := netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "addr")))
			return netip.AddrPortFrom(addr, rapid.Uint16Min(1).Draw(t, "port"))
		})
		service := rapid.Custom(func(t *rapid.T) *proxy.Service {
			s := &proxy.Service{
				Name: rapid.StringMatching(nameForm.String()).Draw(t, "name"),
				At: kernel.Service{
					Protocol: rapid.SampledFrom([]kernel.Protocol{kernel.TCP, kernel.UDP}).Draw(t, "protocol"), Address: address.Draw(t, "at"),
				},
				Created: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "created"), 0).UTC(),
			}
			// Those that are ready come first in a file.
			for i, a := range rapid.SliceOfNDistinct(address, 0, 5, rapid.ID).Draw(t, "endpoints") {
				s.Endpoints = append(s.Endpoints, proxy.Endpoint{Address: a, Ready: i < 2})
			}
			return s
		})
		services := rapid.SliceOfNDistinct(service, 1, 5, func(s *proxy.Service) string { return s.Name }).Draw(t, "services")
		text, err := Format(services)
		require.NoError(t, err)
		entries, err := parseFile("f", text)
		require.NoError(t, err, "%s", text)
		var read []*proxy.Service
		for _, e := range entries {
			read = append(read, e.Object)
		}
		require.Equal(t, services, read, "%s", text)
	})
}

func TestValuesOfEtcdAreYAMLAndJSON(t *testing.T) {
	for _, value := range []string{
		"{address: tcp/10.96.0.1:80, created: 2026-01-31T12:00:00Z, endpoints: [10.2.0.11:8080]}",
		"name: default/web:http\naddress: tcp/10.96.0.1:80\ncreated: 2026-01-31T12:00:00Z\nendpoints:\n- 10.2.0.11:8080\n",
		`{"address": "tcp\/10.96.0.1:80", "created": "2026-01-31T12:00:00Z", "endpoints": ["10.2.0.11:8080"]}`,
	} {
		s, err := parseValue("default/web:http", []byte(value))
		require.NoError(t, err, value)
		assert.Equal(t, &proxy.Service{
			Name: "default/web:http", At: kernel.Service{Protocol: kernel.TCP, Address: netip.MustParseAddrPort("10.96.0.1:80")},
			Created:   time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC),
			Endpoints: []proxy.Endpoint{{Address: netip.MustParseAddrPort("10.2.0.11:8080"), Ready: true}},
		}, s, value)
	}
	for value, want := range map[string]string{
		"":                                     "value:1: is empty",
		"{name: y, address: tcp/10.96.0.1:80}": `value:1:8: the name is "y", but the key is of "x"`,
		"{address: tcp/10.96.0.1:80, prot: 1}": `value:1:35: unknown field "prot"`,
		"{":                                    "value:1: did not find expected node content",
	} {
		_, err := parseValue("x", []byte(value))
		assert.EqualError(t, err, want, value)
	}
	_, err := parseValue("a b", []byte("{address: tcp/10.96.0.1:80}"))
	assert.EqualError(t, err, `value:1:1: the name "a b" is not made of letters, digits and ._:/-`)
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
		all := func() (endpoints map[netip.AddrPort]bool) {
			endpoints = map[netip.AddrPort]bool{}
			for s := range p.services.All(p.db.ReadTxn()) {
				assert.Len(t, s.Endpoints, 5)
				for _, e := range s.Endpoints {
					assert.True(t, e.Ready)
					endpoints[e.Address] = true
				}
			}
			return endpoints
		}
		synctest.Wait()
		before := all()
		require.Len(t, before, 100, "20 services of 5, all different")
		assert.Equal(t, "default/service-00000:http", p.names()[:26])
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
		last := netip.AddrPortFrom(numbered(endpointNet, 119), 8080)
		assert.True(t, after[last], "the 20th new endpoint is there")
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
