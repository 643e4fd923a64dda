// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// progress is what the last comparison found: the revision of the store, and that of the watch.
type progress struct{ store, watch int64 }

// check finds out whether the store is still the same and the watch still works, and lists the
// prefix when that is due. An error ends the watch.
func (s *Source[Obj]) check(ctx context.Context, w *watch, last *progress) error {
	if s.revision < last.store && s.revision == last.watch {
		return fmt.Errorf("the watch is silent: it is at revision %d, the store was at revision %d", s.revision, last.store)
	}
	revision, err := s.compare(ctx)
	if err != nil {
		return err
	}
	if s.relist != "" {
		return errors.New(s.relist)
	}
	*last = progress{store: revision, watch: s.revision}
	quiet := s.moved == s.quiet
	s.quiet = s.moved
	switch {
	case !time.Now().Before(s.nextList):
		s.relist = "it is time"
	case s.isHolding() && s.moved > s.heldAt && quiet:
		s.relist = "the store that was empty has been filled"
	default:
		w.requestProgress()
		return nil
	}
	store, _ := s.current()
	if err := s.list(ctx); err != nil {
		return err
	}
	if now, _ := s.current(); now != store {
		return errors.New("the store was replaced")
	}
	return nil
}

// compare compares the store with what is known of it, and returns its revision. If it differs, relist
// says why.
func (s *Source[Obj]) compare(ctx context.Context) (revision int64, err error) {
	get := clientv3.OpGet(s.cfg.Identity)
	got, err := s.call(ctx, get)
	if err != nil && ctx.Err() == nil {
		// A member that hangs says nothing of a watch on another one. The client asks the members in turn.
		got, err = s.call(ctx, get)
	}
	if err != nil {
		return 0, fmt.Errorf("comparing the identity of the store: %w", err)
	}
	revision = got.Get().Header.Revision
	known, _ := s.current()
	switch kvs := got.Get().Kvs; {
	case revision < s.revision:
		s.relist = fmt.Sprintf("the revision of the store went back from %d to %d", s.revision, revision)
	case len(kvs) == 0:
		s.relist = "the store has no identity"
	case string(kvs[0].Value) != known:
		s.relist = "the store has another identity"
	}
	return revision, nil
}
