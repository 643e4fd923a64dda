// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pages

import (
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/status"
)

type Host struct {
	Name     string
	Statuses status.Set
}

func newHosts(db *statedb.DB) (statedb.RWTable[*Host], error) {
	return statedb.NewTableAny(db, "hosts", nil, nil, statedb.Index[*Host, string]{Name: "name", Unique: true,
		FromObject: func(s *Host) index.KeySet { return index.NewKeySet(index.String(s.Name)) }})
}

// start starts one of the reconcilers: each has a name, and a status by that name.
func start(e *reconcilertest.Env[*Host], name string) {
	get := func(s *Host) reconciler.Status { return s.Statuses.Get(name) }
	set := func(s *Host, st reconciler.Status) *Host { s.Statuses = s.Statuses.Set(name, st); return s }
	e.Start(reconciler.Config[*Host]{
		Operations: reconcilertest.NewTarget(func(s *Host) string { return s.Name }, get),
		Clone:      func(s *Host) *Host { c := *s; return &c }, GetStatus: get, SetStatus: set,
		Options: []reconciler.Option{reconciler.WithName(name)},
	})
}

func TestHostIsDoneWhenBothReconcilersAre(t *testing.T) {
	reconcilertest.Run(t, newHosts, func(e *reconcilertest.Env[*Host]) {
		web := &Host{Name: "web", Statuses: status.NewSet("dns", "lb")}
		e.Insert(web)
		start(e, "dns")
		if row, _ := e.Get(web); row.Statuses.IsDone() {
			e.Error("done before the load balancer has the host")
		}
		start(e, "lb")
		if row, _ := e.Get(web); !row.Statuses.IsDone() {
			e.Errorf("not done: %s", row.Statuses)
		}
	})
}
