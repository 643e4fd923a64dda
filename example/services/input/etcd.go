// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package input

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/statekeel/statekeel/example/services/proxy"
	"github.com/statekeel/statekeel/reconciler/source/etcd"
)

// EtcdPrefix is the prefix of the keys in etcd. The name of a service follows.
const EtcdPrefix = "services/"

// Etcd is a store with a key for each port of a service.
type Etcd struct{ client *clientv3.Client }

// OpenEtcd returns the store at a URL. It does not wait for it.
func OpenEtcd(url string) (*Etcd, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{url}, Logger: zap.NewNop(),
		// By default gRPC keeps a connection from which nothing comes any more, and waits for up to two minutes
		// before it tries to connect again.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
			},
			MinConnectTimeout: time.Second,
		})},
	})
	return &Etcd{client}, err
}

func (e *Etcd) name() string { return "etcd" }

func (e *Etcd) job(to feed) (func(context.Context) error, error) {
	s, err := etcd.New(etcd.Config[*proxy.Service]{
		Client: e.client, Prefix: EtcdPrefix, Decode: parseValue, Sink: to.sink, Health: to.health, Log: to.log,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		defer func() { _ = e.client.Close() }() // the program is about to end
		return s.Run(ctx)
	}, nil
}
