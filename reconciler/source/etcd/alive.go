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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// errNoLease is returned if the store does not have the lease.
var errNoLease = errors.New("the store does not have the lease")

// keepAlive holds the keys of this agent, one of them with a lease, until ctx ends. It uses the service of
// leases itself: the client retries without a wait while there is no connection.
func (r *reporter) keepAlive(ctx context.Context) {
	var lease int64
	for ctx.Err() == nil {
		_, replaced := r.Source.current()
		err := errNoLease
		if lease != 0 {
			err = r.renew(ctx, lease)
		}
		if errors.Is(err, errNoLease) {
			lease, err = r.grant(ctx)
		}
		if err == nil {
			err = r.claim(ctx, lease)
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
	if lease != 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = r.leases().LeaseRevoke(ctx, &etcdserverpb.LeaseRevokeRequest{ID: lease})
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
func (r *reporter) renew(ctx context.Context, lease int64) error {
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
func (r *reporter) renewOnce(ctx, within context.Context, lease int64) (err error) {
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
	_ = r.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: lease})
	renewed, err := r.stream.Recv()
	if err == nil && renewed.TTL <= 0 {
		err = errNoLease
	}
	return err
}

// grant gets a lease.
func (r *reporter) grant(ctx context.Context) (lease int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.patience())
	defer cancel()
	granted, err := r.leases().LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{TTL: int64(r.TTL / time.Second)}, grpc.WaitForReady(true))
	if err != nil {
		return 0, fmt.Errorf("getting a lease: %w", err)
	}
	return granted.ID, nil
}

// heldWith compares the lease of the key. That of a key that is not there is zero.
func (r *reporter) heldWith(lease int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.LeaseValue(r.alive), "=", lease)
}

// claim writes the keys if one of them is missing. At the start it takes them over from the process before.
// Later they are another program's if they have another lease: the last word is then that of the other.
func (r *reporter) claim(ctx context.Context, lease int64) error {
	ctx, cancel := context.WithTimeout(ctx, r.patience())
	defer cancel()
	var guard []clientv3.Cmp
	if r.claimed.Load() != 0 {
		there := clientv3.Compare(clientv3.CreateRevision(r.ack), ">", 0)
		got, err := clientv3.NewKV(r.client).Txn(ctx).If(r.heldWith(lease), there).Else(clientv3.OpGet(r.alive)).Commit()
		if err != nil {
			return fmt.Errorf("looking for the keys: %w", err)
		} else if got.Succeeded {
			return nil
		}
		var holder int64
		for _, kv := range got.Responses[0].GetResponseRange().Kvs {
			holder = kv.Lease
		}
		if holder != 0 && holder != lease {
			return fmt.Errorf("another program has the name, its lease is %x", holder)
		}
		guard = append(guard, r.heldWith(holder))
	}
	// The ack of the process before says what was in a target that this one has not looked at.
	nothing, err := json.Marshal(Ack{})
	if err != nil {
		return err
	}
	done, err := clientv3.NewKV(r.client).Txn(ctx).If(guard...).
		Then(clientv3.OpPut(r.alive, "", clientv3.WithLease(clientv3.LeaseID(lease))), clientv3.OpPut(r.ack, string(nothing))).Commit()
	switch {
	case err != nil:
		return fmt.Errorf("writing the keys: %w", err)
	case !done.Succeeded:
		return errors.New("the keys were written by another program at the same time")
	}
	r.claimed.Store(lease)
	notify(r.rewrite)
	notify(r.look)
	return nil
}

// patience is how long an answer of the store may take.
func (r *reporter) patience() time.Duration { return min(r.timeout, r.TTL) }

// withCause adds to an error why there is no connection, if that is so: most errors of the client do not say.
func withCause(ctx context.Context, client *clientv3.Client, err error) error {
	conn := client.ActiveConnection()
	if err == nil || conn == nil || conn.GetState() != connectivity.TransientFailure {
		return err
	}
	// A call that does not wait for a connection returns the last error of one. The key is no key.
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, cause := etcdserverpb.NewKVClient(conn).Range(ctx, &etcdserverpb.RangeRequest{})
	if status.Code(cause) != codes.Unavailable {
		return err
	}
	return fmt.Errorf("%w: %s", err, status.Convert(cause).Message())
}
