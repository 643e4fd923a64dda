// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/kernel/kerneltest"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// explain returns what a reconciler or a derivation says of a key.
func (p *process) explain(name, key string) (x inspect.Explanation) {
	p.Helper()
	code, body := p.request("GET", "/debug/reconciler/explain?format=json&reconciler="+name+"&key="+key, "")
	require.Equal(p, http.StatusOK, code, body)
	require.NoError(p, json.Unmarshal([]byte(body), &x))
	return x
}

func TestAnotherWinnerIsOneUpdateWithoutAGap(t *testing.T) {
	t.Parallel()
	const key = "main/10.1.0.0/16"
	p := start(t, write(t, strings.Replace(small, "via: 10.0.0.2}", "via: 10.0.0.2, metric: 50}", 1)), "-resync", "0")
	p.untilHealthy()
	// replaces makes a request that leads to another winner, with these numbers of routes meanwhile.
	replaces := func(method, key, body, via string, counts ...int) {
		t.Helper()
		var seen *kerneltest.Routes
		p.inside(func() (err error) {
			seen, err = kerneltest.WatchRoutes(route("10.1.0.0/16"))
			return err
		})
		before := time.Now()
		code, answer := p.request(method, "/v1/routes-wanted/"+key, body)
		require.Contains(t, []int{200, 201, 204}, code, answer)
		p.untilHealthy()
		var got []int
		p.inside(func() (err error) {
			got, err = seen.End()
			return err
		})
		assert.Equal(t, counts, got)
		assert.Equal(t, []string{"10.1.0.0/16 via " + via}, p.routes(unix.RT_TABLE_MAIN))
		operations := 0
		for _, event := range p.explain("routes", "main/10.1.0.0/16").Operations {
			if event.Started.After(before) {
				operations++
			}
		}
		assert.Equal(t, 1, operations)
	}
	replaces("PUT", "api/"+key, "{dst: 10.1.0.0/16, via: 10.0.0.3}", "10.0.0.3", 2, 1)
	replaces("PUT", "api/"+key, "{dst: 10.1.0.0/16, via: 10.0.0.4}", "10.0.0.4", 1)

	code, _ := p.request("PUT", "/v1/routes-wanted/api/"+key+"/60", "{dst: 10.1.0.0/16, via: 10.0.0.5, metric: 60}")
	require.Equal(t, http.StatusCreated, code)
	p.until("the loser is derived", func() bool { return p.explain("derive-routes", "api/"+key+"/60").State == inspect.StateDone })
	replaces("DELETE", "api/"+key, "", "10.0.0.2", 2, 1)
	assert.NotContains(t, p.stderr.String(), "removed what no row asks for")
}
