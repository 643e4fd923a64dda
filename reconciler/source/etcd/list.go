// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/reconciler/source"
)

// list is a list of the prefix that is read while a watch goes on. Each page is read at a revision of its
// own, so no compaction makes it unreadable: what changes between two pages comes from the watch, which began
// before the first one.
type list struct {
	// from is the revision at which the watch was when the list began.
	from int64
	// same reports whether the store is the one that the table is from, so that the watch has told of every
	// change since.
	same bool
	// quiet is a revision of the last comparison but one: if the prefix has not changed since, the list ends a
	// hold. It is -1 if the list ends none.
	quiet int64
	// gone has the revisions at which keys were deleted since the list began: a page may still have them.
	gone map[string]int64
	// read is closed when kvs, by key, has the whole prefix, or err is why it has not.
	read chan struct{}
	kvs  []*mvccpb.KeyValue
	err  error
}

func (l *list) deleted(key string) int64 {
	if l == nil {
		return 0
	}
	return l.gone[key]
}

// done returns a channel that is closed when the list is read; nil if there is no list.
func (l *list) done() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.read
}

// startList begins to list the prefix of the store with an identity.
func (s *Source[Obj]) startList(ctx context.Context, why string, same bool, quiet int64) {
	s.cfg.Log.Info("Listing", "prefix", s.cfg.Prefix, "why", why)
	l := &list{from: s.revision, same: same, quiet: quiet, gone: map[string]int64{}, read: make(chan struct{})}
	s.list = l
	store, seen := s.following, s.seen
	seen.Revision = max(seen.Revision, s.revision)
	go func() {
		defer close(l.read)
		l.kvs, l.err = s.readAll(ctx, store, &seen)
	}()
}

// readAll reads the prefix in pages. Each page is read together with the identity: another store may have taken
// the place of the first one, or a backup of it, which went back. seen is the header of an answer of the store.
func (s *Source[Obj]) readAll(
	ctx context.Context, store string, seen *etcdserverpb.ResponseHeader,
) (kvs []*mvccpb.KeyValue, err error) {
	size := cmp.Or(s.page, s.cfg.PageSize)
	defer func() { s.page = size }()
	end := clientv3.GetPrefixRangeEnd(s.cfg.Prefix)
	for from := s.cfg.Prefix; ; {
		began := time.Now()
		page, err := s.server.do(ctx, clientv3.OpTxn(nil, []clientv3.Op{
			clientv3.OpGet(s.cfg.Identity),
			clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithLimit(int64(size))),
		}, nil))
		switch {
		case errors.Is(err, context.DeadlineExceeded) && size > 1:
			// The page may be too large for the connection.
			size = max(1, size/4)
			continue
		case err != nil:
			return nil, err
		case time.Since(began) < s.cfg.Check/4:
			size = min(2*size, s.cfg.PageSize)
		}
		responses, header := page.Txn().Responses, page.Txn().Header
		if identity := responses[0].GetResponseRange().Kvs; len(identity) == 0 || string(identity[0].Value) != store ||
			header.ClusterId != seen.ClusterId || header.Revision < seen.Revision {
			return nil, errors.New("the store was replaced while it was read")
		}
		seen = header
		keys := responses[1].GetResponseRange()
		kvs = append(kvs, keys.Kvs...)
		if !keys.More || len(keys.Kvs) == 0 {
			return kvs, nil
		}
		from = string(keys.Kvs[len(keys.Kvs)-1].Key) + "\x00"
	}
}

// identify returns the identity of the store, which it makes if it is missing, and the header of an answer.
func (s *Source[Obj]) identify(ctx context.Context) (string, *etcdserverpb.ResponseHeader, error) {
	got, err := s.server.do(ctx, clientv3.OpGet(s.cfg.Identity))
	if err != nil {
		return "", nil, err
	}
	switch kvs := got.Get().Kvs; {
	case len(kvs) == 0:
	case len(kvs[0].Value) == 0:
		return "", nil, fmt.Errorf("the identity %q of the store is empty: delete the key", s.cfg.Identity)
	default:
		return string(kvs[0].Value), got.Get().Header, nil
	}
	made := rand.Text()
	txn, err := s.server.do(ctx, clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(s.cfg.Identity), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(s.cfg.Identity, made)},
		[]clientv3.Op{clientv3.OpGet(s.cfg.Identity)}))
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("making the identity %q of the store: %w", s.cfg.Identity, err)
	case txn.Txn().Succeeded:
		return made, txn.Txn().Header, nil
	}
	return string(txn.Txn().Responses[0].GetResponseRange().Kvs[0].Value), txn.Txn().Header, nil
}

// endList makes the table match a list that was read, together with what the watch has told meanwhile.
func (s *Source[Obj]) endList(ctx context.Context) error {
	err := s.list.err
	if err == nil {
		err = s.replace(ctx, s.list)
	}
	s.list = nil
	s.mu.Lock()
	s.listErr = err
	s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		s.relist = ""
		s.nextList = time.Now().Add(s.cfg.Relist - mathrand.N(s.cfg.Relist/5+1))
		s.cfg.Sink.Connected()
	case s.relist != "":
		return fmt.Errorf("listing: %w", err)
	default:
		// The watch goes on without it.
		s.cfg.Log.Warn("Listing failed", "prefix", s.cfg.Prefix, "error", err)
		s.nextList = time.Now().Add(s.cfg.Check)
	}
	s.report()
	return nil
}

// replace makes the table match a list that was read. If the store is another one, rows that it does not have are
// held until it was quiet: it may not be filled yet.
func (s *Source[Obj]) replace(ctx context.Context, l *list) error {
	c := newChanges[Obj]()
	for _, kv := range l.kvs {
		s.take(kv, false, c)
	}
	objs := s.keep(l, c)
	s.moved = s.revision
	// Before the revision is published: what is attempted up to it is judged together with these. If the
	// revision has not moved, a value that did not decode is tried again, and bad until its row is written.
	s.publish(c.bad, max(s.revision, int64(s.included)+1))
	if !l.same && s.lacks() && s.lastChange > l.quiet {
		return s.hold(ctx, c)
	}
	// Another store in which no key decodes counts as empty: what its keys want is from the former store.
	empty := !l.same && !s.keys.anyDecodes()
	if empty {
		objs = nil
	}
	replace := s.cfg.Sink.Replace
	if !l.same {
		// Revisions that the sink publishes from now on are of the other store.
		s.setStore("")
	} else if len(objs) == 0 {
		// The sink refuses an empty list, because a store may lose what it had. This one has not.
		replace = func(ctx context.Context, _ []Obj, at uint64) (int, error) { return s.cfg.Sink.Clear(ctx, at) }
	}
	_, err := replace(ctx, objs, uint64(s.revision))
	if errors.Is(err, source.ErrEmpty) && !l.same {
		s.refused = s.lastChange
		return s.hold(ctx, c)
	}
	if err = s.applied(ctx, err, uint64(s.revision)); err != nil {
		s.complete = false
		return fmt.Errorf("applying the list of revision %d: %w", s.revision, err)
	}
	s.complete = true
	if !l.same {
		s.keys.adopt(empty)
	}
	s.release()
	return nil
}

// keep removes the keys that a list does not have, and returns the objects of the others, first those of the
// list in its order. What is wanted by keys of a former store is neither removed nor returned.
func (s *Source[Obj]) keep(l *list, c *changes[Obj]) []Obj {
	listed := make(map[string]struct{}, len(l.kvs))
	for _, kv := range l.kvs {
		listed[string(kv.Key[len(s.cfg.Prefix):])] = struct{}{}
	}
	var others []string
	for key, x := range s.keys.all {
		switch _, found := listed[key]; {
		case found:
		case x.written > l.from:
			// The watch tells what becomes of it.
			others = append(others, key)
		case x.written == 0 && x.wants:
			// What was wrong with it was wrong in the former store.
			c.bad[key] = nil
		default:
			s.keys.remove(key, c)
		}
	}
	objs := make([]Obj, 0, len(s.keys.rows))
	add := func(key string) {
		if s.keys.has(key) {
			objs = append(objs, s.keys.all[key].obj)
		}
	}
	for _, kv := range l.kvs {
		add(string(kv.Key[len(s.cfg.Prefix):]))
	}
	for _, key := range others {
		add(key)
	}
	return objs
}

// lacks reports whether the table has rows of a former store, or from before this source, that the store which is
// followed does not have. If no key of that decodes, it has none of them.
func (s *Source[Obj]) lacks() bool {
	if s.isHolding() && !s.named {
		return true
	}
	empty := !s.keys.anyDecodes()
	for _, x := range s.keys.all {
		if x.wants && (x.written == 0 || x.former && empty) {
			return true
		}
	}
	return false
}

// hold applies changes, and keeps all other rows although the store does not have their keys.
func (s *Source[Obj]) hold(ctx context.Context, c *changes[Obj]) error {
	s.complete = false
	if err := s.applyChanges(ctx, c, s.revision); err != nil {
		return err
	}
	begins := !s.isHolding()
	holding := s.keys.numFormer()
	if begins {
		s.named = holding > 0
	}
	if !s.named {
		holding = s.cfg.Sink.State().Rows
	}
	s.mu.Lock()
	s.holding, s.holds, s.former = holding, true, former{}
	s.mu.Unlock()
	s.setStore(s.following)
	return nil
}

// release ends a hold, if there is one: the table is that of the store that is followed.
func (s *Source[Obj]) release() {
	s.mu.Lock()
	s.holding, s.holds = 0, false
	if s.store != s.following {
		s.former = former{}
	}
	s.former.until = min(s.former.until, uint64(s.revision))
	s.mu.Unlock()
	s.setStore(s.following)
}
