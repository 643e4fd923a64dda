// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package browsertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// route is the row of the tests.
type route struct {
	Name   string
	Status reconciler.Status
}

func (r *route) Clone() *route                        { c := *r; return &c }
func (r *route) GetStatus() reconciler.Status         { return r.Status }
func (r *route) SetStatus(s reconciler.Status) *route { r.Status = s; return r }
func (r *route) TableHeader() []string                { return []string{"Name", "Status"} }
func (r *route) TableRow() []string                   { return []string{r.Name, r.Status.String()} }

var routeName = statedb.Index[*route, string]{
	Name:       "name",
	FromObject: func(r *route) index.KeySet { return index.NewKeySet(index.String(r.Name)) },
	FromKey:    index.String, FromString: index.FromString, Unique: true,
}

// kernel is the target. It accepts routes, except those whose names ask for a failure or a block.
type kernel struct{ takes time.Duration }

func (k kernel) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *route) error {
	time.Sleep(k.takes)
	switch {
	case strings.Contains(r.Name, "blocked"):
		return reconciler.Blocked("device eth1 is not there")
	case strings.Contains(r.Name, "fail"), strings.HasPrefix(r.Name, "<"):
		return errors.New("no route to host " + r.Name)
	}
	return nil
}

func (kernel) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *route) error { return nil }

// world is a running loop, and a server with its page.
type world struct {
	*testing.T
	db    *statedb.DB
	table statedb.RWTable[*route]
	loop  *reconciler.Loop[*route]
	root  string // address of the page
	// before, if it is set, is called before a request is answered.
	before atomic.Pointer[func(*http.Request)]

	mu sync.Mutex
	// posts are the statuses and paths of the POSTs. fastest has the shortest time of an answer for
	// each page and format.
	posts   []string
	fastest map[string]time.Duration
}

func newWorld(t *testing.T, opts ...debug.Option) *world { return newWorldOf(t, kernel{}, opts...) }

func newWorldOf(t *testing.T, target kernel, opts ...debug.Option) *world {
	w := &world{T: t, db: statedb.New(), fastest: map[string]time.Duration{}}
	require.NoError(t, w.db.Start())
	t.Cleanup(func() { require.NoError(t, w.db.Stop()) })
	var err error
	w.table, err = statedb.NewTable(w.db, "routes", routeName)
	require.NoError(t, err)
	w.loop, err = reconciler.New(reconciler.Config[*route]{
		DB: w.db, Table: w.table, Clone: (*route).Clone, SetStatus: (*route).SetStatus, GetStatus: (*route).GetStatus,
		Operations: target, ModuleID: cell.FullModuleID{"agent"},
		Options: []reconciler.Option{reconciler.WithName("routes"), reconciler.WithRetry(time.Second, time.Minute), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 })},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.loop.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })

	registry := &inspect.Registry{}
	registry.Add(w.loop)
	mux := http.NewServeMux()
	mux.Handle("/debug/reconciler/", http.StripPrefix("/debug/reconciler", debug.New(registry, opts...)))
	server := httptest.NewServer(w.watch(mux))
	t.Cleanup(server.Close)
	w.root = server.URL + "/debug/reconciler/"
	return w
}

// watch records the POSTs and the time of the answers.
func (w *world) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if before := w.before.Load(); before != nil {
			(*before)(r)
		}
		path := r.Method + " " + r.URL.Path
		began, seen := time.Now(), &statusWriter{ResponseWriter: out, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		took := time.Since(began)
		w.mu.Lock()
		defer w.mu.Unlock()
		if r.Method == http.MethodPost {
			w.posts = append(w.posts, fmt.Sprintf("%d %s", seen.status, path[strings.LastIndex(path, "/")+1:]))
		}
		request := path + " " + r.URL.Query().Get("format")
		if r.URL.Query().Has("after") {
			request += " next page"
		}
		if best, again := w.fastest[request]; !again || took < best {
			w.fastest[request] = took
		}
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (w *world) posted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.posts)
}

func (w *world) put(names ...string) {
	wtxn := w.db.WriteTxn(w.table)
	for _, name := range names {
		_, _, err := w.table.Insert(wtxn, &route{Name: name, Status: reconciler.StatusPending()})
		require.NoError(w, err)
	}
	wtxn.Commit()
}

func (w *world) remove(names ...string) {
	wtxn := w.db.WriteTxn(w.table)
	for _, name := range names {
		_, _, err := w.table.Delete(wtxn, &route{Name: name})
		require.NoError(w, err)
	}
	wtxn.Commit()
}

// settle waits until all rows have been attempted.
func (w *world) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, _, err := w.loop.WaitUntilReconciled(ctx, w.table.Revision(w.db.ReadTxn()))
	require.NoError(w, err)
}

// url returns the address of a page about the reconciler. rest are names and values of further fields.
func (w *world) url(page string, rest ...string) string {
	values := url.Values{"reconciler": {"agent/routes"}}
	for i := 0; i+1 < len(rest); i += 2 {
		values.Set(rest[i], rest[i+1])
	}
	return w.root + page + "?" + values.Encode()
}

// under returns an address with another name of this machine.
func under(name, address string) string { return strings.Replace(address, "127.0.0.1", name, 1) }
