// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/etcd"
)

// Peer is what the store wants: a tunnel to a remote. Several peers may want the same remote.
type Peer struct {
	Name   string `json:"-"`
	Remote string `json:"remote"`
	Weight int    `json:"weight"`
}

// agent follows the peers of a store, and makes one tunnel for each remote: that of the heaviest peer.
func agent(name string, client *clientv3.Client) cell.Cell {
	return cell.Module("agent", "Makes tunnels of the peers in etcd",
		cell.ProvidePrivate(job.Registry.NewGroup),
		cell.Invoke(func(db *statedb.DB, jobs job.Group, health cell.Health) error {
			peers, err := statedb.NewTableAny(db, "peers", nil, nil, statedb.Index[*Peer, string]{
				Name: "name", Unique: true,
				FromObject: func(p *Peer) index.KeySet { return index.NewKeySet(index.String(p.Name)) },
			})
			if err != nil {
				return err
			}
			wanted, err := statedb.NewTableAny(db, "tunnels", nil, nil, statedb.Index[*Tunnel, string]{
				Name: "remote", Unique: true,
				FromObject: func(t *Tunnel) index.KeySet { return index.NewKeySet(index.String(t.Remote)) },
			})
			if err != nil {
				return err
			}
			// Each part has a Health of its own: the last report on one replaces those before.
			sink, err := source.New(source.Config[*Peer]{
				Name: "etcd", DB: db, Table: peers, Health: health.NewScope("connection"),
			})
			if err != nil {
				return err
			}
			from, err := etcd.New(etcd.Config[*Peer]{
				Client: client, Prefix: "peers/", Sink: sink, Health: health.NewScope("keys"),
				Decode: func(key string, value []byte) (*Peer, error) {
					p := &Peer{Name: key}
					return p, json.Unmarshal(value, p)
				},
			})
			if err != nil {
				return err
			}
			best, err := derive.Best(derive.Config[*Tunnel]{DB: db}, peers, wanted,
				func(p *Peer) ([]*Tunnel, error) { return []*Tunnel{{Name: p.Name, Remote: p.Remote}}, nil },
				func(p *Peer) int { return -p.Weight })
			if err != nil {
				return err
			}
			loop, err := reconciler.New(reconciler.Config[*Tunnel]{
				DB: db, Table: wanted, Operations: tunnels{}, Health: health.NewScope("tunnels"),
			})
			if err != nil {
				return err
			}
			acks := etcd.Acks{
				Name: name, Source: from, DB: db, Loop: loop, Health: health.NewScope("acks"),
			}
			jobs.Add(job.OneShot("follow", func(ctx context.Context, _ cell.Health) error {
				defer sink.Close()
				return from.Run(ctx)
			}))
			best.AddTo(jobs)
			jobs.Add(
				job.OneShot("reconcile", func(ctx context.Context, _ cell.Health) error { return loop.Run(ctx) }),
				job.OneShot("acknowledge", func(ctx context.Context, _ cell.Health) error { return acks.Run(ctx) }),
			)
			return nil
		}),
	)
}

// put changes a peer, and waits until every agent that is alive has applied that.
func put(ctx context.Context, client *clientv3.Client, peer Peer) error {
	value, err := json.Marshal(peer)
	if err != nil {
		return err
	}
	done, err := client.Put(ctx, "peers/"+peer.Name, string(value))
	if err != nil {
		return err
	}
	for {
		waiting, err := behind(ctx, client, done.Header.Revision)
		if err != nil || len(waiting) == 0 {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("revision %d is not applied everywhere: %q: %w", done.Header.Revision, waiting, ctx.Err())
		}
	}
}

// behind returns what agents say that have not applied a revision of this store.
func behind(ctx context.Context, client *clientv3.Client, revision int64) (waiting map[string][]string, err error) {
	identity, err := client.Get(ctx, "statekeel/identity")
	if err != nil {
		return nil, err
	}
	store := "" // until an agent has read the store
	for _, kv := range identity.Kvs {
		store = string(kv.Value)
	}
	alive, err := client.Get(ctx, "alive/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	waiting = map[string][]string{}
	for _, kv := range alive.Kvs {
		name := string(kv.Key[len("alive/"):])
		got, err := client.Get(ctx, "acks/"+name)
		if err != nil {
			return nil, err
		}
		var ack etcd.Ack
		for _, kv := range got.Kvs {
			if err := json.Unmarshal(kv.Value, &ack); err != nil {
				return nil, fmt.Errorf("%s: %w", kv.Key, err)
			}
		}
		// An ack of another store says nothing of this one, whatever its revision is.
		if ack.Store != store || !ack.Applied(uint64(revision)) {
			waiting[name] = ack.Problems
		}
	}
	return waiting, nil
}

// An agent as a cell of a hive, and a controller that waits for all agents.
func Example_hive() {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"127.0.0.1:2379"}, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	go func() {
		if err := put(context.Background(), client, Peer{Name: "berlin", Remote: "2001:db8::1"}); err != nil {
			fmt.Println(err)
		}
	}()
	app := hive.New(statedb.Cell, job.Cell, cell.SimpleHealthCell, agent("agent-7", client))
	if err := app.Run(slog.Default()); err != nil {
		fmt.Println(err)
	}
}
