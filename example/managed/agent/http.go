// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/statekeel/statekeel/example/internal/httpserve"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// httpCell serves the agent's HTTP interface:
//
//	GET /healthz             200 if all tunnels are as listed in the file, else 503 with those that are not
//	GET /tunnels             the tunnels, as JSON
//	GET /events              the events of the tunnels, as JSON
//	GET /debug/reconciler/   a page that shows what the reconciler does, and why
var httpCell = cell.Module(
	"http",
	"Serves tunnels and events and a page over HTTP",

	cell.ProvidePrivate(job.Registry.NewGroup),
	cell.Invoke(func(jobs job.Group, o Options, db *statedb.DB, tunnels statedb.RWTable[*Tunnel], events statedb.Table[*event.Row], registry *inspect.Registry) {
		if o.Listener == nil {
			return
		}
		mux := http.NewServeMux()
		mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { healthz(w, db, tunnels) })
		mux.HandleFunc("GET /tunnels", func(w http.ResponseWriter, _ *http.Request) { dump(w, db, tunnels) })
		mux.HandleFunc("GET /events", func(w http.ResponseWriter, _ *http.Request) { dump(w, db, events) })
		mux.Handle("/debug/reconciler/", debug.New(registry, debug.WithHosts()))
		jobs.Add(job.OneShot("http", func(ctx context.Context, _ cell.Health) error {
			return httpserve.Serve(ctx, o.Listener, mux)
		}))
	}),
)

func healthz(w http.ResponseWriter, db *statedb.DB, tunnels statedb.Table[*Tunnel]) {
	txn := db.ReadTxn()
	var wrong []string
	if initialized, _ := tunnels.Initialized(txn); !initialized {
		wrong = append(wrong, "the file has not been read yet")
	}
	count := 0
	for t := range tunnels.All(txn) {
		count++
		if managed.WasDeleted(t) || !managed.IsReady(t) || !managed.IsSynced(t) {
			wrong = append(wrong, strings.Join(t.TableRow(), "  "))
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := fmt.Sprintf("ok, %d tunnels\n", count)
	if len(wrong) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = strings.Join(wrong, "\n") + "\n"
	}
	// An error means that the client is gone.
	_, _ = w.Write([]byte(text))
}

// dump writes all rows of a table as JSON.
func dump[Row any](w http.ResponseWriter, db *statedb.DB, table statedb.Table[Row]) {
	w.Header().Set("Content-Type", "application/json")
	rows := statedb.Collect(table.All(db.ReadTxn()))
	_ = json.NewEncoder(w).Encode(rows) // an error means that the client is gone
}
