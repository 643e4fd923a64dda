// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/desired/desiredtest"
	"github.com/statekeel/statekeel/example/netagent/health"
	"github.com/statekeel/statekeel/metrics/prometheus"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const file = `
links: [{name: br0, kind: bridge}]
addresses: [{dev: br0, cidr: 10.0.0.1/24}]
routes: [{dst: default, via: 10.0.0.2}]
sysctls: {net.ipv4.ip_forward: 1}
`

type fixture struct {
	*testing.T
	api     API
	handler http.Handler
	health  cell.Health
	links   *desiredtest.Loop[*desired.Link]
	best    *derive.Derived[*desired.Route, *desired.Route]
}

func newFixture(t *testing.T) *fixture {
	db := reconcilertest.NewDB(t)
	tables, err := desired.NewTables(db)
	require.NoError(t, err)
	registry, root := health.New()
	figures, err := prometheus.New()
	require.NoError(t, err)
	links := desiredtest.NewLoop(tables.Links)
	tables.Loops = desired.Loops{
		Links: links, Addresses: desiredtest.NewLoop(tables.Addresses),
		Routes: desiredtest.NewLoop(tables.Routes), Sysctls: desiredtest.NewLoop(tables.Sysctls),
	}
	best, err := desired.NewBestRoutes(derive.Config[*desired.Route]{}, db, tables)
	require.NoError(t, err)
	t.Cleanup(best.Close)
	reconcilertest.Go(t, best.Run)
	api := API{
		DB: db, Tables: tables, Store: desired.NewStore(db, tables), Again: desired.NewAgain(db, tables),
		Health: registry, Reconcilers: &inspect.Registry{}, Figures: figures,
	}
	return &fixture{t, api, api.Handler(), root.NewScope("part"), links, best}
}

func (f *fixture) apply(yaml string) {
	state, err := config.Parse("f", []byte(yaml))
	require.NoError(f, err)
	f.api.Store.Apply(state)
	f.derive()
}

// derive waits until the table of routes has what follows from the wanted routes.
func (f *fixture) derive() {
	f.Helper()
	_, err := f.best.WaitAll(f.Context(), reconciler.Attempted)
	require.NoError(f, err)
}

func (f *fixture) do(method, path, body string, headers ...string) (code int, answer string) {
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	request.Host = "127.0.0.1:7070"
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
	}
	recorder := httptest.NewRecorder()
	f.handler.ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.String()
}

func TestObjectsAreReadAloneAndAsAList(t *testing.T) {
	f := newFixture(t)
	code, body := f.do("GET", "/v1/routes", "")
	assert.Equal(t, 200, code)
	assert.Equal(t, "[]\n", body)
	f.apply(file)
	for path, want := range map[string]string{
		"/v1/links/br0":                   `{"name": "br0", "kind": "bridge", "mtu": 1500, "up": true}`,
		"/v1/addresses/br0/10.0.0.1/24":   `{"dev": "br0", "cidr": "10.0.0.1/24"}`,
		"/v1/routes/main/0.0.0.0/0":       `{"table": "main", "dst": "0.0.0.0/0", "via": "10.0.0.2", "dev": "br0", "metric": 0, "scope": "global"}`,
		"/v1/sysctls/net.ipv4.ip_forward": `{"name": "net.ipv4.ip_forward", "value": "1"}`,
	} {
		code, body := f.do("GET", path, "")
		require.Equal(t, 200, code, path)
		var row struct {
			Spec   json.RawMessage
			Source string
			Status reconciler.Status
		}
		require.NoError(t, json.Unmarshal([]byte(body), &row))
		assert.JSONEq(t, want, string(row.Spec))
		assert.Equal(t, "file", row.Source)
		assert.Equal(t, reconciler.StatusKindPending, row.Status.Kind)
	}
	code, body = f.do("GET", "/v1/routes/main/10.0.0.0/8", "")
	assert.Equal(t, 404, code)
	assert.JSONEq(t, `{"error": "routes \"main/10.0.0.0/8\" not found"}`, body)
	code, body = f.do("GET", "/v1/links", "")
	assert.Equal(t, 200, code)
	assert.Contains(t, body, `"name": "br0"`)
	code, body = f.do("GET", "/v1/routes-wanted", "")
	assert.Equal(t, 200, code)
	assert.Contains(t, body, `"via": "10.0.0.2"`)
	assert.NotContains(t, body, "status")
}

func TestPutAndDeleteReportErrors(t *testing.T) {
	f := newFixture(t)
	f.apply(file)
	for _, test := range []struct {
		method, path, body string
		code               int
		want               string // the error
	}{
		{"PUT", "/v1/links/v0", "{name: v0, kind: veth, peer: v1}", 201, ""},
		{"PUT", "/v1/links/v0", "{name: v0, kind: veth, peer: v2}", 200, ""},
		{"PUT", "/v1/links/v3", "{name: v0, kind: bridge}", 400, `the path is that of "v3", the body describes "v0"`},
		{"PUT", "/v1/links/v0", "{name: v0", 400, `body:1: did not find expected ',' or '}'`},
		{"PUT", "/v1/links/v0", "name: v0\nkind: tun\n", 400, `body:2:7: unknown kind "tun" of link; known are bridge, loopback, veth`},
		{"PUT", "/v1/links/v0", "", 400, "body:1: is empty; to ask for nothing at all, write {}"},
		{"PUT", "/v1/links/br0", "{name: br0, kind: bridge}", 409, `links "br0" comes from the state file: edit it there`},
		{"PUT", "/v1/routes/main/10.9.0.0/16", `{"dst": "10.9.0.0/16", "via": "10.0.0.3"}`, 405, ""},
		{"PUT", "/v1/routes-wanted/main/10.9.0.0/16", `{"dst": "10.9.0.0/16", "via": "10.0.0.3"}`, 400,
			`the path is that of "main/10.9.0.0/16", the body describes "api/main/10.9.0.0/16"`},
		{"PUT", "/v1/routes-wanted/file/main/10.9.0.0/16", `{"dst": "10.9.0.0/16", "via": "10.0.0.3"}`, 400,
			`the path is that of "file/main/10.9.0.0/16", the body describes "api/main/10.9.0.0/16"`},
		{"PUT", "/v1/routes-wanted/api/main/0.0.0.0/0", "{dst: default, via: 10.0.0.4}", 201, ""},
		{"DELETE", "/v1/routes-wanted/api/main/0.0.0.0/0", "", 204, ""},
		{"DELETE", "/v1/routes-wanted/file/main/0.0.0.0/0", "", 409, `routes-wanted "file/main/0.0.0.0/0" comes from the state file: edit it there`},
		{"PUT", "/v1/routes-wanted/api/main/10.9.0.0/16", `{"dst": "10.9.0.0/16", "via": "10.99.0.1"}`, 422,
			`body:1:31: route "main/10.9.0.0/16": its gateway 10.99.0.1 cannot be reached: no address of a link that is up has it in its network`},
		{"PUT", "/v1/sysctls/kernel.panic", "{name: kernel.panic, value: 1}", 400,
			`body:1:8: sysctl "kernel.panic" does not begin with "net.": only those belong to a network namespace`},
		{"PUT", "/v1/links/v0", strings.Repeat(" ", maxBody+1), 413, "http: request body too large"},
		{"DELETE", "/v1/links/br0", "", 409, `links "br0" comes from the state file: edit it there`},
		{"DELETE", "/v1/links/v2", "", 204, ""},
		{"DELETE", "/v1/links/v2", "", 404, `links "v2" not found`},
		{"POST", "/v1/links", "{}", 405, ""},
	} {
		code, body := f.do(test.method, test.path, test.body)
		assert.Equal(t, test.code, code, "%s %s: %s", test.method, test.path, body)
		if test.want != "" {
			var answer struct{ Error string }
			require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
			assert.Equal(t, test.want, answer.Error)
		}
	}
}

func TestHealthIsOKOnlyWhenAllIsDoneAndHealthy(t *testing.T) {
	f := newFixture(t)
	code, body := f.do("GET", "/healthz", "")
	assert.Equal(t, 503, code)
	assert.Equal(t, "the state file has not been read yet\n", body)

	f.apply("links: [{name: br0, kind: bridge}]")
	code, body = f.do("GET", "/healthz", "")
	assert.Equal(t, 503, code)
	assert.Equal(t, "link br0: Pending\n", body)

	f.setLink("br0", reconciler.StatusError(errors.New("boom")))
	_, body = f.do("GET", "/healthz", "")
	assert.Equal(t, "link br0: Error: boom\n", body)

	f.setLink("br0", reconciler.StatusDone())
	code, body = f.do("GET", "/healthz", "")
	assert.Equal(t, 200, code)
	assert.Equal(t, "ok, 1 objects are Done\n", body)
	_, body = f.do("GET", "/v1/links/br0", "")
	assert.Contains(t, body, `"kind": "Done"`)

	f.api.Again.Undid("br0", desired.UndidRoutes) // nothing handles it here
	code, body = f.do("GET", "/healthz", "")
	assert.Equal(t, 503, code)
	assert.Equal(t, "what a change to a link took along is not known yet\n", body)
	f.api.Again = desired.NewAgain(f.api.DB, f.api.Tables)
	f.handler = f.api.Handler()

	f.health.Degraded("bad", errors.New("resync: boom"))
	code, body = f.do("GET", "/healthz", "")
	assert.Equal(t, 503, code)
	assert.Equal(t, "part: bad: resync: boom\n", body)
}

func (f *fixture) setLink(name string, status reconciler.Status) {
	txn := f.api.DB.ReadTxn()
	row, _, ok := f.api.Tables.Links.Get(txn, desired.ByKey[config.Link](name))
	require.True(f, ok)
	f.links.Set(txn, row, status)
}

func TestOnlyLocalRequestsWithoutAnOriginAreServed(t *testing.T) {
	f := newFixture(t)
	f.apply(file)
	for host, want := range map[string]int{
		"127.0.0.1:7070": 200, "localhost:7070": 200, "localhost": 200, "[::1]:7070": 200, "[::1]": 200, "127.9.9.9": 200,
		"evil.example": 403, "evil.example:7070": 403, "10.0.0.1:7070": 403, "localhost.evil.example": 403, "": 403, "[::1": 403,
	} {
		for _, path := range []string{"/v1/links", "/healthz", "/metrics", "/debug/vars", "/debug/reconciler/", "/statedb/dump", "/"} {
			code, _ := f.do("GET", path, "", "Host", host)
			assert.Equal(t, want == 403, code == 403, "%s %s", host, path)
		}
	}
	put := func(headers ...string) int {
		code, _ := f.do("PUT", "/v1/links/v0", "{name: v0, kind: bridge}", headers...)
		return code
	}
	assert.Equal(t, 403, put("Origin", "http://evil.example"))
	assert.Equal(t, 403, put("Origin", "http://localhost:8080"))
	assert.Equal(t, 403, put("Sec-Fetch-Site", "cross-site"))
	assert.Equal(t, 403, put("Sec-Fetch-Site", "same-site"))
	code, _ := f.do("DELETE", "/v1/links/v0", "", "Sec-Fetch-Site", "cross-site")
	assert.Equal(t, 403, code)
	assert.Equal(t, 201, put("Origin", "http://127.0.0.1:7070"))
	assert.Equal(t, 200, put("Sec-Fetch-Site", "same-origin"))
}

func TestTablesAndUsageAreServed(t *testing.T) {
	f := newFixture(t)
	f.apply(file)
	code, body := f.do("GET", "/statedb/dump/links", "")
	assert.Equal(t, 200, code)
	assert.Contains(t, body, `"br0"`)
	code, body = f.do("GET", "/statedb/dump/nope", "")
	assert.Equal(t, 404, code)
	assert.JSONEq(t, `{"error": "table \"nope\" not found"}`, body)
	code, _ = f.do("GET", "/statedb", "")
	assert.Equal(t, 303, code)
	code, body = f.do("GET", "/", "")
	assert.Equal(t, 200, code)
	assert.Equal(t, usageText, body)
	code, _ = f.do("GET", "/nope", "")
	assert.Equal(t, 404, code)
}
