// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestParseReadsEveryField(t *testing.T) {
	state, err := Parse("state.yaml", []byte(`
links:
  - {name: lo, kind: loopback}
  - {name: br0, kind: bridge, mtu: 9000, mac: "02:00:00:00:00:0A"}
  - {name: a0, kind: veth, master: br0, mtu: 1400, peer: {name: a1, up: false, mac: "02:00:00:00:00:01"}}
  - {name: b0, kind: veth, peer: b1}
addresses:
  - {dev: br0, cidr: 10.0.0.1/24}
  - {dev: b1, cidr: "fd00::1/64"}
routes:
  - {dst: default, via: 10.0.0.254, metric: 50}
  - {dst: 10.9.0.0/16, dev: b0, table: 100}
  - {dst: fd01::/48, via: "fd00::2", table: 7}
  - {dst: 192.0.2.1, dev: br0, scope: global}
sysctls:
  net.ipv4.ip_forward: 1
  net.ipv4.conf.b0.rp_filter: "0"
  net.ipv4.tcp_rmem: "4096	8192   16384"
`))
	require.NoError(t, err)
	assert.Equal(t, []Link{
		{Name: "lo", Kind: Loopback, MTU: 65536, Up: true},
		{Name: "br0", Kind: Bridge, MTU: 9000, MAC: "02:00:00:00:00:0a", Up: true},
		{Name: "a0", Kind: Veth, Peer: "a1", Master: "br0", MTU: 1400, Up: true},
		{Name: "a1", Kind: Veth, Peer: "a0", MTU: 1400, MAC: "02:00:00:00:00:01"},
		{Name: "b0", Kind: Veth, Peer: "b1", MTU: 1500, Up: true},
		{Name: "b1", Kind: Veth, Peer: "b0", MTU: 1500, Up: true},
	}, specs(state.Links))
	assert.Equal(t, []Address{
		{"br0", netip.MustParsePrefix("10.0.0.1/24")},
		{"b1", netip.MustParsePrefix("fd00::1/64")},
	}, specs(state.Addresses))
	assert.Equal(t, []Route{
		{TableMain, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("10.0.0.254"), "br0", 50, ScopeGlobal},
		{100, netip.MustParsePrefix("10.9.0.0/16"), netip.Addr{}, "b0", 0, ScopeLink},
		{7, netip.MustParsePrefix("fd01::/48"), netip.MustParseAddr("fd00::2"), "b1", 1024, ScopeGlobal},
		{TableMain, netip.MustParsePrefix("192.0.2.1/32"), netip.Addr{}, "br0", 0, ScopeGlobal},
	}, specs(state.Routes))
	assert.Equal(t, []Sysctl{
		{"net.ipv4.ip_forward", "1"},
		{"net.ipv4.conf.b0.rp_filter", "0"},
		{"net.ipv4.tcp_rmem", "4096 8192 16384"},
	}, specs(state.Sysctls))
}

func specs[Spec any](located []Located[Spec]) (all []Spec) {
	for _, l := range located {
		all = append(all, l.Spec)
	}
	return all
}

func TestKeysAreReadable(t *testing.T) {
	state, err := Parse("f", []byte(`
links: [{name: br0, kind: bridge}]
addresses: [{dev: br0, cidr: 10.0.0.1/24}]
routes:
  - {dst: 10.1.0.0/16, dev: br0}
  - {dst: 10.1.0.0/16, dev: br0, metric: 5}
  - {dst: 10.1.0.0/16, dev: br0, table: 12}
  - {dst: "fd00::/8", dev: br0, metric: 1024}
  - {dst: "fd00::/8", dev: br0, metric: 1}
`))
	require.NoError(t, err)
	var places, keys []string
	for _, r := range state.Routes {
		places, keys = append(places, r.Spec.Key()), append(keys, r.Spec.KeyWithMetric())
	}
	assert.Equal(t, []string{"main/10.1.0.0/16", "main/10.1.0.0/16", "12/10.1.0.0/16", "main/fd00::/8", "main/fd00::/8"}, places)
	assert.Equal(t, []string{"main/10.1.0.0/16", "main/10.1.0.0/16/5", "12/10.1.0.0/16", "main/fd00::/8", "main/fd00::/8/1"}, keys)
	assert.Equal(t, "br0/10.0.0.1/24", state.Addresses[0].Spec.Key())
}

func TestOnlyBracesAreAnEmptyState(t *testing.T) {
	for _, text := range []string{"{}", "links: []\n", "links:\nsysctls:\n", "links: ~\nsysctls: ~\n", "---\n{}\n"} {
		state, err := Parse("f", []byte(text))
		assert.NoError(t, err, "%q", text)
		assert.Empty(t, state, "%q", text)
	}
}

func TestAnchorsAreResolved(t *testing.T) {
	state, err := Parse("f", []byte("links:\n  - {name: a, kind: bridge, mtu: &m 1400}\n  - {name: b, kind: bridge, mtu: *m}\n"))
	require.NoError(t, err)
	assert.Equal(t, 1400, state.Links[1].Spec.MTU)
}

// The base of the table below: four links, of which "down" is down, and addresses.
const base = `links:
  - {name: br0, kind: bridge}
  - {name: v0, kind: veth, peer: v1}
  - {name: down, kind: bridge, up: false}
addresses:
  - {dev: br0, cidr: 10.0.0.1/24}
  - {dev: v0, cidr: 10.0.1.1/24}
  - {dev: v1, cidr: "fd00::1/64"}
`

func TestProblemsHaveLineAndColumn(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string // without the file's name
	}{
		{"empty file", "", []string{": is empty; to ask for nothing at all, write {}"}},
		{"only comments", "# links\n\n---\n", []string{": is empty; to ask for nothing at all, write {}"}},
		{"a comment behind a marker", "--- # links", []string{": is empty; to ask for nothing at all, write {}"}},
		{"not a mapping", "- a\n", []string{":1:1: state: a mapping is needed"}},
		{"scalar", "links", []string{":1:1: state: a mapping is needed"}},
		{"two documents", "{}\n---\nlinks: []\n", []string{":2:1: a second document; only one is read"}},

		{"not UTF-8", "links: []\n# \xff\n", []string{": invalid leading UTF-8 octet"}},
		{"control character", "links: []\nroutes: \x01\n", []string{": control characters are not allowed"}},
		{"colon in value", "links: []\nroutes: a: b\n", []string{":2: mapping values are not allowed in this context"}},
		{"bad indent", "links:\n  - name: a\n   kind: bridge\n", []string{":1: did not find expected '-' indicator"}},
		{"tab", "links:\n\t- a\n", []string{":2: found character that cannot start any token"}},
		{"open bracket", "routes: []\nlinks: [a\nsysctls: {}\n", []string{":1: did not find expected ',' or ']'"}},
		{"open quote", "routes: []\nlinks: 'a\nsysctls: {}\n", []string{":2: found unexpected end of stream"}},
		{"after a long list in brackets", "links: [\n\n\n\n\n\n]\nroutes: a: b\n", []string{":8: mapping values are not allowed in this context"}},
		{"unknown anchor", "links: []\nroutes: *r\n", []string{": unknown anchor 'r' referenced"}},

		{"unknown section", "link: []\n", []string{`:1: state: unknown field "link"; known are addresses, links, routes, sysctls`}},
		{"section twice", "links: []\nlinks: []\n", []string{`:2: mapping key "links" already defined at line 1`}},
		{"section of the wrong type", "links: {}\n", []string{":1: cannot unmarshal !!map into []yaml.Node"}},
		{"item of the wrong type", "links: [br0]\n", []string{":1:9: link: a mapping is needed"}},

		{"unknown kind", "links:\n  - name: a\n    kind: vxlan\n", []string{`:2:5: link "a": unknown kind "vxlan"; known are bridge, loopback, veth`}},
		{"unknown field", "links:\n  - name: a\n    kind: bridge\n    mut: 1\n", []string{`:4: link: unknown field "mut"; known are kind, mac, master, mtu, name, peer, up`}},
		{"nothing given", "links:\n  - {}\n", []string{`:2:5: name "" of a link: from 1 to 15 bytes are allowed`}},
		{"name is a list", "links: [{name: [], kind: bridge}]", []string{":1: cannot unmarshal !!seq into string"}},
		{"name too long", "links: [{name: a234567890123456, kind: bridge}]", []string{`:1:9: name "a234567890123456" of a link: from 1 to 15 bytes are allowed`}},
		{"name with slash", "links: [{name: a/b, kind: bridge}]", []string{`:1:9: name "a/b" of a link: '/' is not allowed`}},
		{"name with format", "links: [{name: a%d, kind: bridge}]", []string{`:1:9: name "a%d" of a link: '%' is not allowed`}},
		{"reserved name", "links: [{name: all, kind: bridge}]", []string{`:1:9: name "all" of a link is reserved`}},
		{"mtu too small", "links: [{name: a, kind: bridge, mtu: 67}]", []string{`:1:9: link "a": an MTU of 67, must be from 68 to 65535`}},
		{"mtu too large", "links: [{name: a, kind: bridge, mtu: 65536}]", []string{`:1:9: link "a": an MTU of 65536, must be from 68 to 65535`}},
		{"mtu not a number", "links: [{name: a, kind: bridge, mtu: big}]", []string{":1: cannot unmarshal !!str `big` into int"}},
		{"mac too short", "links: [{name: a, kind: bridge, mac: '02:00'}]", []string{`:1:9: link "a": mac "02:00": six bytes such as 02:00:00:00:00:01 are needed`}},
		{"mac of a group", "links: [{name: a, kind: bridge, mac: '01:00:00:00:00:01'}]", []string{`:1:9: link "a": mac "01:00:00:00:00:01" is not the address of one station`}},
		{"up not a bool", "links: [{name: a, kind: bridge, up: sure}]", []string{":1: cannot unmarshal !!str `sure` into bool"}},
		{"bridge with peer and master", "links:\n  - name: a\n    kind: bridge\n    peer: b\n    master: c\n", []string{`:2:5: link "a": a bridge has no peer and no master`}},
		{"veth without peer", "links: [{name: a, kind: veth}]", []string{`:1:9: link "a": a veth needs a peer, the name of its other end`}},
		{"peer without name", "links: [{name: a, kind: veth, peer: {up: true}}]", []string{`:1:9: link "a": a veth needs a peer, the name of its other end`}},
		{"loopback by another name", "links: [{name: a, kind: loopback}]", []string{`:1:9: link "a": the loopback, and nothing else, is named "lo"`}},
		{"lo of another kind", "links: [{name: lo, kind: bridge}]", []string{`:1:9: link "lo": the loopback, and nothing else, is named "lo"`}},
		{"loopback with mac", "links: [{name: lo, kind: loopback, mac: '02:00:00:00:00:01'}]", []string{`:1:9: link "lo": a loopback has no mac`}},
		{"link twice", "links:\n  - {name: a, kind: bridge}\n  - {name: b, kind: veth, peer: a}\n", []string{`:3:5: link "a" is given twice, first on line 2`}},
		{"own peer", "links: [{name: a, kind: veth, peer: a}]", []string{`:1:9: link "a" is given twice, first on line 1`}},
		{"master no bridge", "links: [{name: a, kind: veth, peer: b, master: b}]", []string{`:1:9: link "a": its master "b" is a veth, not a bridge`}},

		{"address without dev", base + "  - {cidr: 10.5.0.1/24}\n", []string{`:9:5: address: dev is missing`}},
		{"address without length", base + "  - {dev: br0, cidr: 10.5.0.1}\n", []string{`:9:5: netip.ParsePrefix("10.5.0.1"): no '/'`}},
		{"address bad", base + "  - {dev: br0, cidr: 10.5.0.300/24}\n", []string{`:9:5: netip.ParsePrefix("10.5.0.300/24"): ParseAddr("10.5.0.300"): IPv4 field has value >255`}},
		{"address unspecified", base + "  - {dev: br0, cidr: 0.0.0.0/8}\n", []string{`:9:5: cidr "0.0.0.0/8" is not the address of one host`}},
		{"address mapped", base + "  - {dev: br0, cidr: '::ffff:10.0.0.1/100'}\n", []string{`:9:5: cidr "::ffff:10.0.0.1/100": an IPv4 address in IPv6 clothing; write 10.0.0.1`}},
		{"address of length 0", base + "  - {dev: br0, cidr: 10.0.0.9/0}\n", []string{`:9:5: cidr "10.0.0.9/0": a prefix of length 0 would put every address on this link`}},
		{"address with two lengths", base + "  - {dev: br0, cidr: 10.0.0.1/16}\n", []string{`:9:5: address "br0/10.0.0.1" is given twice, first on line 6`}},
		{"IPv6 on a small link", "links: [{name: a, kind: bridge, mtu: 1000}]\naddresses: [{dev: a, cidr: 'fd00::1/64'}]\n", []string{`:2:13: address "a/fd00::1/64": link "a" has an MTU of 1000, and IPv6 needs 1280`}},

		{"route without dst", base + "routes: [{via: 10.0.0.2}]\n", []string{`:9:10: route: dst "": a network such as 10.1.0.0/16, an address or default is needed`}},
		{"route without way", base + "routes: [{dst: 10.5.0.0/16}]\n", []string{`:9:10: route "main/10.5.0.0/16": via, dev or both are needed`}},
		{"route to nonsense", base + "routes: [{dst: 10.5/16, via: 10.0.0.2}]\n", []string{`:9:10: route: dst "10.5/16": a network such as 10.1.0.0/16, an address or default is needed`}},
		{"route with host bits", base + "routes: [{dst: 10.5.0.1/16, via: 10.0.0.2}]\n", []string{`:9:10: route: dst "10.5.0.1/16" has bits set beyond its length; the network is 10.5.0.0/16`}},
		{"route to multicast", base + "routes: [{dst: 224.0.0.0/4, dev: br0}]\n", []string{`:9:10: route "main/224.0.0.0/4": its destination is multicast`}},
		{"route via nonsense", base + "routes: [{dst: 10.5.0.0/16, via: gw}]\n", []string{`:9:10: ParseAddr("gw"): unable to parse IP`}},
		{"route via out of reach", base + "routes:\n  - dst: 10.5.0.0/16\n    via: 10.99.0.1\n", []string{`:10:5: route "main/10.5.0.0/16": its gateway 10.99.0.1 cannot be reached: no address of a link that is up has it in its network`}},
		{"route via another link", base + "routes: [{dst: 10.5.0.0/16, via: 10.0.1.2, dev: br0}]\n", []string{`:9:10: route "main/10.5.0.0/16": its gateway 10.0.1.2 cannot be reached by "br0": no address of that link has it in its network`}},
		{"route via a gateway that another table reaches", base + "routes: [{dst: 172.16.0.0/24, dev: v0, table: 7}, {dst: 10.5.0.0/16, via: 172.16.0.9}]\n", []string{`:9:51: route "main/10.5.0.0/16": its gateway 172.16.0.9 cannot be reached: no address of a link that is up has it in its network`}},
		{"route via a gateway behind another", base + "routes: [{dst: 172.16.0.0/24, via: 10.0.0.2}, {dst: 10.5.0.0/16, via: 172.16.0.9}]\n", []string{`:9:47: route "main/10.5.0.0/16": its gateway 172.16.0.9 cannot be reached: no address of a link that is up has it in its network`}},
		{"route via itself", base + "routes: [{dst: 10.5.0.0/16, via: 10.0.1.1}]\n", []string{`:9:10: route "main/10.5.0.0/16": its gateway 10.0.1.1 is an address of "v0", of this very namespace`}},
		{"IPv4 via IPv6", base + "routes: [{dst: 10.5.0.0/16, via: 'fd00::2'}]\n", []string{`:9:10: route "main/10.5.0.0/16": gateway fd00::2 is of another family than the destination`}},
		{"IPv6 via IPv4", base + "routes: [{dst: 'fd05::/16', via: 10.0.0.2}]\n", []string{`:9:10: route "main/fd05::/16": gateway 10.0.0.2 is of another family than the destination`}},
		{"route via link-local", base + "routes: [{dst: 'fd05::/16', via: 'fe80::1'}]\n", []string{`:9:10: route "main/fd05::/16": gateway fe80::1 is link-local, so dev is needed`}},
		{"route by a link that is down", base + "routes: [{dst: 10.5.0.0/16, dev: down}]\n", []string{`:9:10: route "main/10.5.0.0/16": link "down" is down`}},
		{"route in the local table", base + "routes: [{dst: 10.5.0.0/16, dev: br0, table: 255}]\n", []string{`:9:10: table "255" belongs to the kernel`}},
		{"route in no table", base + "routes: [{dst: 10.5.0.0/16, dev: br0, table: blue}]\n", []string{`:9:10: table "blue": main, default or a number from 1 to 4294967295 is needed`}},
		{"route with gateway and scope", base + "routes: [{dst: 10.5.0.0/16, via: 10.0.0.2, scope: link}]\n", []string{`:9:10: route "main/10.5.0.0/16": scope "link" means that there is no gateway, and here is one`}},
		{"IPv6 route with scope", base + "routes: [{dst: 'fd05::/16', dev: v1, scope: link}]\n", []string{`:9:10: route "main/fd05::/16": routes of IPv6 have no scope`}},
		{"route of unknown scope", base + "routes: [{dst: 10.5.0.0/16, dev: br0, scope: galaxy}]\n", []string{`:9:10: route "main/10.5.0.0/16": unknown scope "galaxy"; known are global, host, link`}},
		{"route twice", base + "routes:\n  - {dst: 10.5.0.0/16, dev: br0}\n  - {dst: 10.5.0.0/16, via: 10.0.0.2}\n", []string{`:11:5: route "main/10.5.0.0/16" is given twice, first on line 10`}},
		{"route twice with a metric", base + "routes:\n  - {dst: 10.5.0.0/16, dev: br0}\n  - {dst: 10.5.0.0/16, dev: br0, metric: 5}\n  - {dst: 10.5.0.0/16, dev: v0, metric: 5}\n", []string{`:12:5: route "main/10.5.0.0/16/5" is given twice, first on line 11`}},
		{"gateway behind two links", base + "  - {dev: down, cidr: 10.0.7.1/24}\n  - {dev: v0, cidr: 10.7.0.1/24}\n  - {dev: br0, cidr: 10.7.0.2/24}\nroutes: [{dst: 10.5.0.0/16, via: 10.7.0.9}]\n", []string{`:12:10: route "main/10.5.0.0/16": its gateway 10.7.0.9 can be reached by "v0" and "br0", so dev is needed`}},

		{"sysctl elsewhere", "sysctls:\n  kernel.panic: 1\n", []string{`:2:3: sysctl "kernel.panic" does not begin with "net.": only those belong to a network namespace`}},
		{"sysctl escaping", "sysctls:\n  net.//.kernel.panic: 1\n", []string{`:2:3: sysctl "net.//.kernel.panic": not a name`}},
		{"sysctl with empty part", "sysctls:\n  net..panic: 1\n", []string{`:2:3: sysctl "net..panic": not a name`}},
		{"sysctl boolean", "sysctls:\n  net.ipv4.ip_forward: true\n", []string{`:2:3: sysctl "net.ipv4.ip_forward": write 1 or 0, not true`}},
		{"sysctl without value", "sysctls:\n  net.ipv4.ip_forward:\n", []string{`:2:3: sysctl "net.ipv4.ip_forward": a value is needed, a text or a number`}},
		{"sysctl null", "sysctls:\n  net.ipv4.ip_forward: ~\n", []string{`:2:3: sysctl "net.ipv4.ip_forward": a value is needed, a text or a number`}},
		{"route to a zone", base + "routes: [{dst: 'fe80::1%br0', dev: br0}]\n", []string{`:9:10: route: dst "fe80::1%br0": a network such as 10.1.0.0/16, an address or default is needed`}},
		{"null", "null\n", []string{": is empty; to ask for nothing at all, write {}"}},
		{"sysctl empty", "sysctls:\n  net.ipv4.ip_forward: ' '\n", []string{`:2:3: sysctl "net.ipv4.ip_forward": a value is needed, a text or a number`}},
		{"sysctl with lines", "sysctls:\n  net.ipv4.ip_forward: \"1\\n2\"\n", []string{`:2:3: sysctl "net.ipv4.ip_forward": a value goes on one line`}},
		{"sysctl twice", "sysctls:\n  net.ipv4.ip_forward: 1\n  net.ipv4.ip_forward: 1\n", []string{`:3:3: sysctl "net.ipv4.ip_forward" is given twice, first on line 2`}},

		{"several at once, in the order of the lines",
			"sysctls:\n  kernel.panic: 1\nlinks:\n  - {name: a, kind: tun}\n  - {name: b, kind: bridge, mtu: 1}\n",
			[]string{
				`:2:3: sysctl "kernel.panic" does not begin with "net.": only those belong to a network namespace`,
				`:4:5: link "a": unknown kind "tun"; known are bridge, loopback, veth`,
				`:5:5: link "b": an MTU of 1, must be from 68 to 65535`,
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("state.yaml", []byte(test.text))
			require.Error(t, err)
			assert.Equal(t, "state.yaml"+strings.Join(test.want, "\nstate.yaml"), err.Error())
			var problems Problems
			assert.True(t, errors.As(err, &problems))
		})
	}
}

func TestFileOverAMegabyteIsRejected(t *testing.T) {
	_, err := Parse("f", []byte("{}"+strings.Repeat(" ", MaxSize)))
	assert.EqualError(t, err, "f: larger than a megabyte")
}

func TestGatewayMayBeReachedByARouteOfTheLink(t *testing.T) {
	state, err := Parse("f", []byte(base+`
routes:
  - {dst: 172.16.0.0/24, dev: v0}
  - {dst: 10.5.0.0/16, via: 172.16.0.9}
  - {dst: 10.6.0.0/16, via: 172.16.0.9, table: 100}
`))
	require.NoError(t, err)
	assert.Equal(t, "v0", state.Routes[1].Spec.Dev)
	assert.Equal(t, "v0", state.Routes[2].Spec.Dev)
}

func TestUnlistedLinkIsNoProblem(t *testing.T) {
	state, err := Parse("f", []byte(`
links: [{name: a, kind: veth, peer: b, master: br}]
addresses: [{dev: eth0, cidr: 10.0.0.1/24}, {dev: eth0, cidr: "fd00::1/64"}]
routes:
  - {dst: 10.5.0.0/16, dev: eth1}
  - {dst: 10.6.0.0/16, via: 10.0.0.2}
sysctls: {net.ipv4.conf.eth2.rp_filter: 1}
`))
	require.NoError(t, err)
	assert.Equal(t, "eth0", state.Routes[1].Spec.Dev, "the address determines the link of the gateway")

	_, err = Parse("f", []byte("addresses: [{dev: eth0, cidr: 10.0.0.1/24}]\nroutes: [{dst: 10.5.0.0/16, via: 10.0.1.2, dev: eth0}]"))
	assert.EqualError(t, err, `f:2:10: route "main/10.5.0.0/16": its gateway 10.0.1.2 cannot be reached by "eth0": no address of that link has it in its network`,
		"its addresses are the file's all the same")
}

func TestSingleObjectsAreReadFromJSONAndYAML(t *testing.T) {
	for _, body := range []string{
		`{"dst":"10.1.0.0/16","via":"10.0.0.2"}`,
		"dst: 10.1.0.0/16\nvia: 10.0.0.2\n",
	} {
		route, err := ParseRoute("body", []byte(body))
		require.NoError(t, err, body)
		assert.Equal(t, "main/10.1.0.0/16", route.Key(), body)
	}
	links, err := ParseLink("body", []byte("{name: a, kind: veth, peer: b}"))
	require.NoError(t, err)
	assert.Equal(t, "b", links[1].Name)
	address, err := ParseAddress("body", []byte("{dev: a, cidr: 10.0.0.1/8}"))
	require.NoError(t, err)
	assert.Equal(t, "a/10.0.0.1/8", address.Key())
	sysctl, err := ParseSysctl("body", []byte(`{"name": "net.ipv4.ip_forward", "value": 1}`))
	require.NoError(t, err)
	assert.Equal(t, Sysctl{"net.ipv4.ip_forward", "1"}, sysctl)

	_, err = ParseSysctl("body", []byte("{name: net.ipv4.ip_forward}"))
	assert.EqualError(t, err, `body:1:1: sysctl "net.ipv4.ip_forward": a value is needed, a text or a number`)
	_, err = ParseRoute("body", []byte("{"))
	assert.EqualError(t, err, "body:1: did not find expected node content")
	_, err = ParseAddress("body", nil)
	assert.EqualError(t, err, "body: is empty; to ask for nothing at all, write {}")
	_, err = ParseLink("body", []byte("[]"))
	assert.EqualError(t, err, "body:1:1: link: a mapping is needed")
}

func TestSysctlsHavePathAndLink(t *testing.T) {
	for name, want := range map[string]struct {
		path, dev string
	}{
		"net.ipv4.ip_forward":             {"net ipv4 ip_forward", ""},
		"net.ipv4.conf.all.rp_filter":     {"net ipv4 conf all rp_filter", ""},
		"net.ipv4.conf.default.rp_filter": {"net ipv4 conf default rp_filter", ""},
		"net.ipv4.conf.br0.rp_filter":     {"net ipv4 conf br0 rp_filter", "br0"},
		"net.ipv6.neigh.br0.retrans_time": {"net ipv6 neigh br0 retrans_time", "br0"},
		"net.ipv4.conf.v0/100.rp_filter":  {"net ipv4 conf v0.100 rp_filter", "v0.100"},
	} {
		s := Sysctl{Name: name}
		assert.Equal(t, want.path, strings.Join(s.Path(), " "))
		assert.Equal(t, want.dev, s.Needs(), name)
	}
}

func TestSpecsRoundTripThroughYAML(t *testing.T) {
	route := Route{100, netip.MustParsePrefix("10.0.0.0/8"), netip.MustParseAddr("10.0.0.1"), "br0", 7, ScopeGlobal}
	text, err := yaml.Marshal(route)
	require.NoError(t, err)
	var back Route
	require.NoError(t, yaml.Unmarshal(text, &back))
	assert.Equal(t, route, back)
}
