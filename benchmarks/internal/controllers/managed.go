// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package controllers

import (
	"context"
	"fmt"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
	meta "github.com/statekeel/statekeel/reconciler/object"
)

// managedRow is a row for a resource of an external system.
type managedRow struct {
	managed.Meta
	status reconciler.Status
}

func (r *managedRow) clone() *managedRow {
	c := *r
	return &c
}

func (r *managedRow) setStatus(s reconciler.Status) *managedRow { r.status = s; return r }

func (r *managedRow) getStatus() reconciler.Status { return r.status }

func (r *managedRow) TableHeader() []string { return []string{"name", "status"} }

func (r *managedRow) TableRow() []string { return []string{r.Name, r.status.String()} }

var managedByName = statedb.Index[*managedRow, string]{
	Name:       "name",
	FromObject: func(r *managedRow) index.KeySet { return index.NewKeySet(index.String(r.Name)) },
	FromKey:    index.String,
	FromString: index.FromString,
	Unique:     true,
}

// managedRows is the Poller of Statekeel's managed resources. A row is a request to observe a resource. All
// resources exist, ready and synced.
type managedRows struct {
	*subject.Host
	after   pollAfter
	table   statedb.RWTable[*managedRow]
	target  *subject.Target
	workers int
	// inserted counts the inserted rows.
	inserted uint64
}

// Managed starts a managed reconciler of Statekeel with its default options, except for the number of workers, the
// poll interval and the external system.
func Managed(workers int) (Poller, error) {
	m := &managedRows{target: &subject.Target{}, workers: workers}
	var err error
	if m.Host, err = subject.StartHost(m.register); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *managedRows) register(rt subject.Runtime) (err error) {
	if m.table, err = statedb.NewTable(rt.DB, "resources", managedByName); err != nil {
		return err
	}
	cfg, err := managed.Configure(reconciler.Config[*managedRow]{
		DB: rt.DB, Table: m.table, Log: rt.Log,
		Clone: (*managedRow).clone, SetStatus: (*managedRow).setStatus, GetStatus: (*managedRow).getStatus,
		Options: []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = m.workers })},
	},
		managed.WithExternalConnecter(managed.ExternalConnectorFn[*managedRow](m.connect)),
		managed.WithPollIntervalHook(func(r *managedRow, _ time.Duration) time.Duration { return m.after.named(r.Name) }))
	if err != nil {
		return err
	}
	_, err = reconciler.RegisterConfig(rt.Params(), cfg)
	return err
}

func (m *managedRows) PollAfter(after func(id uint64) time.Duration) { m.after = after }

func (m *managedRows) connect(context.Context, *managedRow) (managed.ExternalClient[*managedRow], error) {
	return managed.ExternalClientFns[*managedRow]{ObserveFn: m.observe}, nil
}

func (m *managedRows) observe(_ context.Context, r *managedRow) (managed.ExternalObservation, error) {
	return managed.ExternalObservation{ResourceExists: true, ResourceUpToDate: true}, reconcileNamed(m.target, r.Name)
}

// Prepare writes the rows; the function that it returns commits them.
func (m *managedRows) Prepare(first, n uint64) (func() error, error) {
	finalizers := []string{managed.FinalizerName}
	wtxn := m.DB.WriteTxn(m.table)
	for id := first; id < first+n; id++ {
		row := &managedRow{
			Meta: managed.Meta{
				Meta: meta.Meta{
					Namespace: namespace, Name: nameOf(id),
					Annotations: map[string]string{managed.AnnotationExternalName: "any"},
				},
				Finalizers: finalizers,
			},
			status: reconciler.StatusPending(),
		}
		row.SetConditions(managed.Available(), managed.Condition{Type: managed.TypeSynced, Status: managed.ConditionTrue, Reason: "ReconcileSuccess"})
		if _, _, err := m.table.Insert(wtxn, row); err != nil {
			wtxn.Abort()
			return nil, fmt.Errorf("insert resource %d: %w", id, err)
		}
	}
	m.inserted += n
	return func() error {
		wtxn.Commit()
		return nil
	}, nil
}

// Await waits until the status of each row is written, which happens at its first poll.
func (m *managedRows) Await(ctx context.Context) error {
	for row := range m.table.All(m.DB.ReadTxn()) {
		if row.status.Kind == reconciler.StatusKindDone {
			continue
		}
		if err := m.await(ctx, row.Name); err != nil {
			return err
		}
	}
	return nil
}

func (m *managedRows) await(ctx context.Context, name string) error {
	for {
		row, _, changed, found := m.table.GetWatch(m.DB.ReadTxn(), managedByName.Query(name))
		if !found {
			return fmt.Errorf("resource %q is gone", name)
		}
		if row.status.Kind == reconciler.StatusKindDone {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("resource %q is %s: %w", name, row.status, context.Cause(ctx))
		}
	}
}

func (m *managedRows) Left() (left uint64) {
	for row := range m.table.All(m.DB.ReadTxn()) {
		if row.status.Kind != reconciler.StatusKindDone {
			left++
		}
	}
	return left
}

func (m *managedRows) Well() (well uint64) {
	for row := range m.table.All(m.DB.ReadTxn()) {
		if row.status.Kind == reconciler.StatusKindDone && managed.IsReady(row) && managed.IsSynced(row) {
			well++
		}
	}
	return well
}

// Written counts by the revision of the table: each write increments it.
func (m *managedRows) Written() uint64 { return m.table.Revision(m.DB.ReadTxn()) - m.inserted }

// Writes is one write for each resource: its first poll makes it Done, and later polls change nothing.
func (m *managedRows) Writes(resources, _ uint64) uint64 { return resources }

func (m *managedRows) Target() *subject.Target { return m.target }
