// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package feed

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
)

func TestValuesAreYAMLOrJSONAndFitTheirKey(t *testing.T) {
	links, addresses := row(parseLink, config.Link.Key), row(parseAddress, config.Address.Key)
	routes, sysctls := row(parseRoute, config.Route.KeyWithMetric), row(parseSysctl, config.Sysctl.Key)
	for _, value := range []string{"{name: br0, kind: bridge}", `{"name": "br0", "kind": "bridge"}`, "name: br0\nkind: bridge\n"} {
		link, err := links("br0", []byte(value))
		require.NoError(t, err, value)
		assert.Equal(t, "br0", link.Spec.Key())
		assert.Equal(t, Source, link.Source)
	}
	address, err := addresses("br0/10.0.0.1/24", []byte("{dev: br0, cidr: 10.0.0.1/24}"))
	require.NoError(t, err)
	assert.Equal(t, "br0/10.0.0.1/24", address.Spec.Key())
	_, err = sysctls("net.ipv4.ip_forward", []byte("{name: net.ipv4.ip_forward, value: 1}"))
	require.NoError(t, err)

	route, err := routes("main/10.1.0.0/16/5", []byte("{dst: 10.1.0.0/16, dev: br0, metric: 5}"))
	require.NoError(t, err)
	assert.Equal(t, "etcd/main/10.1.0.0/16/5", desired.WantedKey(route.Source, route.Spec))

	_, err = links("br1", []byte("{name: br0, kind: bridge}"))
	assert.EqualError(t, err, `the value is of "br0", so it must be at that key`)
	_, err = links("v", []byte("{name: v, kind: veth, peer: w}"))
	assert.ErrorContains(t, err, "a veth is two links")
	_, err = routes("main/10.1.0.0/16", []byte("{dst: 10.1.0.0/16, via: 10.0.0.2}"))
	assert.ErrorContains(t, err, "dev is missing")
	for _, value := range []string{"", "{", "[]", "{dst: 10.1.0.0/16, dev: br0, typo: 1}"} {
		_, err = routes("main/10.1.0.0/16", []byte(value))
		assert.Error(t, err, value)
	}
}

func TestPartsNameAgentsAndTables(t *testing.T) {
	for _, table := range Tables {
		assert.Equal(t, "agent-1", Agent(Part("agent-1", table)))
	}
	assert.Len(t, Tables, 4)
	assert.Contains(t, Tables, desired.RoutesTable)
}
