// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/keys"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler"
)

// maxExamples is how many of the changes that are kept health names.
const maxExamples = 10

// follower makes requests of the changes of one source, by one goroutine.
type follower[Req comparable, Obj any] struct {
	*source[Req, Obj]
	c      *Controller[Req]
	writer *writer[Req]
	keyOf  func(Obj) string
	// news is what the change that is being looked at says of its object, add how its
	// requests are added.
	news presence
	add  func(Req)

	// known are the rows as they were when requests were made of them last, or were found not
	// to matter; nil if nothing needs them.
	known map[string]Obj
	// kept are the changes whose requests could not be found, the last of each row; they
	// matter, whatever the predicates say. All are tried again at a time.
	kept     map[string]kept[Obj]
	failures int
	again    time.Time
}

type kept[Obj any] struct {
	change Change[Obj]
	err    error
}

func newFollower[Req comparable, Obj any](c *Controller[Req], s *source[Req, Obj]) *follower[Req, Obj] {
	indexer := s.table.PrimaryIndexer()
	f := &follower[Req, Obj]{
		source: s, c: c, writer: newWriter(c), kept: map[string]kept[Obj]{},
		keyOf: func(obj Obj) string { return string(keys.Of(indexer, obj)) },
	}
	if s.remembers() {
		f.known = map[string]Obj{}
	}
	f.add = func(req Req) { f.writer.add(f.news, req) }
	return f
}

// run follows the table until ctx ends.
func (f *follower[Req, Obj]) run(ctx context.Context, health cell.Health) error {
	wtxn := f.c.cfg.DB.WriteTxn(f.table)
	changes, err := f.table.Changes(wtxn)
	wtxn.Commit()
	if err != nil {
		return fmt.Errorf("controller %q: following table %q: %w", f.c.cfg.Name, f.table.Name(), err)
	}
	defer changes.Close()
	f.report(health)
	for ctx.Err() == nil {
		failing := len(f.kept)
		f.retry()
		read, watch := changes.Next(f.c.cfg.DB.ReadTxn())
		for change := range read {
			f.look(change)
			if ctx.Err() != nil {
				return nil
			}
		}
		f.writer.flush()
		if failing > 0 || len(f.kept) > 0 {
			f.report(health)
		}
		f.wait(ctx, watch)
	}
	return nil
}

// look takes in a change of a row.
func (f *follower[Req, Obj]) look(read statedb.Change[Obj]) {
	change, key := Change[Obj]{Object: read.Object, Deleted: read.Deleted}, ""
	if f.known != nil || len(f.kept) > 0 {
		key = f.keyOf(change.Object)
	}
	if f.known != nil {
		var seen bool
		change.Old, seen = f.known[key]
		change.Created = !seen
	}
	_, keeping := f.kept[key]
	matters, err := f.matters(change)
	if err == nil {
		err = f.take(key, change, matters || keeping)
	}
	switch {
	case err != nil:
		f.keep(change, err)
	case keeping:
		delete(f.kept, key)
	}
}

// take makes the requests of a change, and remembers the row. The error is a panic in the
// function that finds them.
func (f *follower[Req, Obj]) take(key string, change Change[Obj], matters bool) error {
	if news, asks := f.newsOf(change, matters); asks {
		if err := f.ask(change, news); err != nil {
			return err
		}
	}
	switch {
	case f.known == nil:
	case change.Deleted:
		delete(f.known, key)
	default:
		f.known[key] = change.Object
	}
	return nil
}

// newsOf returns what a change says of its object, and whether there is anything to say.
func (f *follower[Req, Obj]) newsOf(change Change[Obj], matters bool) (news presence, says bool) {
	switch {
	case !f.primary:
		return silent, matters || f.deletions && change.Deleted
	case matters && change.Deleted:
		return absent, true
	case matters:
		return present, true
	case change.Deleted:
		return removed, true
	}
	return hidden, change.Created
}

// matters reports whether all predicates hold. All are called: some remember what they see. The
// error is a panic in one of them.
func (f *follower[Req, Obj]) matters(change Change[Obj]) (matters bool, err error) {
	matters = true
	for _, p := range f.predicates {
		holds, failed := f.holds(p, change)
		matters = matters && holds
		err = errors.Join(err, failed)
	}
	return matters, err
}

func (f *follower[Req, Obj]) holds(p Predicate[Obj], change Change[Obj]) (holds bool, err error) {
	defer f.recovered(change, &err)
	return p(change), nil
}

// ask adds the requests of a change: those of the row as it is and, where they can be others, as
// it was.
func (f *follower[Req, Obj]) ask(change Change[Obj], news presence) (err error) {
	defer f.recovered(change, &err)
	f.news = news
	if !f.primary && !change.Created {
		f.requests(change.Old, f.add)
	}
	f.requests(change.Object, f.add)
	return nil
}

// recovered is to be deferred around a call of a user's function; it puts a panic in err.
func (f *follower[Req, Obj]) recovered(change Change[Obj], err *error) {
	if r := recover(); r != nil {
		key := f.keyOf(change.Object)
		said := text.Cut(fmt.Sprint(r), reconciler.MaxErrorText)
		f.c.log.Error("function of a source panicked",
			"source", f.kind, "table", f.table.Name(), "key", key, "panic", said, "stack", string(debug.Stack()))
		*err = fmt.Errorf("requests of key %q of table %q: panic: %s", key, f.table.Name(), text.Printable(said))
	}
}

// keep puts a change aside whose requests could not be found.
func (f *follower[Req, Obj]) keep(change Change[Obj], err error) {
	f.kept[f.keyOf(change.Object)] = kept[Obj]{change, err}
	if f.again.IsZero() {
		set := f.c.loop.Settings()
		wait := backoff.Exponential{
			Min: set.MinBackoff, Max: set.MaxBackoff, Jitter: set.Jitter,
			Rand: rand.New(rand.NewPCG(rand.Uint64(), 0)),
		}
		f.failures++
		f.again = time.Now().Add(wait.Delay(f.failures))
	}
}

// retry tries again what is kept, if it is time.
func (f *follower[Req, Obj]) retry() {
	if f.again.IsZero() || time.Now().Before(f.again) {
		return
	}
	f.again = time.Time{}
	for _, key := range slices.Sorted(maps.Keys(f.kept)) {
		change := f.kept[key].change
		if err := f.take(key, change, true); err != nil {
			f.keep(change, err)
			continue
		}
		delete(f.kept, key)
	}
	if len(f.kept) == 0 {
		f.failures = 0
	}
}

// wait blocks until there is something to do or ctx ends.
func (f *follower[Req, Obj]) wait(ctx context.Context, watch <-chan struct{}) {
	var due <-chan time.Time
	if !f.again.IsZero() {
		timer := time.NewTimer(time.Until(f.again))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-watch:
	case <-due:
	}
}

// report tells health what has become of changes.
func (f *follower[Req, Obj]) report(health cell.Health) {
	if health == nil {
		return
	}
	if len(f.kept) == 0 {
		health.OK(fmt.Sprintf("OK, following table %q", f.table.Name()))
		return
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(f.kept))[:min(len(f.kept), maxExamples)] {
		errs = append(errs, f.kept[key].err)
	}
	health.Degraded(fmt.Sprintf("%d error(s)", len(f.kept)), errors.Join(errs...))
}
