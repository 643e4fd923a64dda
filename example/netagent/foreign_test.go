// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/kernel/kerneltest"
	"github.com/statekeel/statekeel/internal/tests/long"
)

// The states of the walk. Each has all kinds of objects.
var walked = []string{
	`
links:
  - {name: lo, kind: loopback}
  - {name: br0, kind: bridge}
  - {name: br1, kind: bridge, mac: "02:00:00:00:00:0b"}
  - {name: a0, kind: veth, peer: a1, master: br0}
addresses:
  - {dev: br0, cidr: 10.0.0.1/24}
  - {dev: br0, cidr: "fd00::1/64"}
  - {dev: br1, cidr: 10.0.9.1/24}
  - {dev: f0, cidr: 10.8.0.1/24}
routes:
  - {dst: 10.1.0.0/16, via: 10.0.0.2}
  - {dst: 10.2.0.0/16, dev: br0, table: 100}
  - {dst: "fd01::/48", via: "fd00::2"}
sysctls: {net.ipv4.ip_forward: 1, net.ipv4.conf.br0.forwarding: 0, net.ipv4.conf.default.rp_filter: 1, net.ipv4.conf.br1.rp_filter: 2}
`,
	`
links:
  - {name: lo, kind: loopback}
  - {name: br0, kind: bridge, mtu: 1400}
  - {name: br1, kind: bridge}
  - {name: a0, kind: veth, peer: {name: a1, mtu: 1300}, master: br1}
addresses:
  - {dev: br0, cidr: 10.0.0.1/16}
  - {dev: br0, cidr: 10.0.5.2/16}
  - {dev: br0, cidr: "fd00::1/64"}
  - {dev: a1, cidr: 10.7.0.1/32}
routes:
  - {dst: 10.1.0.0/16, via: 10.0.0.3, metric: 50}
  - {dst: default, via: 10.0.0.254, table: 100}
  - {dst: "fd01::/48", dev: br0, metric: 20}
sysctls: {net.ipv6.conf.all.forwarding: 1, net.ipv6.conf.br0.forwarding: 0, net.ipv6.conf.br0.disable_ipv6: 0}
`,
	`
links:
  - {name: lo, kind: loopback}
  - {name: br0, kind: bridge}
  - {name: a0, kind: veth, peer: br1}
addresses:
  - {dev: br0, cidr: 10.0.0.7/24}
  - {dev: br1, cidr: 10.0.9.1/24}
routes:
  - {dst: 10.1.0.0/16, via: 10.0.0.2}
  - {dst: 10.3.0.0/16, dev: br1}
sysctls: {net.ipv4.conf.all.forwarding: 1, net.ipv4.conf.br1.forwarding: 0}
`,
}

// ip runs ip(8) in the agent's namespace.
func (p *process) ip(args string) (output string, err error) {
	p.Helper()
	p.inside(func() error {
		var out []byte
		out, err = exec.Command("ip", strings.Fields(args)...).Output()
		output = string(out)
		return nil
	})
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("ip %s: %s", args, exit.Stderr)
	}
	return output, err
}

// objects returns what ip -json prints of a kind of objects.
func (p *process) objects(args string) (all []map[string]any) {
	p.Helper()
	out, err := p.ip("-details -json " + args)
	require.NoError(p, err)
	if strings.TrimSpace(out) != "" {
		require.NoError(p, json.Unmarshal([]byte(out), &all), out)
	}
	return all
}

// describe returns some properties of an object of JSON.
func describe(what map[string]any, keys ...string) string {
	var all []string
	for _, key := range keys {
		if value, there := what[key]; there {
			all = append(all, fmt.Sprintf("%s=%v", key, value))
		}
	}
	return strings.Join(all, " ")
}

// foreignLink reports whether a link is the other program's.
func foreignLink(name string) bool { return strings.HasPrefix(name, "f") }

// owned returns all that is the agent's to decide: every link of its kinds, every address, the routes of the managed
// tables, and the sysctls that the state has.
func (p *process) owned(text string) (all []string) {
	p.Helper()
	for _, link := range p.objects("addr show") {
		name := fmt.Sprint(link["ifname"])
		kind, _ := link["linkinfo"].(map[string]any)
		if what := kind["info_kind"]; what == "bridge" || what == "veth" || name == "lo" {
			keys := []string{"ifname", "link", "master", "mtu"}
			if strings.Contains(text, "mac: ") && name == "br1" {
				keys = append(keys, "address")
			}
			flags, _ := link["flags"].([]any)
			all = append(all, fmt.Sprintf("link %s up=%t kind=%v", describe(link, keys...), slices.Contains(flags, any("UP")), what))
		}
		addresses, _ := link["addr_info"].([]any)
		for _, address := range addresses {
			a, _ := address.(map[string]any)
			if len(a) == 0 || a["scope"] == "link" && a["family"] == "inet6" {
				continue
			}
			delete(a, "broadcast") // the kernel has the same without it
			delete(a, "label")
			delete(a, "secondary") // the order of two of a network is free
			all = append(all, fmt.Sprintf("address %s %v", name, a))
		}
	}
	for _, args := range []string{"route show table main", "-6 route show table main", "route show table 100", "-6 route show table 100"} {
		if strings.HasSuffix(args, "100") {
			if _, err := p.ip(args); err != nil {
				continue // the table has never had a route
			}
		}
		for _, route := range p.objects(args) {
			// The kernel keeps routes of some IPv6 addresses that are deleted: of those with a lifetime or a peer.
			dst := fmt.Sprint(route["dst"])
			_, expires := route["expires"]
			left := route["protocol"] == "kernel" && (expires || route["dev"] == "lo" || strings.HasPrefix(dst, "fd09:"))
			if left || strings.HasPrefix(dst, "fe80:") {
				continue
			}
			delete(route, "flags") // whether the link has a carrier
			if route["protocol"] == "kernel" {
				delete(route, "prefsrc") // the first of two addresses of a network
			}
			all = append(all, fmt.Sprintf("%s %v", args, route))
		}
	}
	state, err := config.Parse("walk", []byte(text))
	require.NoError(p, err)
	for _, s := range state.Sysctls {
		value := "missing"
		p.inside(func() error {
			if data, err := os.ReadFile("/proc/sys/" + strings.Join(s.Spec.Path(), "/")); err == nil {
				value = strings.TrimSpace(string(data))
			}
			return nil
		})
		all = append(all, "sysctl "+s.Spec.Name+" "+value)
	}
	slices.Sort(all)
	return all
}

// foreign is another program in the agent's namespace, which does what ip(8) can, at random.
type foreign struct {
	*process
	random *rand.Rand
	path   string // of the state file
	state  string // in the file

	// its is what the other program has of its own: links, routes of a table that the agent does not manage, nexthop
	// objects, rules and sysctls.
	its []string
	log []string
}

func one[T any](f *foreign, of ...T) T { return of[f.random.IntN(len(of))] }

func (f *foreign) do(args string) {
	f.Helper()
	_, err := f.ip(args)
	outcome := ""
	if err != nil {
		outcome = " failed"
	}
	f.log = append(f.log, "ip "+args+outcome)
}

func (f *foreign) set(name, value string) {
	f.Helper()
	f.inside(func() error {
		err := os.WriteFile("/proc/sys/"+name, []byte(value), 0)
		f.log = append(f.log, fmt.Sprintf("%s = %s: %v", name, value, err))
		return nil
	})
}

// edit writes a state.
func (f *foreign) edit(state string) {
	f.Helper()
	require.NoError(f, os.WriteFile(f.path+".new", []byte(state), 0o644))
	require.NoError(f, os.Rename(f.path+".new", f.path))
	f.state = state
	f.log = append(f.log, fmt.Sprintf("state %d", slices.Index(walked, state)))
}

// step does one thing.
func (f *foreign) step() {
	f.Helper()
	switch f.random.IntN(20) {
	case 0:
		f.edit(one(f, walked...))
	case 1, 2, 3, 4, 5, 6:
		routes := kerneltest.RoutesTo(one(f, "10.1.0.0/16", "10.2.0.0/16", "10.66.0.0/16", "default"), one(f, "fd01::/48", "fd66::/48"))
		f.do("route " + one(f, "add", "append", "prepend", "replace", "replace", "change", "del") + " " + one(f, routes...) + one(f, "", "", " table 100"))
	case 7, 8, 9, 10:
		ip, length, _ := strings.Cut(one(f, "10.0.0.1/24", "10.0.0.1/16", "10.0.0.1/32", "10.0.5.2/16", "fd00::1/64", "fd00::1/48", "10.66.0.1/24", "fd66::1/64", "10.8.0.1/24"), "/")
		kind := one(f, kerneltest.AddressKinds...)
		if kind == "peer" {
			ip, kind = ip+" peer "+one(f, "10.0.9.9", "fd09::9"), ""
		}
		f.do("addr " + one(f, "add", "change", "replace", "del") + " " + ip + "/" + length + " dev " + one(f, "br0", "br0", "br1", "a1", "lo", "f0") + " " + kind)
	case 11, 12, 13:
		f.changeLink(one(f, "br0", "br1", "a0", "a1"))
	case 14, 15:
		group := one(f, "all", "default", "br0", "br1", "lo")
		f.set(one(f, "net/ipv4/ip_forward", "net/ipv4/conf/"+group+"/forwarding", "net/ipv4/conf/"+group+"/rp_filter",
			"net/ipv6/conf/"+group+"/forwarding", "net/ipv6/conf/"+group+"/disable_ipv6"), one(f, "0", "1"))
	case 16:
		f.do(strings.Replace(one(f, kerneltest.Nexthops...), " add ", one(f, " replace ", " replace ", " del "), 1))
	default:
		require.Equal(f, f.its, f.realm(), "what is another program's has changed\n%s", strings.Join(f.log, "\n"))
		f.changeRealm()
		f.its = f.realm()
	}
}

// changeLink changes a link that a row asks for, or its name.
func (f *foreign) changeLink(name string) {
	f.Helper()
	var missing error
	f.inside(func() error {
		_, missing = os.Stat("/proc/sys/net/ipv4/conf/" + name)
		return nil
	})
	what := f.random.IntN(15)
	if missing != nil {
		what = 10 + what%3 // ip(8) would find another link that has the name as an alternative one
	}
	switch what {
	case 0, 1:
		f.do("link set " + name + " mtu " + one(f, "900", "1300", "1500"))
	case 2, 3:
		f.do("link set " + name + one(f, " up", " down"))
	case 4:
		f.do("link set " + name + " master " + one(f, "br0", "br1"))
	case 5:
		f.do("link set " + name + " nomaster")
	case 6:
		f.do("link set " + name + " address 02:00:00:00:01:" + one(f, "01", "02"))
	case 7, 8, 9:
		f.do("link del " + name)
	case 10:
		f.do("link property add dev " + one(f, "br0", "br1", "a1", "lo") + " altname " + name)
	case 11:
		f.do("link add " + name + " type ifb")
	case 12:
		f.do("link add " + one(f, "stray0", "stray1") + " type " + one(f, "bridge", "veth peer name "+name, "veth peer name stray2"))
	case 13:
		f.do("link add x8 link a0 type macvlan")
	case 14:
		f.do("link set " + name + " down")
		f.do("link set " + name + " name x9")
	}
}

// realm returns what is the other program's.
func (f *foreign) realm() (all []string) {
	f.Helper()
	for _, link := range f.objects("link show") {
		if foreignLink(fmt.Sprint(link["ifname"])) {
			all = append(all, describe(link, "ifname", "ifindex", "mtu", "address", "altnames", "group", "ifalias"))
		}
	}
	for _, args := range []string{"nexthop", "rule", "route show table 300"} {
		out, _ := f.ip(args) // the table may not be there
		for _, line := range strings.Split(out, "\n") {
			if args != "nexthop" || strings.Contains(line, "dev f") {
				all = append(all, strings.ReplaceAll(line, " linkdown", ""))
			}
		}
	}
	return append(all, f.sysctl("net.ipv4.tcp_keepalive_time"), f.sysctl("net.ipv4.conf.f0.arp_filter"))
}

// changeRealm changes something that is the other program's. Its routes are of IPv4, since it sets disable_ipv6 itself,
// and by a link that never has an IPv4 address: the kernel removes the routes of a link with its last one.
func (f *foreign) changeRealm() {
	f.Helper()
	switch f.random.IntN(8) {
	case 0:
		f.do("link property " + one(f, "add", "del") + " dev f0 altname " + one(f, "br0", "br1", "a0", "a1", "other"))
	case 1:
		f.do("link " + one(f, "add", "del") + " f2 type ifb")
	case 2:
		f.do("link set f1 mtu " + one(f, "1000", "1400") + " alias " + one(f, "br0", "b"))
	case 3, 4:
		f.do("route " + one(f, "add", "append", "replace", "del") + " " + one(f,
			"10.1.0.0/16 dev f1", "10.1.0.0/16 dev f1 metric 9", "10.1.0.0/16 nhid 70", "blackhole 10.2.0.0/16",
			"10.66.0.0/16 dev f1 mtu lock 1300") + " table 300")
	case 5:
		f.do("nexthop replace id " + one(f, "70", "71") + " dev f1")
	case 6:
		f.do("rule " + one(f, "add", "del") + " pref 100 to 10.1.0.0/16 lookup 300")
	case 7:
		f.set("net/ipv4/"+one(f, "tcp_keepalive_time", "conf/f0/arp_filter"), one(f, "0", "1"))
	}
}

// leave takes away what keeps the agent from what is wanted.
func (f *foreign) leave() {
	f.Helper()
	for _, holder := range []string{"br0", "br1", "a0", "a1", "lo", "f0", "f1"} {
		for _, name := range []string{"br0", "br1", "a0", "a1"} {
			f.do("link property del dev " + holder + " altname " + name)
		}
	}
	f.do("link del x8")
	f.do("link del x9")
	for _, group := range []string{"all", "default", "lo", "br0", "br1", "a0", "a1", "f0", "f1"} {
		f.set("net/ipv6/conf/"+group+"/disable_ipv6", "0")
	}
}

// join starts an agent with a state, and two links of another program in its namespace.
func join(t *testing.T, state string) (p *process, path string) {
	path = write(t, state)
	p = start(t, path, "-resync", "300ms")
	for _, name := range []string{"f0", "f1"} {
		for _, args := range []string{"link add " + name + " type ifb", "link set " + name + " up"} {
			_, err := p.ip(args)
			require.NoError(t, err)
		}
	}
	p.untilHealthy()
	return p, path
}

// Another program adds, changes and deletes what the agent reads.
func TestAnotherProgramsChangesEndAsWanted(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("this needs the program ip of iproute2")
	}
	want := make(map[string][]string) // as a fresh start leaves each state
	for _, state := range walked {
		p, _ := join(t, state)
		want[state] = p.owned(state)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	p, path := join(t, walked[0])
	f := &foreign{process: p, random: rand.New(rand.NewPCG(seed, 0)), path: path, state: walked[0]}
	f.its = f.realm()
	for round := range long.Times(3) {
		f.log = nil
		for range 40 {
			f.step()
		}
		f.leave()
		f.its = f.realm()
		var have []string
		deadline := time.Now().Add(patience)
		for have = p.owned(f.state); !slices.Equal(want[f.state], have); have = p.owned(f.state) {
			if time.Now().After(deadline) {
				require.Equal(t, want[f.state], have, "round %d\n%s\n%s", round, strings.Join(f.log, "\n"), p.stderr)
			}
			<-time.After(20 * time.Millisecond)
		}
		p.untilHealthy()
		require.Equal(t, f.its, f.realm(), "round %d\n%s", round, strings.Join(f.log, "\n"))
	}
}
