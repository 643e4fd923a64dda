// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"
)

// server is what a Source asks of etcd. Errors are those of the connection or of etcd.
type server interface {
	// ready waits for a connection, for a short time: Run has waited at random before, and waits again.
	ready(ctx context.Context) error
	// do carries out one operation, which may take as long as Config.Check.
	do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error)
	// watch opens a watch of the prefix, as openWatch does.
	watch(ctx context.Context, from int64) (*watch, error)
}

// connection is a server behind a client.
type connection struct {
	client         *clientv3.Client
	prefix         string
	check, backoff time.Duration // of the configuration
}

func (c connection) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.backoff)
	defer cancel()
	conn := c.client.ActiveConnection()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.Idle {
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("there is no connection to etcd, its state is %s", state)
		}
	}
	return nil
}

// do does not use the client's KV, which programs may replace.
func (c connection) do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, c.check)
	defer cancel()
	return clientv3.NewKV(c.client).Do(ctx, op)
}

func (c connection) watch(ctx context.Context, from int64) (*watch, error) {
	return openWatch(ctx, c.client, c.prefix, from, c.check)
}
