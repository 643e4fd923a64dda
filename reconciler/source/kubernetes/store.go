// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/statekeel/statekeel/internal/claims"
	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/problems"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/source"
)

// store is where the Reflector puts what it has read. Its goroutine is that of Run.
type store[Kind object, Obj any] struct{ *Source[Kind, Obj] }

// item is what is kept of an object. The Reflector knows it by its name, while a list streams.
type item[Obj any] struct {
	metav1.ObjectMeta
	rows []claims.Wanted[Obj]
	err  error
}

func keyOf(o metav1.Object) string { return cache.MetaObjectToName(o).String() }

// Transformer returns the function that makes an item of an object of a list that streams.
func (s store[Kind, Obj]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.convert(obj.(Kind)), nil }
}

// Add takes an object that is new, and Update one that has changed.
func (s store[Kind, Obj]) Add(obj any) error {
	s.added = time.Now()
	return s.Update(obj)
}
func (s store[Kind, Obj]) Update(obj any) error {
	return s.event(obj, func(o Kind) { s.put(s.convert(o)) })
}

// Delete takes an object that is gone.
func (s store[Kind, Obj]) Delete(obj any) error {
	return s.event(obj, func(o Kind) { s.remove(keyOf(o)) })
}

// Resync is of no use: nothing can be lost on the way to the sink.
func (s store[Kind, Obj]) Resync() error { return nil }

func (s store[Kind, Obj]) event(obj any, take func(Kind)) error {
	err := s.reach(obj.(Kind).GetResourceVersion())
	s.failures = 0
	s.behind = cmp.Or(s.behind, time.Now())
	take(obj.(Kind))
	if len(s.stream.events) == 0 || time.Since(s.behind) > maxLag {
		s.write(false)
	}
	return err
}

// Bookmark takes the version that the watch has reached without a change.
func (s store[Kind, Obj]) Bookmark(version string) error {
	err := s.reach(version)
	s.failures, s.bookmarks = 0, true
	s.write(true)
	return err
}

// Replace takes a list: items, if it was streamed, or objects.
func (s store[Kind, Obj]) Replace(list []any, version string) error {
	for i, obj := range list {
		if o, is := obj.(Kind); is && s.ctx.Err() == nil {
			list[i] = s.convert(o) // the memory of o is free
		}
	}
	if err := s.ctx.Err(); err != nil {
		return err
	}
	replaced := s.isBehind(version) || s.cluster != "" && s.found != "" && s.cluster != s.found
	s.same = !replaced && s.found != "" && s.cluster == s.found && s.included > 0
	if err := s.reach(version); err != nil {
		s.failed(err) // before its watch ends
		return err
	}
	s.cluster = cmp.Or(s.found, s.cluster)
	if replaced {
		s.added = time.Now()
	}
	listed := make(map[string]struct{}, len(list))
	for _, obj := range list {
		x := obj.(*item[Obj])
		key := keyOf(x)
		if _, was := s.former[key]; was || len(s.wants.Of(key)) < min(len(x.rows), 1) {
			s.added = time.Now()
		}
		listed[key] = struct{}{}
		s.put(x)
	}
	for key, in := range s.wants.Inputs {
		if _, is := listed[key]; is {
			continue
		}
		if _, is := s.former[key]; !replaced && !is {
			s.remove(key)
			continue
		}
		s.former[key] = struct{}{}
		// An object of the present cluster has the row that both want.
		rows := make([]claims.Wanted[Obj], len(in.Claims))
		for i, c := range in.Claims {
			rows[i] = claims.Wanted[Obj]{Key: c.At.Key, Row: c.Row}
		}
		s.want(key, math.MaxInt64, rows)
	}
	for key := range s.bad.Keys() {
		if _, is := listed[key]; !is {
			s.bad.Forget(key)
		}
	}
	s.cfg.Log.Info("Listed", "resource", s.cfg.Resource, "version", version, "objects", len(list), "replaced", replaced)
	if s.unnamed != nil {
		s.cfg.Log.Warn("The cluster is not known", "error", s.unnamed)
	}
	s.full = false
	err := s.write(true)
	s.cfg.Sink.Connected() // even if the sink has refused the list
	for _, done := range s.waits {
		done <- errors.Join(err, problems.Joined(&s.bad, &s.shared))
	}
	s.waits = nil
	return nil
}

// reach notes that the server was seen at a version, which has to be a number: a sink takes no other.
func (s *Source[Kind, Obj]) reach(version string) error {
	at, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return fmt.Errorf("the server cannot be followed: the resource version %q is no number of 64 bits", version)
	}
	s.version, s.at = version, at
	return nil
}

// call calls Rows. While that hangs nothing is applied, and the state says so.
func (s *Source[Kind, Obj]) call(obj Kind) ([]Obj, error) {
	told := make(chan bool, 1)
	long := time.AfterFunc(guard.LongAfter, func() {
		connected, since := s.cfg.Sink.State().Connected, text.Stamp(time.Now().Add(-guard.LongAfter))
		s.cfg.Sink.Disconnected(fmt.Errorf("%s %s: Rows runs since %s", s.cfg.Resource, keyOf(obj), since))
		told <- connected
	})
	defer func() {
		if !long.Stop() && <-told {
			s.cfg.Sink.Connected()
		}
	}()
	return s.cfg.Rows(obj)
}

// convert makes the rows of an object.
func (s *Source[Kind, Obj]) convert(obj Kind) (x *item[Obj]) {
	x = &item[Obj]{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), CreationTimestamp: obj.GetCreationTimestamp(),
	}}
	defer func() {
		if p := recover(); p != nil {
			x.err = errors.New("Rows panicked: " + guard.Panicked(p, s.cfg.Log, "Rows panicked", "object", keyOf(x)))
		}
		x.err = outcome.Keep(x.err) // for as long as the object is bad
	}()
	rows, err := s.call(obj)
	x.err = err
	had := make(map[string]struct{}, len(rows))
	for _, row := range rows {
		key, err := s.cfg.Sink.KeyOf(row)
		if _, twice := had[key]; err == nil && twice {
			err = fmt.Errorf("two of its rows have the key %s", text.Key([]byte(key)))
		}
		had[key] = struct{}{}
		x.err = errors.Join(x.err, err)
		x.rows = append(x.rows, claims.Wanted[Obj]{Key: key, Row: row})
	}
	return x
}

// put takes a version of an object. If it is bad, its rows stay.
func (s *Source[Kind, Obj]) put(x *item[Obj]) {
	key := keyOf(x)
	delete(s.former, key)
	if x.err != nil {
		s.keep(&s.bad, key, fmt.Errorf("%s %s: %w", s.cfg.Resource, key, x.err))
		return
	}
	s.bad.Forget(key)
	s.want(key, x.CreationTimestamp.Unix(), x.rows)
}

// keep notes what is wrong with an object, or a row.
func (s *Source[Kind, Obj]) keep(in *problems.Set, key string, err error) {
	if in.Keep(key, err, time.Now()) {
		s.cfg.Log.Warn("Not applied", "error", err)
	}
}

// remove forgets an object.
func (s *Source[Kind, Obj]) remove(key string) {
	delete(s.former, key)
	s.bad.Forget(key)
	s.want(key, 0, nil)
}

// want notes which rows an object wants, and when it was created.
func (s *Source[Kind, Obj]) want(key string, created int64, rows []claims.Wanted[Obj]) {
	for _, c := range s.wants.Of(key) {
		s.gone[c.At.Key] = c.Row
	}
	s.wants.Put(key, struct{}{}, claims.By(created), rows)
}

// changes returns what has changed since the last call.
func (s *Source[Kind, Obj]) changes() []source.Change[Obj] {
	changes := make([]source.Change[Obj], 0, len(s.wants.Dirty))
	for len(s.wants.Dirty) > 0 {
		at := s.wants.Next()
		if len(at.Heap) > 0 {
			changes = append(changes, source.Change[Obj]{Object: at.Heap[0].Row})
		} else {
			changes = append(changes, source.Change[Obj]{Object: s.gone[at.Key], Deleted: true})
			delete(s.wants.Places, at.Key)
		}
		if first := at.First(2); len(first) < 2 {
			s.shared.Forget(at.Key)
		} else {
			s.keep(&s.shared, at.Key, fmt.Errorf("%s %s: the row %s is that of %s, which is older, or has the lower name",
				s.cfg.Resource, first[1].Of.Key, text.Key([]byte(at.Key)), first[0].Of.Key))
		}
	}
	s.gone = map[string]Obj{}
	return changes
}

// write puts what has changed into the sink, or everything, if the table may lack something. It returns why it does.
func (s *Source[Kind, Obj]) write(mayEndHold bool) (err error) {
	changes, at := s.changes(), s.at
	s.behind = time.Time{}
	switch {
	case len(s.former) > 0 && (!mayEndHold || time.Since(s.added) < calm):
		at = s.included
		_, err = s.cfg.Sink.Apply(s.ctx, changes, at)
	case s.full:
		_, err = s.cfg.Sink.Apply(s.ctx, changes, at)
		s.full = s.isComplete(err, at)
	default:
		rows := make([]Obj, 0, len(s.wants.Places))
		for _, at := range s.wants.Places {
			if _, held := s.former[at.Heap[0].Of.Key]; !held {
				rows = append(rows, at.Heap[0].Row)
			}
		}
		if s.same && len(rows)+len(s.former) == 0 {
			_, err = s.cfg.Sink.Clear(s.ctx, at) // an empty list is refused: a server may lose what it had; this one has not
		} else {
			_, err = s.cfg.Sink.Replace(s.ctx, rows, at)
		}
		if s.full = s.isComplete(err, at); s.full {
			for key := range s.former {
				s.remove(key) // the table has its rows no longer
			}
			s.changes()
		}
	}
	if len(s.former) > 0 {
		err = errors.Join(err, s.errHeld())
	}
	if s.full {
		s.included, s.cluster = at, cmp.Or(s.found, s.cluster)
	}
	if told := fmt.Sprint(s.bad.Version(), s.shared.Version(), len(s.former), s.unnamed); told != s.told && s.ctx.Err() == nil {
		s.told = told
		s.cfg.Sink.Report(s.problems()...)
	}
	return err
}

// isComplete reports whether a call of the sink that returned an error was complete. An error about some objects is kept
// and told by the sink, which has applied all others. While deletions are held the revision does not move.
func (s *Source[Kind, Obj]) isComplete(err error, at uint64) bool {
	if err == nil || s.ctx.Err() != nil || errors.Is(err, source.ErrEmpty) {
		return err == nil
	}
	s.cfg.Log.Warn("Not all objects were applied", "resource", s.cfg.Resource, "version", at, "error", err)
	state := s.cfg.Sink.State()
	return state.Input == at || state.Held > 0
}

// problems returns what is wrong with the objects and the server.
func (s *Source[Kind, Obj]) problems() (all []source.Problem) {
	if s.unnamed != nil {
		all = append(all, source.Problem{Err: fmt.Errorf(
			"another server is noticed only by versions that go back, and an empty list is not believed: %w", s.unnamed)})
	}
	if len(s.former) > 0 {
		all = append(all, source.Problem{Err: s.errHeld()})
	}
	for _, p := range s.bad.First(s.bad.Len()) {
		x := source.Problem{Err: p.Err}
		for _, c := range s.wants.Of(p.Key) {
			x.Keys = append(x.Keys, c.At.Key)
		}
		all = append(all, x)
	}
	for _, p := range s.shared.First(s.shared.Len()) {
		all = append(all, source.Problem{Err: p.Err, Keys: []string{p.Key}})
	}
	return all
}

func (s *Source[Kind, Obj]) errHeld() error {
	return fmt.Errorf("the server was replaced: rows of %d %s that it does not have are held", len(s.former), s.cfg.Resource)
}
