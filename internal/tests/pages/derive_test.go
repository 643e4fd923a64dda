// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pages

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cilium/statedb"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

type Service struct{ Name, Addr string }

type Slice struct{ Name, Service, Backend string }

type Frontend struct{ Addr, Backends string }

func addr(f *Frontend) string { return f.Addr }

var byService = indexBy("service", false, func(s *Slice) string { return s.Service })

func newFrontends(db *statedb.DB) (statedb.RWTable[*Frontend], error) {
	return statedb.NewTableAny(db, "frontends", nil, nil, indexBy("addr", true, addr))
}

func TestFrontendHasTheBackendsOfItsService(t *testing.T) {
	reconcilertest.Run(t, newFrontends, func(e *reconcilertest.Env[*Frontend]) {
		service := indexBy("name", true, func(s *Service) string { return s.Name })
		slice := indexBy("name", true, func(s *Slice) string { return s.Name })
		services, _ := statedb.NewTableAny(e.DB, "services", nil, nil, service)
		slices, _ := statedb.NewTableAny(e.DB, "slices", nil, nil, slice, byService)
		backends := derive.Lookup(slices, byService)
		join, err := derive.EachOf(derive.Config[*Frontend]{DB: e.DB}, services, e.Table,
			func(r *derive.Reader, s *Service) ([]*Frontend, error) {
				var all []string
				for slice := range backends.List(r, s.Name) {
					all = append(all, slice.Backend)
				}
				return []*Frontend{{s.Addr, strings.Join(all, " ")}}, nil
			}, backends)
		if err != nil {
			e.Fatal(err)
		}
		e.Cleanup(join.Close)
		reconcilertest.Go(e, join.Run)
		lb := reconcilertest.NewTarget(addr, nil)
		e.Start(reconciler.Config[*Frontend]{Operations: lb})

		// What one transaction changes in several inputs is seen at once.
		wtxn := e.DB.WriteTxn(services, slices)
		services.Insert(wtxn, &Service{"web", "10.0.0.1:80"})
		slices.Insert(wtxn, &Slice{"web-1", "web", "a"})
		wtxn.Commit()
		wtxn = e.DB.WriteTxn(slices)
		slices.Insert(wtxn, &Slice{"web-2", "web", "b"})
		slices.Insert(wtxn, &Slice{"db-1", "db", "c"})
		wtxn.Commit()
		e.Pass(0)
		synctest.Wait()
		if got := lb.Objects()["10.0.0.1:80"].Backends; got != "a b" {
			e.Errorf("the backends are %q", got)
		}
		t.Log(join.Explain(e.Context(), "slices/web-2"))
	})
}
