// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func itoa(n int) string { return strconv.Itoa(n) }

// vars holds the values of /debug/vars that the tests use.
type vars struct {
	Rounds map[string]int `json:"reconciliation_count"`
	Errors map[string]int `json:"reconciliation_total_errors"`
	Prunes map[string]int `json:"prune_count"`
	Writes map[string]int `json:"kernel_writes"`
}

func (p *process) vars() (v vars) {
	p.Helper()
	code, body := p.request("GET", "/debug/vars", "")
	require.Equal(p, http.StatusOK, code)
	require.NoError(p, json.Unmarshal([]byte(body), &v))
	return v
}

func TestMetricsAndTablesAreServedToTheHost(t *testing.T) {
	t.Parallel()
	p := start(t, write(t, small))
	p.untilHealthy()

	v := p.vars()
	for _, name := range []string{"links", "addresses", "routes", "sysctls"} {
		assert.NotZero(t, v.Rounds["netagent/"+name], "%v", v)
	}
	code, body := p.request("GET", "/statedb", "") // follows the redirect
	assert.Equal(t, http.StatusOK, code)
	var dump map[string][]map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &dump))
	assert.Len(t, dump["links"], 3)
	assert.Len(t, dump["routes"], 2)

	code, body = p.request("GET", "/healthz", "")
	assert.Equal(t, http.StatusOK, code)
	assert.Equal(t, "ok, 7 objects are Done\n", body)
}

func TestSingleObjectsArePutAndDeleted(t *testing.T) {
	t.Parallel()
	path := write(t, small)
	p := start(t, path)
	p.untilHealthy()

	for _, put := range []struct {
		path, body string
		code       int
	}{
		{"/v1/links/b0", `{"name": "b0", "kind": "veth", "peer": "b1"}`, 201},
		{"/v1/addresses/b1/10.9.0.1/24", `{"dev": "b1", "cidr": "10.9.0.1\/24"}`, 201},
		{"/v1/routes-wanted/api/main/10.8.0.0/16", "dst: 10.8.0.0/16\nvia: 10.9.0.2\n", 201},
		{"/v1/sysctls/net.ipv4.ip_default_ttl", `{"name": "net.ipv4.ip_default_ttl", "value": 77}`, 201},
		{"/v1/sysctls/net.ipv4.ip_default_ttl", `{"name": "net.ipv4.ip_default_ttl", "value": 78}`, 200},
	} {
		code, answer := p.request("PUT", put.path, put.body)
		require.Equal(t, put.code, code, "%s: %s", put.path, answer)
		assert.Contains(t, answer, `"source": "api"`)
	}
	p.untilHealthy()
	assert.Equal(t, []string{"a0", "a1", "b0", "b1", "br0"}, p.links())
	assert.Equal(t, []string{"10.9.0.1/24"}, p.addresses("b1"))
	assert.Contains(t, p.routes(unix.RT_TABLE_MAIN), "10.8.0.0/16 via 10.9.0.2")
	assert.Equal(t, "78", p.sysctl("net.ipv4.ip_default_ttl"))

	// An edit of the file does not change them.
	edited := strings.Replace(small, "10.1.0.0/16", "10.3.0.0/16", 1)
	require.NoError(t, writeFile(path, edited))
	want := []string{"10.3.0.0/16 via 10.0.0.2", "10.8.0.0/16 via 10.9.0.2"}
	p.until("the edit is followed", func() bool {
		return slices.Equal(want, p.routes(unix.RT_TABLE_MAIN))
	})

	for _, path := range []string{"/v1/routes-wanted/api/main/10.8.0.0/16", "/v1/addresses/b1/10.9.0.1/24", "/v1/links/b1", "/v1/sysctls/net.ipv4.ip_default_ttl"} {
		code, answer := p.request("DELETE", path, "")
		assert.Equal(t, http.StatusNoContent, code, answer)
	}
	p.until("they are gone", func() bool {
		return len(p.links()) == 3 && len(p.routes(unix.RT_TABLE_MAIN)) == 1 && p.sysctl("net.ipv4.ip_default_ttl") == "64"
	})
	p.untilHealthy()
}
