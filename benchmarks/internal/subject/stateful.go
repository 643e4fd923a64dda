// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	meta "github.com/statekeel/statekeel/reconciler/object"
	"github.com/statekeel/statekeel/reconciler/stateful"
)

// resource is a row with a name, annotations and a small set of desired values, as a stateful reconciler has
// them.
type resource struct {
	meta.Meta
	id     uint64
	wants  []string
	status reconciler.Status
}

func (r *resource) clone() *resource {
	c := *r
	return &c
}

func (r *resource) number() uint64 { return r.id }

func (r *resource) setStatus(s reconciler.Status) *resource { r.status = s; return r }

func (r *resource) getStatus() reconciler.Status { return r.status }

func (r *resource) TableHeader() []string { return []string{"id", "wants", "status"} }

func (r *resource) TableRow() []string {
	return []string{strconv.FormatUint(r.id, 10), strings.Join(r.wants, ","), r.status.String()}
}

// wanted is the desired set of every resource.
var wanted = []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}

// resources returns a world of resources with one target.
func resources() *world[*resource] {
	return &world[*resource]{
		byID: idIndex(func(r *resource) index.KeySet { return index.NewKeySet(index.Uint64(r.id)) }),
		pending: func(id uint64) *resource {
			return &resource{
				Meta: meta.Meta{Name: strconv.FormatUint(id, 10)},
				id:   id, wants: wanted, status: reconciler.StatusPending(),
			}
		},
		named:     func(id uint64) *resource { return &resource{id: id} },
		kind:      func(r *resource) Kind { return statekeelKind(r.status) },
		updatedAt: func(r *resource) time.Time { return r.status.UpdatedAt },
		targets:   []*Target{{}},
		workers:   1,
	}
}

// startStateful starts a stateful reconciler of resources. It has single operations, and its rows have no
// status sets.
func startStateful(o Options) (System, error) {
	return resources().start(func(rt runtime, w *world[*resource]) error {
		cfg, err := stateful.Configure(reconciler.Config[*resource]{
			Table: w.table, Clone: (*resource).clone, SetStatus: (*resource).setStatus, GetStatus: (*resource).getStatus,
			Log: rt.Log, Options: statekeel.options(o, statekeelVariant{}),
		}, sets{target: w.targets[0]})
		if err != nil {
			return err
		}
		_, err = reconciler.RegisterConfig(rt.params(), cfg)
		return err
	})
}

// startResources starts a bare loop on the rows of a stateful reconciler, also without pruning.
func startResources(o Options) (System, error) {
	return resources().start(func(rt runtime, w *world[*resource]) error {
		_, err := reconciler.Register(rt.params(), w.table, (*resource).clone, (*resource).setStatus, (*resource).getStatus,
			bareOperations{w.targets[0]}, nil, append(statekeel.options(o, statekeelVariant{}), reconciler.WithoutPruning())...)
		return err
	})
}

// sets applies the differences of sets, with one call of the target for each resource.
type sets struct {
	stateful.SetDiff[string]
	target *Target
}

func (sets) GetStateAnnotationKey() string { return "bench/state" }

func (sets) ExtractCurrentState(r *resource) ([]string, error) { return r.wants, nil }

func (s sets) ApplyOperations(_ context.Context, r *resource, ops stateful.StateChangeOperations[[]string, string]) error {
	if len(ops.ItemsToAdd) == 0 {
		return s.target.Delete(r.id)
	}
	return s.target.Update(r.id)
}

// bareOperations calls the target for each resource, and stores nothing.
type bareOperations struct{ target *Target }

func (b bareOperations) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *resource) error {
	return b.target.Update(r.id)
}

func (b bareOperations) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *resource) error {
	return b.target.Delete(r.id)
}

func (bareOperations) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*resource, statedb.Revision]) error {
	return nil
}
