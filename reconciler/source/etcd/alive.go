// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// keepAlive holds the keys of this agent, one of them with a lease, until ctx ends. It uses the service of
// leases itself: the client retries without a wait while there is no connection.
func (r *reporter) keepAlive(ctx context.Context) {
	for ctx.Err() == nil {
		_, replaced := r.Source.current()
		var err error
		if used := r.stream != nil; r.lease != 0 {
			// The connection of a stream that was used before may have ended since.
			if err = r.renew(ctx); used && r.stream == nil {
				err = r.renew(ctx)
			}
		}
		if r.lease == 0 {
			err = r.grant(ctx)
		}
		if err == nil {
			err = r.claim(ctx)
		}
		r.problem(ctx, r.alive, err)
		// Three times within the life of the lease, not all agents at the same time.
		wait := r.TTL / 3
		select {
		case <-time.After(wait - rand.N(wait/2+1)):
		case <-replaced:
			// A store from a backup has the lease, and an older ack.
			r.rewrite.Send()
		case <-ctx.Done():
		}
	}
	if r.lease != 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = r.leases().LeaseRevoke(ctx, &etcdserverpb.LeaseRevokeRequest{ID: r.lease})
	}
}

func (r *reporter) leases() etcdserverpb.LeaseClient {
	return etcdserverpb.NewLeaseClient(r.client.ActiveConnection())
}

// renewals is a lease, zero if there is none, and the stream on which it is renewed, nil if there is none. It is
// kept: with a password, the client logs in for each new stream, and a log-in costs etcd tens of milliseconds of
// CPU.
type renewals struct {
	lease  int64
	stream etcdserverpb.Lease_LeaseKeepAliveClient
	end    context.CancelFunc
}

// renew has the lease live for longer, on the stream that there is, or on a new one, which lives as long as ctx.
// There is no lease any more if the store does not have it.
func (r *reporter) renew(ctx context.Context) (err error) {
	if r.stream == nil {
		ctx, r.end = context.WithCancel(ctx)
	}
	late := time.AfterFunc(r.patience(), r.end)
	defer late.Stop()
	if r.stream == nil {
		r.stream, err = r.leases().LeaseKeepAlive(ctx, grpc.WaitForReady(true))
	}
	var renewed *etcdserverpb.LeaseKeepAliveResponse
	if err == nil {
		// If the stream has ended, Recv returns the reason.
		_ = r.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: r.lease})
		renewed, err = r.stream.Recv()
	}
	if err != nil {
		r.end()
		r.stream = nil
		return fmt.Errorf("renewing the lease: %w", err)
	}
	if renewed.TTL <= 0 {
		r.lease = 0
	}
	return nil
}

// grant gets a lease.
func (r *reporter) grant(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.patience())
	defer cancel()
	granted, err := r.leases().LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{TTL: int64(r.TTL / time.Second)}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("getting a lease: %w", err)
	}
	r.lease = granted.ID
	return nil
}

// heldWith compares the lease of the key. That of a key that is not there is zero.
func (r *reporter) heldWith(lease int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.LeaseValue(r.alive), "=", lease)
}

// claim writes the keys if one of them is missing. At the start it takes them over from the process before.
// Later they are another program's if they have another lease: the last word is then that of the other.
func (r *reporter) claim(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.patience())
	defer cancel()
	kv := clientv3.NewKV(r.client)
	got, err := kv.Txn(ctx).Then(clientv3.OpGet(r.alive), clientv3.OpGet(r.ack, clientv3.WithKeysOnly())).Commit()
	if err != nil {
		return err
	}
	found := func(i int) *mvccpb.KeyValue {
		return append(got.Responses[i].GetResponseRange().Kvs, &mvccpb.KeyValue{})[0]
	}
	holder, written := found(0).Lease, found(1).ModRevision // zero without the key
	switch claimed := r.claimed.Load(); {
	case claimed == 0:
	case holder == r.lease && claimed == r.lease && written > 0:
		return nil
	case holder != r.lease && holder != 0:
		return fmt.Errorf("another program has the name, its lease is %x", holder)
	default:
		// Without an answer they are written again.
		r.claimed.Store(-1)
	}
	// The ack of the process before says what was in a target that this one has not looked at.
	done, err := kv.Txn(ctx).If(r.heldWith(holder), clientv3.Compare(clientv3.ModRevision(r.ack), "=", written)).
		Then(clientv3.OpPut(r.alive, "", clientv3.WithLease(clientv3.LeaseID(r.lease))), r.say(Ack{})).Commit()
	if err == nil && done.Succeeded {
		r.claimed.Store(r.lease)
		r.rewrite.Send()
	}
	return err
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
