// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package httpapi is a netagent's HTTP interface: its metrics, its tables, its health,
// and single objects to add and to delete.
//
//	GET    /                     the list of these paths
//	GET    /healthz              200 if all is Done and healthy, else 503 and the list of what is not
//	GET    /metrics              metrics for Prometheus
//	GET    /debug/vars           metrics, as package expvar has them
//	GET    /debug/reconciler/    a page that shows what the reconcilers do, and why
//	GET    /statedb/dump         all tables; /statedb/dump/{table}, /statedb/changes/{table}
//	GET    /v1/{table}           the objects of a table: links, addresses, routes, routes-wanted, sysctls
//	GET    /v1/{table}/{key}     one of them
//	PUT    /v1/{table}/{key}     add or replace it; the body is as in the state file, YAML or JSON
//	DELETE /v1/{table}/{key}     delete it
//
// PUT and DELETE are for objects that are not in the state file: those of the file answer 409. A PUT answers
// 201 or 200 as soon as the object is in its table, with the object, whose status reports how far the kernel
// is. Routes are put and deleted in routes-wanted, where the keys of the API begin with "api/". That table has
// no statuses: it is routes that has the winner of each destination, and its status.
package httpapi

import (
	"encoding/json"
	"expvar"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cilium/statedb"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/health"
	"github.com/statekeel/statekeel/metrics/prometheus"
	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// API holds the dependencies of the interface. All fields are required.
type API struct {
	DB     *statedb.DB
	Tables *desired.Tables
	Store  *desired.Store
	Again  *desired.Again
	Health *health.Registry

	// Reconcilers are for the debug page, Figures for Prometheus.
	Reconcilers *inspect.Registry
	Figures     *prometheus.Metrics
}

// Handler returns the interface. It rejects requests that are not for a loopback address, and requests with
// which a web page could change something.
func (a API) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", usage)
	mux.HandleFunc("GET /healthz", a.healthz)
	mux.Handle("GET /metrics", a.scraped())
	mux.Handle("GET /debug/vars", expvar.Handler())
	// A client that may add and delete objects may also retry them.
	mux.Handle("/debug/reconciler/", debug.New(a.Reconcilers, debug.WithWrites()))
	mux.HandleFunc("GET /statedb", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/statedb/dump", http.StatusSeeOther)
	})
	mux.Handle("GET /statedb/", http.StripPrefix("/statedb", a.onlyKnownTables(a.DB.HTTPHandler())))
	serve(mux, a, resource[config.Link]{
		table: a.Tables.Links, loop: a.Tables.Loops.Links, key: desired.Key[config.Link],
		parse: config.ParseLink, put: a.Store.PutLink, delete: a.Store.DeleteLink,
	})
	serve(mux, a, resource[config.Address]{
		table: a.Tables.Addresses, loop: a.Tables.Loops.Addresses, key: desired.Key[config.Address],
		parse: single(config.ParseAddress), put: first(a.Store.PutAddress), delete: a.Store.DeleteAddress,
	})
	serve(mux, a, resource[config.Route]{
		table: a.Tables.RoutesWanted, key: desired.WantedKey,
		parse: single(config.ParseRoute), put: first(a.Store.PutRoute), delete: a.Store.DeleteRoute,
	})
	serve(mux, a, resource[config.Route]{table: a.Tables.Routes, loop: a.Tables.Loops.Routes})
	serve(mux, a, resource[config.Sysctl]{
		table: a.Tables.Sysctls, loop: a.Tables.Loops.Sysctls, key: desired.Key[config.Sysctl],
		parse: single(config.ParseSysctl), put: first(a.Store.PutSysctl), delete: a.Store.DeleteSysctl,
	})
	return guard(mux)
}

const usageText = `netagent
GET    /healthz              200 if all is Done and healthy, else 503 and the list of what is not
GET    /metrics              metrics for Prometheus
GET    /debug/vars           metrics
GET    /debug/reconciler/    a page that shows what the reconcilers do, and why
GET    /statedb/dump         all tables; also /statedb/dump/{table}, /statedb/changes/{table}
GET    /v1/{table}           the objects of a table: links, addresses, routes, routes-wanted, sysctls
GET    /v1/{table}/{key}     one of them
PUT    /v1/{table}/{key}     ask for it; the body is as in the state file, YAML or JSON
DELETE /v1/{table}/{key}     stop asking for it
Routes are put and deleted in routes-wanted, by api/TABLE/DST or api/TABLE/DST/METRIC.
`

func usage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	reply(w, http.StatusOK, usageText)
}

func (a API) healthz(w http.ResponseWriter, _ *http.Request) {
	snapshot, _, whole := a.Again.Look()
	var wrong []string
	if !snapshot.Initialized {
		wrong = append(wrong, "the state file has not been read yet")
	}
	for _, item := range snapshot.Unsettled() {
		wrong = append(wrong, item.String())
	}
	if len(wrong) == 0 && !whole {
		wrong = append(wrong, "what a change to a link took along is not known yet")
	}
	for _, report := range a.Health.Degraded() {
		wrong = append(wrong, report.String())
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(wrong) > 0 {
		reply(w, http.StatusServiceUnavailable, strings.Join(wrong, "\n")+"\n")
		return
	}
	reply(w, http.StatusOK, fmt.Sprintf("ok, %d objects are Done\n", len(snapshot.Items)))
}

// onlyKnownTables answers 404 for tables that the database does not have: the database's handler would
// panic.
func (a API) onlyKnownTables(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, ok := strings.CutPrefix(r.URL.Path, "/dump/"); ok {
			known := slices.ContainsFunc(a.DB.GetTables(a.DB.ReadTxn()), func(t statedb.TableMeta) bool { return t.Name() == name })
			if !known {
				fail(w, http.StatusNotFound, fmt.Errorf("table %q %w", name, desired.ErrNotFound))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// scraped serves the metrics for Prometheus.
func (a API) scraped() http.Handler {
	registry := client.NewRegistry()
	registry.MustRegister(a.Figures)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// fail answers with an error.
func fail(w http.ResponseWriter, code int, err error) {
	answer(w, code, map[string]string{"error": err.Error()})
}

// answer answers with a value as JSON.
func answer(w http.ResponseWriter, code int, value any) {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		code, body = http.StatusInternalServerError, []byte(`{"error": "the answer cannot be JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	reply(w, code, string(body)+"\n")
}

func reply(w http.ResponseWriter, code int, body string) {
	w.WriteHeader(code)
	// An error means that the client has disconnected.
	_, _ = w.Write([]byte(body))
}
