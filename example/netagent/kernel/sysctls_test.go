// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/netagent/config"
)

func (f *fixture) sysctl(name string) string {
	f.Helper()
	value, err := readSysctl(config.Sysctl{Name: name})
	require.NoError(f, err)
	return value
}

func TestRestoringASysctlOfARemovedLinkIsNoError(t *testing.T) {
	f := newFixture(t)
	state := f.state("links: [{name: br0, kind: bridge}]\nsysctls: {net.ipv4.conf.br0.rp_filter: 2}")
	f.update(state)
	require.NoError(t, remove(f, f.Links, state.Links[0].Spec))
	assert.EqualError(t, update(f, f.Sysctls, state.Sysctls[0].Spec), `link "br0" (not asked for here) is missing`)
	assert.NoError(t, remove(f, f.Sysctls, state.Sysctls[0].Spec))
}

func TestInvalidSysctlsAreErrors(t *testing.T) {
	f := newFixture(t)
	for _, test := range []struct{ name, value, outcome, text string }{
		// A module or a larger MTU may add a setting of this name.
		{"net.ipv4.nonsense", "1", "Retried", "unknown in a network namespace"},
		{"net.ipv4.conf.lo.nonsense", "1", "Retried", "links have no such setting"},
		{"net.ipv4.conf", "1", "Terminal", "names a group of settings, not one of them"},
		{"net.ipv4.ip_forward", "many", "Terminal", `set to "many": write /proc/sys/net/ipv4/ip_forward: invalid argument`},
		{"net.core.somaxconn", "0x80", "Terminal", `set to "0x80", the kernel made it "128"`},
		{"net.ipv4.tcp_available_congestion_control", "x", "Terminal",
			"open /proc/sys/net/ipv4/tcp_available_congestion_control: permission denied (the kernel does not let a namespace change this one)"},
	} {
		err := update(f, f.Sysctls, config.Sysctl{Name: test.name, Value: test.value})
		assert.EqualError(t, err, fmt.Sprintf("sysctl %q: %s", test.name, test.text))
		assert.Equal(t, test.outcome, outcome(err), test.name)
	}
}

func TestSysctlsWithoutARowStay(t *testing.T) {
	f := newFixture(t)
	f.update(f.state("sysctls: {net.ipv4.ip_forward: 1}"))
	converge(f, f.Sysctls, nil)
	assert.Equal(t, "1", f.sysctl("net.ipv4.ip_forward"))
}
