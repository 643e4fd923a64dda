// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/statekeel/statekeel/reconciler/source"
)

// maxEvents bounds, roughly, the events that are applied at once.
const maxEvents = 10_000

// apply applies what a watch has received.
func (s *Source[Obj]) apply(ctx context.Context, n news) error {
	if n.at <= s.revision {
		return nil
	}
	bad := map[string]error{} // nil: not any more
	touched := s.take(n.events, bad)
	changes := s.changesOf(touched, bad)
	s.publish(bad)
	s.report()
	return s.applyChanges(ctx, changes, n.at)
}

// touched has the rows that events are about, in the order of the events.
type touched[Obj any] struct {
	rows  []string
	byRow map[string]touch[Obj]
}

// touch is what events say of a row: an object with it, and the last key that was put for it, if put is true.
type touch[Obj any] struct {
	obj Obj
	key string
	put bool
}

func (t *touched[Obj]) note(row string, what touch[Obj]) {
	before, again := t.byRow[row]
	if !again {
		t.rows = append(t.rows, row)
	} else if !what.put {
		what = before
	}
	t.byRow[row] = what
}

// take changes what the keys want, and returns the rows that this is about. It sets in bad whether a key
// decodes.
func (s *Source[Obj]) take(events []*mvccpb.Event, bad map[string]error) touched[Obj] {
	t := touched[Obj]{byRow: make(map[string]touch[Obj], len(events))}
	for _, ev := range events {
		// A list may have gone past the events.
		if ev.Kv.ModRevision <= s.revision {
			continue
		}
		s.moved = ev.Kv.ModRevision
		key := string(ev.Kv.Key[len(s.cfg.Prefix):])
		delete(s.held, key)
		old, had := s.wanted.keys[key]
		if ev.Type == mvccpb.DELETE {
			bad[key] = nil
			if had {
				row, _ := s.wanted.rowOf(old.obj)
				t.note(row, touch[Obj]{obj: old.obj})
				s.wanted.remove(key)
			}
			continue
		}
		obj, row, err := s.decode(key, ev.Kv.Value)
		if bad[key] = err; err != nil {
			continue
		}
		if had {
			if before, _ := s.wanted.rowOf(old.obj); before != row {
				t.note(before, touch[Obj]{obj: old.obj})
			}
		}
		s.wanted.put(key, obj, row, ev.Kv.ModRevision)
		t.note(row, touch[Obj]{obj: obj, key: key, put: true})
	}
	return t
}

// changesOf returns a change for each row. It sets in bad which keys have lost their row, or have it again.
func (s *Source[Obj]) changesOf(t touched[Obj], bad map[string]error) []source.Change[Obj] {
	changes := make([]source.Change[Obj], 0, len(t.rows))
	var others []string
	for _, row := range t.rows {
		if one := t.byRow[row]; one.put && s.wanted.alone(one.key, row) {
			changes = append(changes, source.Change[Obj]{Object: one.obj})
		} else {
			others = append(others, row)
		}
	}
	rivals := s.wanted.rivals(others)
	for _, row := range others {
		keys := rivals[row]
		if len(keys) == 0 {
			changes = append(changes, source.Change[Obj]{Object: t.byRow[row].obj, Deleted: true})
			continue
		}
		winner := s.wanted.winner(keys)
		changes = append(changes, source.Change[Obj]{Object: s.wanted.keys[winner].obj})
		for _, key := range keys {
			s.judge(key, winner, bad)
		}
	}
	return changes
}

// publish makes what events have changed visible to other goroutines: the bad keys, of which those with a nil
// error are not bad any more, the rows that are held, and the revision.
func (s *Source[Obj]) publish(bad map[string]error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = uint64(s.moved)
	for key, err := range bad {
		if _, was := s.bad[key]; was && err == nil {
			s.noteFormer(s.moved)
			break
		}
	}
	for key, err := range bad {
		if err == nil {
			delete(s.bad, key)
		} else {
			s.bad[key] = err
		}
	}
	if s.held != nil {
		s.holding = len(s.held)
	}
}

// judge notes in bad whether a key has lost its row to the key winner. An error of decoding stays.
func (s *Source[Obj]) judge(key, winner string, bad map[string]error) {
	err, news := bad[key]
	if !news {
		err = s.bad[key]
	}
	_, lost := err.(rivalError)
	switch {
	case err != nil && !lost:
	case key != winner:
		bad[key] = rivalError{winner: s.cfg.Prefix + winner}
	case lost:
		bad[key] = nil
	}
}

// applyChanges has the sink apply changes, which are all up to a revision of the store.
func (s *Source[Obj]) applyChanges(ctx context.Context, changes []source.Change[Obj], at int64) error {
	_, err := s.cfg.Sink.Apply(ctx, changes, uint64(at))
	// While rows are held the sink does not move, and a list follows.
	if err := s.applied(ctx, err, at, !s.isHolding()); err != nil {
		s.relist = "changes were not applied: " + err.Error()
		for _, c := range changes {
			s.noteStray(c.Object)
		}
		return err
	}
	s.revision = at
	return nil
}

func (s *Source[Obj]) noteStray(obj Obj) {
	if row, err := s.wanted.rowOf(obj); err == nil {
		s.stray[row] = obj
	}
}

// applied returns the error of a call of the sink if the call was not complete. An error about some objects
// is kept and told by the sink, which has applied all others. moves reports whether a call that is complete
// moves the sink to the revision.
func (s *Source[Obj]) applied(ctx context.Context, err error, at int64, moves bool) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
	case moves && s.cfg.Sink.State().Input != uint64(at):
		return err
	default:
		s.cfg.Log.Warn("Not all objects of the store were applied", "prefix", s.cfg.Prefix, "revision", at, "error", err)
	}
	return nil
}

// decode decodes a value, and returns the object and its primary key. A panic of the function of the user is
// an error.
func (s *Source[Obj]) decode(key string, value []byte) (obj Obj, row string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoding panicked: %v", p)
		}
	}()
	if obj, err = s.cfg.Decode(key, value); err == nil {
		row, err = s.wanted.rowOf(obj)
	}
	return obj, row, err
}
