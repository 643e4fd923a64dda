// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// check finds out whether the store is still the same and the watch still works, and begins a list when that
// is due. An error ends the watch. last is the revision of the watch at the last call, which it sets; -1 before the
// first.
func (s *Source[Obj]) check(ctx context.Context, w *watch, last *int64) error {
	if seen := s.seen.Revision; s.revision < seen && s.revision == *last {
		return fmt.Errorf("the watch is silent: it is at revision %d, the store was at revision %d", s.revision, seen)
	}
	before, again := s.seen.Revision, *last >= 0
	if err := s.compare(ctx); err != nil {
		return err
	}
	*last = s.revision
	// The revision since which the prefix has not changed; -1 if it has since the last comparison on this watch.
	quiet := int64(-1)
	if again && s.lastChange <= before {
		quiet = before
	}
	holding := s.isHolding()
	switch {
	case s.list != nil:
	case !time.Now().Before(s.nextList):
		s.startList(ctx, "it is time", !holding, quiet)
	case holding && s.lastChange != s.refused && (quiet >= 0 || !s.lacks()):
		s.startList(ctx, "rows are held", false, quiet)
	}
	w.requestProgress()
	return nil
}

// compare compares the store with what is known of it, and keeps what is known of it now.
func (s *Source[Obj]) compare(ctx context.Context) error {
	header, err := s.ask(ctx)
	if err == nil {
		s.seen = *header
	}
	return err
}

// ask returns the header of an answer of the store. If it is another one, the error says why, and so does relist.
func (s *Source[Obj]) ask(ctx context.Context) (*etcdserverpb.ResponseHeader, error) {
	get := clientv3.OpGet(s.cfg.Identity)
	got, err := s.server.do(ctx, get)
	if err != nil && ctx.Err() == nil {
		// A member that hangs says nothing of a watch on another one. The client asks the members in turn.
		got, err = s.server.do(ctx, get)
	}
	if err != nil {
		return nil, fmt.Errorf("comparing the identity of the store: %w", err)
	}
	var store string
	for _, kv := range got.Get().Kvs {
		store = string(kv.Value)
	}
	header := got.Get().Header
	if why := s.differs(store, header); why != "" {
		// The store may look as before when it is listed.
		s.setStore("")
		s.relist = why
		return nil, errors.New(why)
	}
	return header, nil
}

// differs returns why a store with an identity, and with a header of its answers, is not the one that is
// followed, or one that a backup has brought back; empty if it is. In one store neither the revision nor the
// raft term of a linearizable read goes back. A member that has lost an election may show a higher term for a
// moment: then a list is read in vain.
func (s *Source[Obj]) differs(store string, now *etcdserverpb.ResponseHeader) string {
	switch seen := max(s.seen.Revision, s.revision); {
	case now.Revision < seen:
		return fmt.Sprintf("the revision of the store went back from %d to %d", seen, now.Revision)
	case store == "":
		return "the store has no identity"
	case store != s.following:
		return "the store has another identity"
	case now.ClusterId != s.seen.ClusterId:
		return fmt.Sprintf("the store has another cluster ID, %x, before %x", now.ClusterId, s.seen.ClusterId)
	case now.RaftTerm < s.seen.RaftTerm:
		return fmt.Sprintf("the raft term of the store went back from %d to %d", s.seen.RaftTerm, now.RaftTerm)
	}
	return ""
}
