// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pages

import (
	"errors"
	"testing"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/source"
)

func TestStoreFillsATable(t *testing.T) {
	reconcilertest.Run(t, newRoutes, func(e *reconcilertest.Env[*Route]) {
		kernel := reconcilertest.NewTarget(getPrefix, nil)
		e.Start(reconciler.Config[*Route]{Operations: kernel})
		store, err := source.New(source.Config[*Route]{Name: "store", DB: e.DB, Table: e.Table,
			Owner: func(r *Route) string { return r.Owner }})
		if err != nil {
			e.Fatal(err)
		}
		e.Cleanup(store.Close)
		e.Insert(&Route{"10.9.0.0/16", "lo", "operator"})

		list := func(prefixes ...string) (routes []*Route) {
			for _, prefix := range prefixes {
				routes = append(routes, &Route{prefix, "eth0", "store"})
			}
			return routes
		}
		store.Replace(e.Context(), list("10.1.0.0/16", "10.2.0.0/16"), 7)
		store.Apply(e.Context(), []source.Change[*Route]{{Object: list("10.1.0.0/16")[0], Deleted: true}}, 8)
		store.Disconnected(errors.New("no route to host")) // Nothing is removed.
		changed, err := store.Replace(e.Context(), list("10.2.0.0/16", "10.9.0.0/16"), 9)
		e.Pass(0)
		// Only the route of another owner is an error, and it is left alone.
		if state := store.State(); err == nil || changed != 0 || state.Rejected != 1 || state.Input != 9 {
			e.Errorf("changed %d rows, %v: %+v", changed, err, state)
		}
		if has := kernel.Objects(); len(has) != 2 {
			e.Errorf("the kernel has %v", has)
		}
	})
}
