// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/request"
)

// loading registers an initializer of the table of pods, and returns the function that completes
// it.
func (e *env) loading(name string) (loaded func()) {
	wtxn := e.db.WriteTxn(e.pods)
	done := e.pods.RegisterInitializer(wtxn, name)
	wtxn.Commit()
	return func() {
		wtxn := e.db.WriteTxn(e.pods)
		done(wtxn)
		wtxn.Commit()
	}
}

// A reconciler that creates what is missing would create everything again at every start if it were
// called before the tables are complete.
func TestRequestsWaitUntilAllSourceTablesAreInitialized(t *testing.T) {
	for name, opts := range map[string][]reconciler.Option{
		"1 worker": nil, "8 workers": {reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 8 })},
	} {
		t.Run(name, func(t *testing.T) {
			var loaded func()
			inBubble(t, func(e *env) {
				e.put("api", 1)
				e.controller.Add(named("shop", "added"))
				require.Empty(e, e.took())
				held := `Blocked: waiting until table "pods" is initialised by: loader`
				require.Equal(e, rows{"shop/web": held, "shop/api": held, "shop/added": held}, e.rows())

				loaded()
				require.ElementsMatch(e, []string{"shop/web", "shop/api", "shop/added"}, e.took())
				require.Equal(e, rows{"shop/web": "Done", "shop/api": "Done"}, e.rows())
			}, func(e *env, cfg *config) {
				e.put("web", 1)
				loaded = e.loading("loader")
				cfg.Sources = append(cfg.Sources, request.Owns(e.pods, (*pod).owner))
			}, opts...)
		})
	}
}

// The tables of all sources count, each with all its initializers.
func TestRequestsWaitForEveryInitializer(t *testing.T) {
	var first, second func()
	inBubble(t, func(e *env) {
		e.put("web", 1)
		require.Equal(e, rows{"shop/web": `Blocked: waiting until table "pods" is initialised by: a, b`}, e.rows())
		first()
		require.Empty(e, e.took())
		second()
		require.Equal(e, []string{"shop/web"}, e.took())
		second = e.loading("late")
		e.put("web", 2)
		require.Equal(e, []string{"shop/web"}, e.took(), "a later initializer does not block requests again")
	}, func(e *env, cfg *config) {
		first, second = e.loading("a"), e.loading("b")
		watch := func(*pod) []request.Request { return nil }
		cfg.Sources = append(cfg.Sources, request.Watches(e.pods, watch), request.Owns(e.pods, (*pod).owner))
	})
}

func TestBeforeInitializedDoesNotWaitForTables(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("web", 1)
		require.Equal(e, []string{"shop/web"}, e.took())
		require.Equal(e, rows{"shop/web": "Done"}, e.rows())
	}, func(e *env, cfg *config) {
		e.loading("never")
		cfg.BeforeInitialized = true
		cfg.Sources = append(cfg.Sources, request.Owns(e.pods, (*pod).owner))
	})
}
