// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pages

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestServiceIsInForceWhenItsRoutesAre(t *testing.T) { synctest.Test(t, testService) }
func testService(t *testing.T) {
	db, registry := reconcilertest.NewDB(t), &inspect.Registry{}
	services, _ := statedb.NewTableAny(db, "services", nil, nil, byName)
	routes, _ := statedb.NewTableAny(db, "routes", nil, nil, byName)
	d, err := derive.Each(derive.Config[*Row]{DB: db, Registry: registry}, services, routes, func(s *Row) ([]*Row, error) {
		return []*Row{{Name: s.Name + "/v4"}, {Name: s.Name + "/v6"}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close) // when it does not run any more
	target := reconcilertest.NewTarget(getName, nil)
	target.Decide(func(_ context.Context, c reconcilertest.Call[*Row]) error {
		if time.Now().Second() < 10 && strings.HasSuffix(c.Key, "v6") {
			return errors.New("no such device")
		}
		return nil
	})
	loop, err := reconciler.New(reconciler.Config[*Row]{DB: db, Table: routes, Operations: target,
		Options: []reconciler.Option{reconciler.WithRegistry(registry)}})
	if err != nil {
		t.Fatal(err)
	}
	reconcilertest.Go(t, d.Run)
	reconcilertest.Go(t, loop.Run)

	wtxn := db.WriteTxn(services)
	services.Insert(wtxn, &Row{Name: "web"})
	wtxn.Commit()
	synctest.Wait()
	f, err := registry.InForce(t.Context(), "services", "web")
	if err != nil || f.Yes || f.HeldUpBy[0].Table != "routes" || f.HeldUpBy[0].Key != "web/v6" {
		t.Errorf("%v: %+v", err, f)
	}
	if f, err = registry.WaitInForce(t.Context(), "services", "web"); err != nil || !f.Yes {
		t.Errorf("%v: %+v", err, f)
	}
}
