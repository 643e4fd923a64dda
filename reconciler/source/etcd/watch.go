// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// errCompacted is returned if the store no longer has the events that a watch begins with.
var errCompacted = errors.New("the store was compacted past the last revision that was read")

// news is what a watch receives: all events of the prefix up to the revision at that were not received
// before. It has no events if it is a notification of progress.
type news struct {
	events []*mvccpb.Event
	at     int64
}

// watch is one stream of etcd with one watch on it. It uses the stream itself and not clientv3.Watcher,
// which resumes a watch unseen, at once, and in whichever store it finds. This one ends when its
// connection ends.
type watch struct {
	stream etcdserverpb.Watch_WatchClient
	cancel context.CancelFunc
	// at is the revision of the store after which the watch began, and cluster the ID of its cluster; zero if a proxy does
	// not say it.
	at      int64
	cluster uint64
	// news is closed when the watch has ended. err is the reason; it is read after that.
	news chan news
	err  error
}

// maxAhead bounds the responses that are read and not taken yet. What comes after them waits in etcd.
const maxAhead = 64

// openWatch begins a watch of the prefix with the events of a revision, or with those after the watch if it is
// zero, and returns when etcd has confirmed it. That may take as long as timeout. Call close to free it. The
// confirmation does not say whether the revision is compacted: that may come as the end of the watch.
func openWatch(ctx context.Context, client *clientv3.Client, prefix string, from int64, timeout time.Duration) (*watch, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	late := time.AfterFunc(timeout, cancel)
	w := &watch{cancel: cancel, news: make(chan news, maxAhead)}
	err := w.begin(ctx, client, prefix, from)
	if !late.Stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("opening a watch from revision %d: %w", from, err)
	}
	go w.receive(ctx)
	return w, nil
}

func (w *watch) begin(ctx context.Context, client *clientv3.Client, prefix string, from int64) error {
	var err error
	w.stream, err = etcdserverpb.NewWatchClient(client.ActiveConnection()).Watch(ctx, grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return err
	}
	create := &etcdserverpb.WatchCreateRequest{
		Key: []byte(prefix), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(prefix)),
		StartRevision: from, ProgressNotify: true, Fragment: true,
	}
	// If the stream has ended, Send returns io.EOF, and Recv the reason.
	_ = w.stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: create}})
	created, err := w.stream.Recv()
	if err != nil {
		return err
	}
	if !created.Created {
		return errors.New("etcd has not confirmed the watch")
	}
	w.at, w.cluster = from-1, created.Header.GetClusterId()
	if from == 0 {
		w.at = created.Header.GetRevision()
	}
	return canceled(created)
}

// isOf returns an error if the watch is one of another cluster than an answer with this header: the members that a client
// knows may be of two.
func (w *watch) isOf(header *etcdserverpb.ResponseHeader) error {
	if w.cluster != 0 && w.cluster != header.ClusterId {
		return fmt.Errorf("the watch is on a member of another cluster, %x, not %x", w.cluster, header.ClusterId)
	}
	return nil
}

// requestProgress asks for a notification of progress. etcd sends none while the watch lags behind. If
// the stream has ended, news is closed.
func (w *watch) requestProgress() {
	_ = w.stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{
		ProgressRequest: &etcdserverpb.WatchProgressRequest{},
	}})
}

// canceled returns why a response ends the watch; nil if it does not.
func canceled(r *etcdserverpb.WatchResponse) error {
	switch {
	case r.CompactRevision > 0:
		return errCompacted
	case r.Canceled:
		return fmt.Errorf("etcd has cancelled the watch: %s", r.CancelReason)
	}
	return nil
}

// receive passes on what the stream receives, until it ends.
func (w *watch) receive(ctx context.Context) {
	defer close(w.news)
	var fragments []*mvccpb.Event
	for {
		r, err := w.stream.Recv()
		if err == nil {
			err = canceled(r)
		}
		if err != nil {
			w.err = err
			return
		}
		fragments = append(fragments, r.Events...)
		if r.Fragment {
			continue
		}
		// A notification of progress comes after all events up to its revision. With events, the
		// revision of the response may be that of the store, which has more events for a watch that
		// lags behind. Events of one revision are in one response.
		n := news{events: fragments, at: r.Header.GetRevision()}
		if len(n.events) > 0 {
			n.at = n.events[len(n.events)-1].Kv.ModRevision
		}
		fragments = nil
		select {
		case w.news <- n:
		case <-ctx.Done():
			w.err = ctx.Err()
			return
		}
	}
}

// take returns first together with what was received since, as far as that is at most about a number of
// events.
func (w *watch) take(first news, events int) news {
	for len(first.events) < events {
		select {
		case next, ok := <-w.news:
			if !ok {
				return first
			}
			first.events = append(first.events, next.events...)
			first.at = max(first.at, next.at)
		default:
			return first
		}
	}
	return first
}

// close ends the watch, and returns when its goroutine has ended.
func (w *watch) close() {
	w.cancel()
	for range w.news {
	}
}
