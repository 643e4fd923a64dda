// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/cilium/statedb/reconciler"
	"go.yaml.in/yaml/v3"
	"golang.org/x/time/rate"
)

// Uses of the names other than calls: programs keep the functions in variables of these types, implement the
// interfaces in their own tests, and use statuses through interfaces of the standard library.
var (
	_ func(
		reconciler.Params,
		statedb.RWTable[*service],
		func(*service) *service,
		func(*service, reconciler.Status) *service,
		func(*service) reconciler.Status,
		reconciler.Operations[*service],
		reconciler.BatchOperations[*service],
		...reconciler.Option,
	) (reconciler.Reconciler[*service], error) = reconciler.Register[*service]

	_ func(string) reconciler.Option                       = reconciler.WithName
	_ func(reconciler.Metrics) reconciler.Option           = reconciler.WithMetrics
	_ func(time.Duration) reconciler.Option                = reconciler.WithPruning
	_ func() reconciler.Option                             = reconciler.WithoutPruning
	_ func(time.Duration, *rate.Limiter) reconciler.Option = reconciler.WithRefreshing
	_ func(time.Duration, time.Duration) reconciler.Option = reconciler.WithRetry
	_ func(int, *rate.Limiter) reconciler.Option           = reconciler.WithRoundLimits

	_ func() reconciler.Status                                                   = reconciler.StatusPending
	_ func() reconciler.Status                                                   = reconciler.StatusRefreshing
	_ func() reconciler.Status                                                   = reconciler.StatusDone
	_ func(error) reconciler.Status                                              = reconciler.StatusError
	_ func() reconciler.StatusSet                                                = reconciler.NewStatusSet
	_ func(reconciler.StatusSet, ...string) reconciler.StatusSet                 = reconciler.StatusSet.Pending
	_ func(reconciler.StatusSet, string) reconciler.StatusSet                    = reconciler.StatusSet.Delete
	_ func(reconciler.StatusSet, string, reconciler.Status) reconciler.StatusSet = reconciler.StatusSet.Set
	_ func(reconciler.StatusSet, string) reconciler.Status                       = reconciler.StatusSet.Get
	_ func(*reconciler.StatusSet) iter.Seq2[string, reconciler.Status]           = (*reconciler.StatusSet).All
	_ func(*reconciler.StatusSet) bool                                           = (*reconciler.StatusSet).IsDone
	_ func(*reconciler.StatusSet) bool                                           = (*reconciler.StatusSet).IsPendingOrRefreshing
	_ func(reconciler.StatusKind) index.Key                                      = reconciler.StatusKind.Key
	_ func(reconciler.Status) bool                                               = reconciler.Status.IsPendingOrRefreshing
	_ reconciler.StatusKind                                                      = reconciler.StatusKindUnset

	_ func(reconciler.Status) string             = reconciler.Status.String
	_ func(reconciler.StatusSet) string          = reconciler.StatusSet.String
	_ func(reconciler.StatusSet) ([]byte, error) = reconciler.StatusSet.MarshalJSON
	_ func(reconciler.StatusSet) (any, error)    = reconciler.StatusSet.MarshalYAML
	_ func(*reconciler.StatusSet, []byte) error  = (*reconciler.StatusSet).UnmarshalJSON
	_ reconciler.Status                          = reconciler.Status{UpdatedAt: time.Time{}, Error: nil, ID: 0}

	_ func(*reconciler.ExpVarMetrics, cell.FullModuleID, string, string, time.Duration) = (*reconciler.ExpVarMetrics).ReconciliationDuration
	_ func(*reconciler.ExpVarMetrics, cell.FullModuleID, string, int, int)              = (*reconciler.ExpVarMetrics).ReconciliationErrors
	_ func(*reconciler.ExpVarMetrics, cell.FullModuleID, string, time.Duration)         = (*reconciler.ExpVarMetrics).PruneDuration
	_ func(*reconciler.ExpVarMetrics, cell.FullModuleID, string, error)                 = (*reconciler.ExpVarMetrics).PruneError

	_ func() *reconciler.ExpVarMetrics = reconciler.NewExpVarMetrics
	_ func() *reconciler.ExpVarMetrics = reconciler.NewUnpublishedExpVarMetrics

	// A program may convert a Status, and compare two of them.
	_ = struct {
		UpdatedAt time.Time
		Error     *string
		ID        uint64
		Kind      reconciler.StatusKind
	}(reconciler.Status{})
	_ map[reconciler.Status]reconciler.StatusKind

	_ reconciler.Metrics                             = (*reconciler.ExpVarMetrics)(nil)
	_ reconciler.Reconciler[*service]                = fakeReconciler{}
	_ fmt.Stringer                                   = reconciler.Status{}
	_ fmt.Stringer                                   = reconciler.StatusKindDone
	_ fmt.Stringer                                   = reconciler.StatusSet{}
	_ json.Marshaler                                 = reconciler.StatusSet{}
	_ yaml.Marshaler                                 = reconciler.StatusSet{}
	_ json.Unmarshaler                               = (*reconciler.StatusSet)(nil)
	_ statedb.Index[*service, reconciler.StatusKind] = serviceByKind
)

// The names of operations are untyped constants.
const (
	_ string = reconciler.OpUpdate
	_ label  = reconciler.OpDelete
)

type label string

// fakeReconciler replaces a reconciler in tests of code that uses one.
type fakeReconciler struct{}

func (fakeReconciler) Prune() {}

func (fakeReconciler) WaitUntilReconciled(context.Context, statedb.Revision) (statedb.Revision, statedb.Revision, error) {
	return 0, 0, nil
}
