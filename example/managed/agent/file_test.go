// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/example/managed/api"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is a follower with its file and its table.
type env struct {
	*testing.T
	*follower
	said        strings.Builder
	initialized int
}

func newEnv(t *testing.T) *env {
	db := statedb.New()
	table, err := newTable(db)
	require.NoError(t, err)
	e := &env{T: t}
	e.follower = &follower{
		path: filepath.Join(t.TempDir(), "tunnels.yaml"), db: db, log: slog.New(slog.NewTextHandler(&e.said, nil)),
		writer: managed.Writer[*Tunnel]{
			Table: table, Clone: (*Tunnel).Clone, SetStatus: (*Tunnel).SetStatus,
		},
	}
	return e
}

// reads writes the file and reads it.
func (e *env) reads(text string) error {
	require.NoError(e, os.WriteFile(e.path, []byte(text), 0o600))
	return e.read(func(statedb.WriteTxn) { e.initialized++ })
}

func (e *env) row(name string) *Tunnel {
	row, _, found := e.writer.Table.Get(e.db.ReadTxn(), nameIndex.Query(name))
	require.True(e, found, name)
	return row
}

// observe changes a row as a pass does.
func (e *env) observe(name string) {
	wtxn := e.db.WriteTxn(e.writer.Table)
	row := e.row(name).Clone()
	row.ID, row.Address, row.Status = "tun-0001", "100.64.0.1", reconciler.StatusDone()
	_, _, err := e.writer.Table.Insert(wtxn, row)
	require.NoError(e, err)
	wtxn.Commit()
}

const one = "tunnels: [{name: web, remote: 203.0.113.1, bandwidth: 100}]"

func TestTableFollowsTheFile(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.reads(one))
	require.Equal(t, 1, e.initialized)
	require.Equal(t, api.Settings{Remote: "203.0.113.1", Bandwidth: 100}, e.row("web").Settings)
	require.Equal(t, reconciler.StatusKindPending, e.row("web").Status.Kind)

	e.observe("web")
	revision := e.writer.Table.Revision(e.db.ReadTxn())
	require.NoError(t, e.reads(one))
	require.Equal(t, revision, e.writer.Table.Revision(e.db.ReadTxn()), "without a difference nothing is written")

	require.NoError(t, e.reads(`{"tunnels": [{"name": "web", "remote": "203.0.113.1", "bandwidth": 200}]}`))
	require.Equal(t, 200, e.row("web").Bandwidth)
	require.Equal(t, "tun-0001", e.row("web").ID, "observed values are kept")
	require.Equal(t, reconciler.StatusKindPending, e.row("web").Status.Kind)

	require.NoError(t, e.reads(""))
	require.True(t, managed.WasDeleted(e.row("web")), "the row stays until the tunnel is gone")
}

func TestBrokenFileChangesNothing(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.reads(one))
	revision := e.writer.Table.Revision(e.db.ReadTxn())
	for text, problem := range map[string]string{
		"tunnels: 1":                            "cannot unmarshal",
		"tunnels: [{name: web, mtu: 1500}]":     "field mtu not found",
		"tunnels: [{remote: 203.0.113.1}]":      "tunnel 1 has no name",
		"tunnels: [{name: web}, {name: web}]":   `tunnel "web" is there twice`,
		"tunnels: [{name: web, bandwidth: all}": "did not find expected",
	} {
		require.ErrorContains(t, e.reads(text), problem)
	}
	require.NoError(t, os.Remove(e.path))
	require.ErrorIs(t, e.read(func(statedb.WriteTxn) { e.initialized++ }), os.ErrNotExist)
	require.Equal(t, revision, e.writer.Table.Revision(e.db.ReadTxn()))
	require.Equal(t, 1, e.initialized, "initialized is called only for an applied file")
}

func TestRepeatedFailureIsReportedOnce(t *testing.T) {
	e, health := newEnv(t), &reconcilertest.Health{}
	for range 3 {
		e.tell(health, e.reads("tunnels: 1"))
	}
	require.Equal(t, 1, strings.Count(e.said.String(), "file not applied"), &e.said)
	require.Len(t, health.History(), 1)
	e.tell(health, e.reads(one))
	level, _, _ := health.Now()
	require.Equal(t, cell.StatusOK, level)
	e.tell(health, e.reads("tunnels: 1"))
	require.Equal(t, 2, strings.Count(e.said.String(), "file not applied"), "reported again after a success")
}
