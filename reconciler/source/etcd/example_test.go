// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/etcd"
)

// Tunnel is a row. Its outcome is beside the table, so it has no status.
type Tunnel struct {
	Name   string `json:"-"`
	Remote string `json:"remote"`
}

type tunnels struct{}

func (tunnels) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, t *Tunnel) error {
	_, err := fmt.Println("create", t.Name, "to", t.Remote)
	return err
}

func (tunnels) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, t *Tunnel) error {
	_, err := fmt.Println("remove", t.Name)
	return err
}

// An agent makes a tunnel of each key of etcd that begins with tunnels/, such as tunnels/berlin with the
// value {"remote": "2001:db8::1"}, and says in the key acks/agent-7 how far it is.
func Example() {
	db := statedb.New()
	table, err := statedb.NewTableAny(db, "tunnels", nil, nil, statedb.Index[*Tunnel, string]{
		Name: "name", Unique: true,
		FromObject: func(t *Tunnel) index.KeySet { return index.NewKeySet(index.String(t.Name)) },
	})
	if err != nil {
		log.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"127.0.0.1:2379"},
		// By default gRPC keeps a connection that a firewall or a load balancer has forgotten.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		// By default gRPC waits for up to two minutes before it tries to connect again.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: time.Second, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 10 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		})},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	sink, err := source.New(source.Config[*Tunnel]{Name: "etcd", DB: db, Table: table})
	if err != nil {
		log.Fatal(err)
	}
	defer sink.Close()
	from, err := etcd.New(etcd.Config[*Tunnel]{
		Client: client, Prefix: "tunnels/", Sink: sink,
		Decode: func(key string, value []byte) (*Tunnel, error) {
			t := &Tunnel{Name: key}
			return t, json.Unmarshal(value, t)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	loop, err := reconciler.New(reconciler.Config[*Tunnel]{DB: db, Table: table, Operations: tunnels{}})
	if err != nil {
		log.Fatal(err)
	}
	acks := etcd.Acks{Name: "agent-7", Source: from, DB: db, Loop: loop}

	if err := db.Start(); err != nil {
		log.Fatal(err)
	}
	defer db.Stop()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var parts sync.WaitGroup
	for _, run := range []func(context.Context) error{from.Run, loop.Run, acks.Run} {
		parts.Go(func() {
			if err := run(ctx); err != nil {
				log.Print(err)
			}
		})
	}
	parts.Wait()
}
