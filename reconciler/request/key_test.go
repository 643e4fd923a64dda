// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/request"
)

// reconciledKeys returns the keys of the rows of reqs, and the arguments of the calls of Reconcile.
func reconciledKeys[Req comparable](t *testing.T, keyOf func(Req) index.Key, reqs ...Req) (keys []string, called []Req) {
	synctest.Test(t, func(t *testing.T) {
		db := statedb.New()
		require.NoError(t, db.Start())
		c, err := request.New(request.Config[Req]{
			DB: db, KeyOf: keyOf, Name: "keys",
			Reconciler: request.Func[Req](func(_ context.Context, req Req) (request.Result, error) {
				called = append(called, req)
				return request.Result{}, reconciler.Blocked("keeps the row")
			}),
		})
		require.NoError(t, err)
		c.Add(reqs...)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		synctest.Wait()
		for row := range c.Table().All(db.ReadTxn()) {
			keys = append(keys, row.TableRow()[0])
		}
		for _, key := range keys {
			require.Equal(t, inspect.StateBlocked, c.Loop().Explain(t.Context(), key).State, key)
		}
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, db.Stop())
	})
	return keys, called
}

// Different requests have different keys.
func TestAnyComparableTypeIsARequest(t *testing.T) {
	t.Run("struct", func(t *testing.T) {
		type port struct {
			host   string
			number uint16
			flags  [2]bool
			of     request.NamespacedName
		}
		reqs := []port{
			{"a/b", 80, [2]bool{true, false}, request.NamespacedName{Namespace: "n", Name: "x/y"}},
			{"a", 80, [2]bool{true, false}, request.NamespacedName{Namespace: "n/x", Name: "y"}},
		}
		keys, called := reconciledKeys(t, nil, append(reqs, reqs[0])...)
		require.ElementsMatch(t, []string{`a\/b/80/true/false/n/x/y`, `a/80/true/false/n\/x/y`}, keys)
		require.ElementsMatch(t, reqs, called)
	})
	t.Run("own KeyOf", func(t *testing.T) {
		keys, called := reconciledKeys(t, func(f float64) index.Key { return index.String(map[float64]string{0.5: "half"}[f]) }, 0.5)
		require.Equal(t, []string{"half"}, keys)
		require.Equal(t, []float64{0.5}, called)
	})
}
