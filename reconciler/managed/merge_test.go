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
