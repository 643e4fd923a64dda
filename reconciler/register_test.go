// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"testing"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/hivetest"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// params returns the Params of a module in a hive that never starts.
func params(t *testing.T) (p reconciler.Params) {
	h := hive.New(statedb.Cell, job.Cell, cell.SimpleHealthCell, cell.Module("test", "Test",
		cell.Provide(job.Registry.NewGroup),
		cell.Invoke(func(got reconciler.Params) { p = got }),
	))
	require.NoError(t, h.Populate(hivetest.Logger(t)))
	return p
}

// Register refreshes by default, as the peer does. RegisterConfig does not, since refreshes without
// need have hurt users. An option overrides both defaults.
func TestRefreshDefaultsOfRegisterAndRegisterConfigDiffer(t *testing.T) {
	p := params(t)
	table, err := statedb.NewTable(p.DB, "objects", idIndex)
	require.NoError(t, err)
	register := func(options ...reconciler.Option) reconciler.Settings {
		r, err := reconciler.Register(p, table, (*object).Clone, (*object).SetStatus, (*object).GetStatus, newTarget(), nil, options...)
		require.NoError(t, err)
		return r.(*reconciler.Loop[*object]).Settings()
	}
	require.Equal(t, 30*time.Minute, register().RefreshInterval)
	require.EqualValues(t, 100, register().RefreshLimiter.Limit())
	require.NotSame(t, register().RefreshLimiter, register().RefreshLimiter, "reconcilers share no limiter")
	require.Zero(t, register(reconciler.WithRefreshing(0, nil)).RefreshInterval)
	require.Nil(t, register(reconciler.WithRefreshing(time.Hour, nil)).RefreshLimiter)

	loop, err := reconciler.RegisterConfig(p, reconciler.Config[*object]{
		Table: table, Operations: newTarget(),
		Clone: (*object).Clone, SetStatus: (*object).SetStatus, GetStatus: (*object).GetStatus,
	})
	require.NoError(t, err)
	require.Zero(t, loop.Settings().RefreshInterval)
}
