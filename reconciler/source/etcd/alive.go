// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// errNoLease is returned if the store does not have the lease.
var errNoLease = errors.New("the store does not have the lease")

// keepAlive holds the key of this agent with a lease until ctx ends. It uses the service of leases
// itself: the client retries without a wait while there is no connection.
func (r *reporter) keepAlive(ctx context.Context) {
	lease := clientv3.NoLease
	var of string // the store that has the lease
	for ctx.Err() == nil {
		err := errNoLease
		store, replaced := r.Source.current()
		// The deletion of all keys takes the key, and leaves the lease. It takes the identity, too.
		if lease != clientv3.NoLease && (store == of || store == "" || of == "") {
			err = r.renew(ctx, lease)
		}
		if errors.Is(err, errNoLease) {
			if lease, err = r.grant(ctx); err == nil {
				// If the lease went with the store, so did the ack.
				notify(r.rewrite)
				notify(r.look)
			}
		}
		if err == nil && store != "" {
			of = store
		}
		r.problem(ctx, r.alive, err)
		// Three times within the life of the lease, not all agents at the same time.
		wait := r.TTL / 3
		select {
		case <-time.After(wait - rand.N(wait/2+1)):
		case <-replaced:
		case <-ctx.Done():
		}
	}
	if lease != clientv3.NoLease {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = r.leases().LeaseRevoke(ctx, &etcdserverpb.LeaseRevokeRequest{ID: int64(lease)})
	}
}

func (r *reporter) leases() etcdserverpb.LeaseClient {
	return etcdserverpb.NewLeaseClient(r.client.ActiveConnection())
}

// renewals is the stream on which a lease is renewed. It is kept: with a password, the client logs in for
// each new stream, and a log-in costs etcd tens of milliseconds of CPU. stream is nil if there is none.
type renewals struct {
	stream etcdserverpb.Lease_LeaseKeepAliveClient
	end    context.CancelFunc
}

// renew has the lease live for longer.
func (r *reporter) renew(ctx context.Context, lease clientv3.LeaseID) error {
	within, cancel := context.WithTimeout(ctx, r.patience())
	defer cancel()
	for {
		used := r.stream != nil
		err := r.renewOnce(ctx, within, lease)
		if err == nil || errors.Is(err, errNoLease) {
			return err
		}
		r.end()
		r.stream = nil
		// The connection of a stream that was used before may have ended since.
		if !used || within.Err() != nil {
			return fmt.Errorf("renewing the lease: %w", err)
		}
	}
}

// renewOnce renews the lease on the stream that there is, or on a new one, which lives as long as ctx.
func (r *reporter) renewOnce(ctx, within context.Context, lease clientv3.LeaseID) (err error) {
	if r.stream == nil {
		ctx, r.end = context.WithCancel(ctx)
	}
	stop := context.AfterFunc(within, r.end)
	defer stop()
	if r.stream == nil {
		if r.stream, err = r.leases().LeaseKeepAlive(ctx, grpc.WaitForReady(true)); err != nil {
			return err
		}
	}
	// If the stream has ended, Recv returns the reason.
	_ = r.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(lease)})
	renewed, err := r.stream.Recv()
	if err == nil && renewed.TTL <= 0 {
		err = errNoLease
	}
	return err
}

// grant gets a lease, and writes the key with it.
func (r *reporter) grant(ctx context.Context) (clientv3.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, r.patience())
	defer cancel()
	granted, err := r.leases().LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{TTL: int64(r.TTL / time.Second)}, grpc.WaitForReady(true))
	if err != nil {
		return clientv3.NoLease, fmt.Errorf("getting a lease: %w", err)
	}
	lease := clientv3.LeaseID(granted.ID)
	puts := []clientv3.Op{clientv3.OpPut(r.alive, "", clientv3.WithLease(lease))}
	if !r.begun {
		// The ack of the process before says what was in a target that this one has not looked at.
		nothing, err := json.Marshal(Ack{})
		if err != nil {
			return clientv3.NoLease, err
		}
		puts = append(puts, clientv3.OpPut(r.ack, string(nothing)))
	}
	if _, err := clientv3.NewKV(r.client).Txn(ctx).Then(puts...).Commit(); err != nil {
		return clientv3.NoLease, fmt.Errorf("writing the key with the lease: %w", err)
	}
	r.begun = true
	return lease, nil
}

// patience is how long an answer of the store may take.
func (r *reporter) patience() time.Duration { return min(r.timeout, r.TTL) }
