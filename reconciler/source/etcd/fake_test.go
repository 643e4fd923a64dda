// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const fakePrefix, fakeIdentity = "p/", "identity"

// fakeServer is an etcd in memory, of which a test makes the store, and its troubles.
type fakeServer struct {
	// delay returns for how long an answer, and the news of a watch, take.
	delay func() time.Duration

	mu       sync.Mutex
	away     bool
	cluster  uint64
	identity string
	// watched is the server that watches are on; nil for this one. paged is called after each page; nil for nothing.
	watched *fakeServer
	paged   func()
	// stores is the number of stores that were replaced.
	stores, revision, compacted int64
	keys                        map[string]*mvccpb.KeyValue // without the prefix
	history                     []*mvccpb.Event
	watches                     map[*fakeWatch]struct{}
}

// fakeWatch is the server's side of a watch: it is the stream, too.
type fakeWatch struct {
	etcdserverpb.Watch_WatchClient
	server *fakeServer
	from   int64
	asked  chan struct{} // for progress, or woken by a change
	// progress reports whether a notification of progress is due. Under the lock of the server, as end.
	progress bool
	end      error
}

var errAway = errors.New("the server is away")

func newFakeServer(delay func() time.Duration) *fakeServer {
	f := &fakeServer{cluster: 1, delay: delay, watches: map[*fakeWatch]struct{}{}}
	f.replace()
	return f
}

// replace puts an empty store in the place of the one that there is.
func (f *fakeServer) replace() {
	f.cut()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stores++
	f.identity, f.revision, f.compacted, f.keys, f.history = "", 1, 0, map[string]*mvccpb.KeyValue{}, nil
}

// backup returns what restore puts in the place of the store, of which watches do not tell.
func (f *fakeServer) backup() (restore func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	revision, keys := f.revision, maps.Clone(f.keys)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.revision, f.compacted, f.keys, f.history = revision, revision, maps.Clone(keys), nil
	}
}

func (f *fakeServer) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// cut ends all watches.
func (f *fakeServer) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		w.end = errAway
		w.wake()
	}
	clear(f.watches)
}

func (f *fakeServer) setAway(away bool) {
	if away {
		f.cut()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

func (f *fakeServer) compact() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.compacted = f.revision
}

// write makes one revision, with the values of some keys; an empty value deletes the key.
func (f *fakeServer) write(values map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	for _, key := range slices.Sorted(maps.Keys(values)) {
		kv := &mvccpb.KeyValue{Key: []byte(fakePrefix + key), Value: []byte(values[key]), ModRevision: f.revision}
		before := f.keys[key]
		if len(kv.Value) == 0 {
			if before != nil {
				delete(f.keys, key)
				f.history = append(f.history, &mvccpb.Event{Type: mvccpb.DELETE, Kv: kv})
			}
			continue
		}
		kv.CreateRevision = f.revision
		if before != nil {
			kv.CreateRevision = before.CreateRevision
		}
		f.keys[key] = kv
		f.history = append(f.history, &mvccpb.Event{Type: mvccpb.PUT, Kv: kv})
	}
	for w := range f.watches {
		w.wake()
	}
}

// now returns what the store has.
func (f *fakeServer) now() (identity string, keys map[string]*mvccpb.KeyValue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.identity, maps.Clone(f.keys)
}

func (f *fakeServer) ready(ctx context.Context) error { return f.answer(ctx) }

// answer waits for as long as an answer takes.
func (f *fakeServer) answer(ctx context.Context) error {
	select {
	case <-time.After(f.delay()):
	case <-ctx.Done():
		return ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return errAway
	}
	return nil
}

func (f *fakeServer) do(ctx context.Context, op clientv3.Op) (none clientv3.OpResponse, err error) {
	if err := f.answer(ctx); err != nil {
		return none, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !op.IsTxn() {
		return (*clientv3.GetResponse)(f.read(op)).OpResponse(), nil
	}
	cmps, ops, others := op.Txn()
	done := &etcdserverpb.TxnResponse{Succeeded: len(cmps) == 0 || f.identity == ""}
	if !done.Succeeded {
		ops = others
	}
	for _, op := range ops {
		if op.IsPut() {
			f.revision++
			f.identity = string(op.ValueBytes())
			continue
		}
		done.Responses = append(done.Responses, &etcdserverpb.ResponseOp{
			Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: f.read(op)},
		})
	}
	done.Header = f.header()
	if after := f.paged; after != nil && len(cmps) == 0 {
		f.mu.Unlock()
		after()
		f.mu.Lock()
	}
	return (*clientv3.TxnResponse)(done).OpResponse(), nil
}

func (f *fakeServer) header() *etcdserverpb.ResponseHeader {
	return &etcdserverpb.ResponseHeader{ClusterId: f.cluster, RaftTerm: 1, Revision: f.revision}
}

// read returns the identity, or a page of the prefix.
func (f *fakeServer) read(op clientv3.Op) *etcdserverpb.RangeResponse {
	r := &etcdserverpb.RangeResponse{Header: f.header()}
	if string(op.KeyBytes()) == fakeIdentity {
		if f.identity != "" {
			r.Kvs = append(r.Kvs, &mvccpb.KeyValue{Key: op.KeyBytes(), Value: []byte(f.identity)})
		}
		return r
	}
	for _, key := range slices.Sorted(maps.Keys(f.keys)) {
		if fakePrefix+key < string(op.KeyBytes()) {
			continue
		}
		if r.More = len(r.Kvs) == int(op.Limit()); r.More {
			break
		}
		r.Kvs = append(r.Kvs, f.keys[key])
	}
	return r
}

func (f *fakeServer) watch(ctx context.Context, from int64) (*watch, error) {
	if err := f.answer(ctx); err != nil {
		return nil, fmt.Errorf("opening a watch: %w", err)
	}
	f.mu.Lock()
	other := f.watched
	f.mu.Unlock()
	if other != nil {
		return other.watch(ctx, from)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if from == 0 {
		from = f.revision + 1
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &fakeWatch{server: f, from: from, asked: make(chan struct{}, 1)}
	if from <= f.compacted {
		s.end = errCompacted
	} else {
		f.watches[s] = struct{}{}
	}
	w := &watch{stream: s, cancel: cancel, at: from - 1, cluster: f.cluster, news: make(chan news, maxAhead)}
	s.wake()
	go s.run(ctx, w)
	return w, nil
}

func (s *fakeWatch) wake() {
	select {
	case s.asked <- struct{}{}:
	default:
	}
}

// Send asks for a notification of progress.
func (s *fakeWatch) Send(*etcdserverpb.WatchRequest) error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.progress = true
	s.wake()
	return nil
}

// run passes on what happens, some time later.
func (s *fakeWatch) run(ctx context.Context, w *watch) {
	defer close(w.news)
	for {
		select {
		case <-s.asked:
		case <-ctx.Done():
			w.err = ctx.Err()
			return
		}
		select {
		case <-time.After(s.server.delay()):
		case <-ctx.Done():
			w.err = ctx.Err()
			return
		}
		n, err := s.next()
		if err != nil {
			w.err = err
			return
		}
		if n.at == 0 {
			continue
		}
		select {
		case w.news <- n:
		case <-ctx.Done():
			w.err = ctx.Err()
			return
		}
	}
}

// next returns what there is to pass on; its revision is zero if there is nothing.
func (s *fakeWatch) next() (n news, err error) {
	f := s.server
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.end != nil {
		return n, s.end
	}
	for _, ev := range f.history {
		if ev.Kv.ModRevision >= s.from {
			n.events = append(n.events, ev)
			n.at = ev.Kv.ModRevision
		}
	}
	if s.progress {
		s.progress, n.at = false, f.revision
	}
	if n.at > 0 {
		s.from = n.at + 1
	}
	return n, nil
}
