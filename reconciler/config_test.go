// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
)

func TestBadOptionsAreNamedWithTheirValues(t *testing.T) {
	for _, c := range []struct {
		option reconciler.Option
		want   string
	}{
		{reconciler.WithRoundLimits(0, nil), "Settings.RoundSize is 0, must be at least 1"},
		{reconciler.WithRoundLimits(-5, nil), "Settings.RoundSize is -5, must be at least 1"},
		{reconciler.WithRoundLimits(1, rate.NewLimiter(10, 0)), "Settings.RoundLimiter has rate 10 and burst 0, which never allows a round"},
		{reconciler.WithRetry(0, time.Second), "Settings.MinBackoff is 0s, must be positive"},
		{reconciler.WithRetry(time.Second, -time.Second), "Settings.MaxBackoff is -1s, must be positive"},
		{reconciler.WithRetry(time.Minute, time.Second), "Settings.MinBackoff is 1m0s, above MaxBackoff, which is 1s"},
		{reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = -0.1 }), "Settings.Jitter is -0.1, must be between 0 and 1"},
		{reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 1.5 }), "Settings.Jitter is 1.5, must be between 0 and 1"},
		{reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = math.NaN() }), "Settings.Jitter is NaN, must be between 0 and 1"},
		{reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = -1 }), "Settings.Timeout is -1ns, must not be negative"},
		{reconciler.WithRefreshing(-time.Second, nil), "Settings.RefreshInterval is -1s, must not be negative"},
		{reconciler.WithRefreshing(time.Second, rate.NewLimiter(0, 0)), "Settings.RefreshLimiter has rate 0 and burst 0, which never allows a refresh"},
		{reconciler.WithPruning(-time.Hour), "Settings.PruneInterval is -1h0m0s, must not be negative"},
		{reconciler.WithJournal(-1, 5), "WithJournal: -1 rounds and 5 operations, neither may be negative"},
	} {
		e := newEnv(t)
		cfg := e.config(c.option)
		_, err := reconciler.New(cfg)
		require.ErrorContains(e, err, c.want)
		require.ErrorContains(e, err, `reconciler "objects"`)
	}
}

func TestAllConfigErrorsAreReportedTogether(t *testing.T) {
	_, err := reconciler.New(reconciler.Config[*object]{
		Options: []reconciler.Option{
			reconciler.WithName("broken"), reconciler.WithRoundLimits(0, nil), reconciler.WithRetry(2, 1),
		},
	})
	for _, want := range []string{
		`reconciler "broken"`, "Config.DB is nil", "Config.Table is nil",
		"Config.Operations, BatchOperations and RoundOperations are all nil",
		"Settings.RoundSize is 0", "Settings.MinBackoff is 2ns, above MaxBackoff, which is 1ns",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestSomeStatusFunctionsAreAnErrorThatNamesTheMissing(t *testing.T) {
	e := newEnv(t)
	cfg := e.config()
	cfg.Clone, cfg.GetStatus = nil, nil
	_, err := reconciler.New(cfg)
	require.EqualError(e, err, "reconciler \"objects\": Config.Clone is nil, but SetStatus or GetStatus is set\nConfig.GetStatus is nil, but Clone or SetStatus is set")

	cfg = e.config()
	cfg.Clone, cfg.SetStatus, cfg.GetStatus = nil, nil, nil
	cfg.Merge = func(current, _ *object) *object { return current }
	_, err = reconciler.New(cfg)
	require.ErrorContains(e, err, "Config.Merge is set, but Config.Clone, SetStatus and GetStatus are not")
}

func TestContradictingOperationsAreAnError(t *testing.T) {
	e := newEnv(t)
	cfg := e.config()
	cfg.BatchOperations, cfg.RoundOperations = batchTarget{e.target}, roundTarget{e.target}
	_, err := reconciler.New(cfg)
	require.ErrorContains(e, err, "Config.BatchOperations (reconciler_test.batchTarget) and Config.RoundOperations (reconciler_test.roundTarget) are both set")
}

// batchOnly has no Prune.
type batchOnly struct {
	reconciler.BatchOperations[*object]
}

func TestMissingPrunerIsAnErrorOnlyWithPruning(t *testing.T) {
	e := newEnv(t)
	cfg := e.config(reconciler.WithPruning(time.Minute))
	cfg.Operations, cfg.BatchOperations = nil, batchOnly{batchTarget{e.target}}
	_, err := reconciler.New(cfg)
	require.ErrorContains(e, err, "Settings.PruneInterval is 1m0s, but Config.Pruner is nil")

	cfg.Options = nil
	_, err = reconciler.New(cfg)
	require.NoError(e, err)
	cfg.Options = exact(reconciler.WithPruning(time.Minute))
	cfg.Pruner = e.target
	_, err = reconciler.New(cfg)
	require.NoError(e, err)
}

func TestLoopWithoutAPrunerIgnoresPrune(t *testing.T) {
	inBubble(t, func(e *env) {
		e.loop.Prune()
		e.put(1, 1)
		e.pass(time.Hour)
		require.Equal(e, []string{"update(1)"}, e.target.calls())
	}, func(e *env, cfg *reconciler.Config[*object]) {
		cfg.Operations, cfg.BatchOperations = nil, batchOnly{batchTarget{e.target}}
	})
}

func TestRefreshingAndPruningCanBeOff(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(1000 * time.Hour)
		require.Equal(e, []string{"update(1)"}, e.target.calls())
	}, nil, reconciler.WithRefreshing(0, nil), reconciler.WithPruning(0))
}

// valueObject is a row that is not a pointer.
type valueObject struct {
	ID     uint64
	Status reconciler.Status
}

func TestRowsMayBeValues(t *testing.T) {
	inBubble(t, func(e *env) {
		index := statedb.Index[valueObject, uint64]{
			Name:       "id",
			FromObject: func(o valueObject) keySet { return newKeySet(o.ID) },
			FromKey:    idIndex.FromKey,
			Unique:     true,
		}
		table, err := statedb.NewTableAny(e.db, "values", func() []string { return nil },
			func(valueObject) []string { return nil }, index)
		require.NoError(e, err)
		updated := 0
		loop, err := reconciler.New(reconciler.Config[valueObject]{
			DB: e.db, Table: table,
			Clone:           func(o valueObject) valueObject { return o },
			SetStatus:       func(o valueObject, s reconciler.Status) valueObject { o.Status = s; return o },
			GetStatus:       func(o valueObject) reconciler.Status { return o.Status },
			BatchOperations: countingBatches{&updated},
		})
		require.NoError(e, err)
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(e.Context())
		go func() { ended <- loop.Run(ctx) }()
		wtxn := e.db.WriteTxn(table)
		_, _, err = table.Insert(wtxn, valueObject{ID: 1, Status: reconciler.StatusPending()})
		require.NoError(e, err)
		revision := table.Revision(wtxn.Commit())
		_, _, err = loop.WaitUntilReconciled(e.Context(), revision)
		require.NoError(e, err)
		require.Equal(e, 1, updated)
		row, _, _ := table.Get(e.db.ReadTxn(), index.Query(1))
		require.Equal(e, reconciler.StatusKindDone, row.Status.Kind)
		cancel()
		require.NoError(e, <-ended)
	}, nil)
}
