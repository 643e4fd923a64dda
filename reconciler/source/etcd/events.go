// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/reconciler/source"
)

// maxEvents bounds, roughly, the events that are applied at once.
const maxEvents = 10_000

// apply applies what a watch has received.
func (s *Source[Obj]) apply(ctx context.Context, n news) error {
	if n.at <= s.revision {
		return nil
	}
	c := newChanges[Obj]()
	for _, ev := range n.events {
		s.moved = ev.Kv.ModRevision
		s.take(ev.Kv, ev.Type == mvccpb.DELETE, c)
	}
	s.publish(c.bad, s.moved)
	s.report()
	return s.applyChanges(ctx, c, n.at)
}

// take takes the value of a key, or its deletion, from a watch or a list. What is older than what is known of
// the key is ignored: a list may be ahead of the watch, or behind it.
func (s *Source[Obj]) take(kv *mvccpb.KeyValue, deleted bool, c *changes[Obj]) {
	key := string(kv.Key[len(s.cfg.Prefix):])
	s.lastChange = max(s.lastChange, kv.ModRevision)
	known := s.keys.all[key]
	switch {
	case kv.ModRevision < known.written, kv.ModRevision <= s.list.deleted(key):
		return
	case kv.ModRevision == known.written && known.decodes:
		// A value that did not decode is tried again.
		return
	}
	if deleted {
		s.keys.remove(key, c)
		if s.list != nil {
			s.list.gone[key] = kv.ModRevision
		}
		return
	}
	obj, row, err := s.decode(key, kv.Value)
	if err != nil {
		if known.written > 0 && kv.CreateRevision > known.written {
			// A list has not seen that the key was deleted before it was put again.
			s.keys.remove(key, c)
		}
		s.keys.spoil(key, err, kv.CreateRevision, kv.ModRevision, c)
		return
	}
	s.keys.put(key, wish[Obj]{
		obj: obj, row: row, wants: true, decodes: true, created: kv.CreateRevision, written: kv.ModRevision,
	}, c)
}

// publish makes what has changed visible to other goroutines: the bad keys, of which those with a nil error
// are bad only before the revision until, the rows that are held, and the revision.
func (s *Source[Obj]) publish(bad map[string]error, until int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = uint64(s.moved)
	for key, err := range bad {
		if err == nil && s.bad.Of(key) != nil {
			s.noteFormer(until)
			break
		}
	}
	now := time.Now()
	for _, key := range slices.Sorted(maps.Keys(bad)) {
		if err := bad[key]; err == nil {
			s.bad.Forget(key)
		} else {
			s.bad.Keep(key, fmt.Errorf("%q: %w", s.cfg.Prefix+key, err), now)
		}
	}
	if s.holds && s.named {
		s.holding = s.keys.numFormer()
	}
}

// applyChanges has the sink apply changes, which are all up to a revision of the store.
func (s *Source[Obj]) applyChanges(ctx context.Context, c *changes[Obj], at int64) error {
	list := make([]source.Change[Obj], len(c.rows))
	for i, row := range c.rows {
		key, wanted := s.keys.rows[row]
		list[i] = source.Change[Obj]{Object: c.objs[row], Deleted: !wanted}
		if wanted {
			list[i].Object = s.keys.all[key].obj
		}
	}
	// The sink moves to the revision only if the table has all that was before.
	included := s.included
	if s.complete {
		included = uint64(at)
	}
	_, err := s.cfg.Sink.Apply(ctx, list, included)
	if err = s.applied(ctx, err, included); err != nil {
		s.relist = "changes were not applied: " + err.Error()
		return err
	}
	s.revision = at
	return nil
}

// applied returns the error of a call of the sink if the call was not complete. An error about some objects
// is kept and told by the sink, which has applied all others. included is the revision to which the call moves
// the sink.
func (s *Source[Obj]) applied(ctx context.Context, err error, included uint64) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, source.ErrEmpty):
		return err
	case errors.Is(err, source.ErrHeld):
		// The sink has applied all else, tells of it, and moves to the revision when the hold ends.
		s.cfg.Log.Warn("Deletions are held", "prefix", s.cfg.Prefix, "revision", included, "error", err)
	case err != nil && s.isIncomplete(included):
		return err
	case err != nil:
		s.cfg.Log.Warn("Not all objects of the store were applied", "prefix", s.cfg.Prefix, "revision", included, "error", err)
	}
	s.included = included
	return nil
}

// isIncomplete reports whether a call of the sink that returned an error was not complete. While deletions are held
// its revision does not move either.
func (s *Source[Obj]) isIncomplete(included uint64) bool {
	state := s.cfg.Sink.State()
	return state.Input != included && state.Held == 0
}

// decode decodes a value, and returns the object and its primary key. A panic of the function of the user is
// an error.
func (s *Source[Obj]) decode(key string, value []byte) (obj Obj, row string, err error) {
	s.running.Begin(guard.Decode, s.cfg.Prefix+key)
	defer func() {
		s.running.End()
		if p := recover(); p != nil {
			err = errors.New("decoding panicked: " + guard.Panicked(p, nil, ""))
		}
		// It stays in memory for as long as the key is bad.
		err = outcome.Keep(err)
	}()
	if obj, err = s.cfg.Decode(key, value); err == nil {
		row, err = s.cfg.Sink.KeyOf(obj)
	}
	return obj, row, err
}
