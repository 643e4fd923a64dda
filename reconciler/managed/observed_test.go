// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// withoutLate sets policies that allow everything but LateInitialize.
func withoutLate(b *bucket) {
	managed.SetManagementPolicies(b, managed.ManagementActionObserve, managed.ManagementActionCreate,
		managed.ManagementActionUpdate, managed.ManagementActionDelete)
}

// seesRegion lets Observe set a region, and requires the other calls to receive it.
func (e *env) seesRegion(on ...string) {
	e.cloud.then("observe", func(_ context.Context, b *bucket) error {
		b.Region = "seen"
		return nil
	})
	for _, op := range on {
		e.cloud.before(op, func(_ context.Context, b *bucket) error {
			if b.Region != "seen" {
				e.Errorf("%s of %q received region %q", op, b.Name, b.Region)
			}
			b.SetAnnotation("example.com/"+op, "noted")
			return nil
		})
	}
}

func TestObservedValuesReachTheCallsOfThePass(t *testing.T) {
	each(t, func(e *env) {
		e.seesRegion("create", "update", "delete")
		e.settle(1, withoutLate)
		e.want(2, withoutLate)
		pass(time.Second)
		e.holds(2)
		e.rows(func(b *bucket) {
			require.Empty(e, b.Region, "the observed region is not written")
			require.Zero(e, b.Seen)
			require.Equal(e, "noted", b.Annotations["example.com/create"])
			require.Equal(e, "noted", b.Annotations["example.com/update"])
		})
		e.remove()
		pass(time.Minute)
		e.gone()
		e.holds(-1)
	}, nil)
}

func TestRowThatIsOnlyObservedIsWrittenWhole(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.set(func(c *cloud) {
			for _, name := range e.names {
				c.buckets["there-"+name] = &stored{name, 7}
			}
		})
		e.seesRegion()
		e.want(1, func(b *bucket) {
			managed.SetManagementPolicies(b, managed.ManagementActionObserve)
			managed.SetExternalName(b, "there-"+b.Name)
		})
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.rows(func(b *bucket) {
			require.Equal(e, 7, b.Seen)
			require.Equal(e, "seen", b.Region)
		})
		at := e.revision()
		pass(time.Hour)
		require.Equal(e, at, e.revision(), "polls write nothing")
	}, nil)
}

func TestWithObservedDecidesWhatIsWritten(t *testing.T) {
	each(t, func(e *env) {
		e.seesRegion("update")
		e.settle(1, withoutLate)
		e.rows(func(b *bucket) {
			require.Equal(e, 1, b.Seen)
			require.Empty(e, b.Region)
		})
		at := e.revision()
		pass(time.Hour)
		require.Equal(e, at, e.revision(), "polls write nothing")
		e.cloud.set(func(c *cloud) {
			for _, s := range c.buckets {
				s.size = 5
			}
		})
		e.edit(func(b *bucket) {
			managed.SetManagementPolicies(b, managed.ManagementActionObserve, managed.ManagementActionCreate)
		})
		e.rows(func(b *bucket) { require.Equal(e, 5, b.Seen) })
	}, func(*env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{managed.WithObserved(func(row, observed *bucket) *bucket {
			row.Seen = observed.Seen
			return row
		})}
	})
}

func TestWithObservedMustReturnItsRow(t *testing.T) {
	each(t, func(e *env) {
		e.want(1, withoutLate)
		e.rows(func(b *bucket) { require.Contains(e, b.Status.GetError(), "WithObserved has to return the row") })
		e.holds(-1)
	}, func(*env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{managed.WithObserved(func(_, observed *bucket) *bucket { return observed })}
	})
}

// machine is a row with a status in a set, and with fields in parts of their own.
type machine struct {
	managed.Meta
	Statuses reconciler.StatusSet
	State    struct {
		Load   int
		Backup string
		At     time.Time
	}
	Tags map[string]string
	note string
}

func (m *machine) Clone() *machine {
	c := *m
	return &c
}

func (m *machine) TableHeader() []string { return []string{"Name"} }
func (m *machine) TableRow() []string    { return []string{m.Name} }

func (m *machine) GetStatus() reconciler.Status { return m.Statuses.Get("managed") }
func (m *machine) SetStatus(s reconciler.Status) *machine {
	m.Statuses = m.Statuses.Set("managed", s)
	return m
}

var byMachine = statedb.Index[*machine, string]{
	Name:       "name",
	FromObject: func(m *machine) index.KeySet { return index.NewKeySet(index.String(m.Name)) },
	FromKey:    index.String,
	Unique:     true,
}

// What one of two reconcilers sets stays, also if both have their statuses in one field.
func TestFieldsThatTwoReconcilersSetDuringAPassAreAllWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := statedb.New()
		table, err := statedb.NewTable(db, "machines", byMachine)
		require.NoError(t, err)
		write := func(change func(m *machine)) {
			wtxn := db.WriteTxn(table)
			defer wtxn.Commit()
			row, _, found := table.Get(wtxn, byMachine.Query("a"))
			if !found {
				row = &machine{Statuses: reconciler.NewStatusSet()}
				row.Name = "a"
			}
			next := row.Clone()
			change(next)
			_, _, err := table.Insert(wtxn, next)
			require.NoError(t, err)
		}
		at := time.Now()
		client := managed.ExternalClientFns[*machine]{
			ObserveFn: func(_ context.Context, m *machine) (managed.ExternalObservation, error) {
				m.State.Load, m.State.At, m.note = 7, at, "observed"
				write(func(m *machine) {
					m.Statuses = m.Statuses.Set("backup", reconciler.StatusDone())
					m.State.Backup = "done"
					m.Tags = map[string]string{"backup": "done"}
				})
				return managed.ExternalObservation{ResourceExists: true, ResourceUpToDate: true}, nil
			},
		}
		loop, err := newLoop(reconciler.Config[*machine]{
			DB: db, Table: table, Clone: (*machine).Clone, Log: slog.New(slog.DiscardHandler),
			SetStatus: (*machine).SetStatus, GetStatus: (*machine).GetStatus,
		}, managed.WithExternalConnecter(managed.ExternalConnectorFn[*machine](
			func(context.Context, *machine) (managed.ExternalClient[*machine], error) { return client, nil })))
		require.NoError(t, err)
		write(func(m *machine) { m.SetStatus(reconciler.StatusPending()) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx) }()
		pass(0)
		cancel()
		require.NoError(t, <-ended)
		m, _, _ := table.Get(db.ReadTxn(), byMachine.Query("a"))
		require.Equal(t, reconciler.StatusKindDone, m.GetStatus().Kind)
		require.Equal(t, reconciler.StatusKindDone, m.Statuses.Get("backup").Kind)
		require.Equal(t, 7, m.State.Load)
		require.Equal(t, at, m.State.At)
		require.Equal(t, "done", m.State.Backup)
		require.Equal(t, map[string]string{"backup": "done"}, m.Tags)
		require.Equal(t, "observed", m.note)
		require.True(t, managed.IsReady(m) && managed.IsSynced(m))
	})
}
