// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/managed/api"
	"github.com/statekeel/statekeel/example/managed/broker"
	"github.com/statekeel/statekeel/example/managed/client"
	"github.com/statekeel/statekeel/reconciler/edge"
	"github.com/statekeel/statekeel/reconciler/managed"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func newDesired(db *statedb.DB) (statedb.RWTable[*DesiredTunnel], error) {
	return statedb.NewTableAny(db, "desired", nil, nil, statedb.Index[*DesiredTunnel, string]{
		Name: "name", Unique: true, FromKey: index.String,
		FromObject: func(t *DesiredTunnel) index.KeySet { return index.NewKeySet(index.String(t.Name)) },
	})
}

// world is a broker with its client.
type world struct {
	testing.TB
	*client.Client
}

func newWorld(t testing.TB) world {
	store, err := broker.Open(filepath.Join(t.TempDir(), "broker.db"), 0)
	require.NoError(t, err)
	handler, err := broker.NewHandler(store, broker.Faults{})
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	c := client.New(server.URL)
	t.Cleanup(func() {
		c.Close()
		server.Close()
		require.NoError(t, store.Close())
	})
	return world{t, c}
}

func (w world) dump() map[string]string {
	all, err := w.Truth(w.Context())
	require.NoError(w, err)
	dump := map[string]string{}
	for _, t := range all {
		dump[t.Owner+"/"+t.Name] = fmt.Sprintf("%s %d Mbit/s", t.Remote, t.Bandwidth)
	}
	return dump
}

// stepped calls the client of the broker. Each call that changes something is a step.
type stepped struct{ *external }

func (s stepped) Connect(context.Context, *Tunnel) (managed.ExternalClient[*Tunnel], error) {
	return s, nil
}

func (s stepped) Create(ctx context.Context, t *Tunnel) error {
	return edge.Do(ctx, "create", func() error { return s.external.Create(ctx, t) })
}

func (s stepped) Update(ctx context.Context, t *Tunnel) error {
	return edge.Do(ctx, "update", func() error { return s.external.Update(ctx, t) })
}

func (s stepped) Delete(ctx context.Context, t *Tunnel) error {
	return edge.Do(ctx, "delete", func() error { return s.external.Delete(ctx, t) })
}

// program starts what the agent starts.
func (w world) program(e *reconcilertest.Env[*DesiredTunnel]) {
	table, err := newTable(e.DB)
	require.NoError(e, err)
	outside := stepped{&external{w.Client, "me"}}
	cfg, err := configure(Options{Resync: time.Hour}, e.DB, table, outside, outside)
	require.NoError(e, err)
	wtxn := e.DB.WriteTxn(table)
	initialized := table.RegisterInitializer(wtxn, "file")
	wtxn.Commit()
	reconcilertest.Start(e, cfg)
	f := &follower{db: e.DB, writer: managed.NewWriter(cfg)}
	reconcilertest.Go(e, func(ctx context.Context) error {
		for _, first := e.Table.Initialized(e.DB.ReadTxn()); ; {
			select {
			case <-ctx.Done():
				return nil
			case <-first:
			}
			var desired Desired
			for t := range e.Table.All(e.DB.ReadTxn()) {
				desired.Tunnels = append(desired.Tunnels, *t)
			}
			wtxn := e.DB.WriteTxn(table)
			if err := f.apply(wtxn, desired); err != nil {
				wtxn.Abort()
				return err
			}
			initialized(wtxn)
			wtxn.Commit()
			time.Sleep(time.Millisecond) // as the agent reads its file again and again
		}
	})
}

func TestTheBrokerEndsAsAFreshStartLeavesIt(t *testing.T) {
	tunnel := func(name, remote string) *DesiredTunnel {
		return &DesiredTunnel{Name: name, Settings: api.Settings{Remote: remote, Bandwidth: 100}}
	}
	reconcilertest.Check(t, reconcilertest.Subject[*DesiredTunnel, world]{
		RealTime: true, Runs: 40, Target: newWorld, Dump: world.dump, Table: newDesired,
		States: func(*rand.Rand) [][]*DesiredTunnel {
			return [][]*DesiredTunnel{
				{tunnel("a", "203.0.113.1"), tunnel("b", "203.0.113.2")},
				{tunnel("a", "203.0.113.9")},
				{tunnel("b", "203.0.113.2"), tunnel("c", "203.0.113.3")},
			}
		},
		Start: func(e *reconcilertest.Env[*DesiredTunnel], w world) { w.program(e) },
		Foreign: func(w world) {
			_, err := w.Create(w.Context(), api.Request{Name: "theirs", Owner: "you", Settings: api.Settings{Remote: "203.0.113.7", Bandwidth: 1}})
			require.NoError(w, err)
		},
		Outside: map[string]func(world){
			"tunnel a is lost": func(w world) { _ = w.Drift(w.Context(), api.Drift{Name: "a", Lose: true}) },
			"tunnel b drifts": func(w world) {
				_ = w.Drift(w.Context(), api.Drift{Name: "b", Settings: api.Settings{Remote: "203.0.113.8", Bandwidth: 7}})
			},
		},
	})
}
