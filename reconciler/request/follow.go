// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/follow"
	"github.com/statekeel/statekeel/internal/guard"
)

// follower makes the requests of one source from the changes of its table. One goroutine runs it.
type follower[Req comparable, Obj any] struct {
	*source[Req, Obj]
	c      *Controller[Req]
	writer *writer[Req]
	// news is what the current change says about its object. add enqueues a request of that change.
	news news
	add  func(Req)

	// known has, by key, the version of each row that requests were last made of or that was last
	// rejected. It is nil if no version is needed.
	known map[string]Obj
	// rows are the rows of the table, and the changes that were kept because a function panicked.
	// Kept changes matter, whatever the predicates return.
	rows   *follow.Table[Obj]
	jitter *rand.Rand
}

func newFollower[Req comparable, Obj any](c *Controller[Req], s *source[Req, Obj]) *follower[Req, Obj] {
	f := &follower[Req, Obj]{source: s, c: c, writer: newWriter(c), jitter: rand.New(rand.NewPCG(rand.Uint64(), 0))}
	if s.remembers() {
		f.known = map[string]Obj{}
	}
	f.add = func(req Req) { f.writer.add(f.news, req) }
	return f
}

// run follows the table until ctx ends, or until a function of the program ends the goroutine.
func (f *follower[Req, Obj]) run(ctx context.Context, health cell.Health) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("controller %q: following table %q: %w", f.c.cfg.Name, f.table.Name(), err)
		}
	}()
	if f.rows, err = follow.New(f.c.cfg.DB, f.table); err != nil {
		return err
	}
	defer f.rows.Close()
	f.rows.SetHealth(health)
	if guard.Returned(func() { f.follow(ctx) }) {
		return nil
	}
	f.rows.End(guard.ErrGoexit)
	return guard.ErrGoexit
}

func (f *follower[Req, Obj]) follow(ctx context.Context) {
	f.rows.Report()
	for ctx.Err() == nil {
		for _, read := range f.rows.TakeDue(f.rows.Now(), f.rows.Len()) {
			key := f.rows.Key(read.Object)
			f.settle(key, read, f.take(key, f.changeOf(key, read), true))
		}
		read, watch := f.rows.Next()
		for change := range read {
			f.look(change)
			if ctx.Err() != nil {
				return
			}
		}
		f.writer.flush()
		f.rows.Report()
		f.rows.Wait(ctx, watch)
	}
}

// look processes a change of a row.
func (f *follower[Req, Obj]) look(read statedb.Change[Obj]) {
	key := f.rows.Key(read.Object)
	change := f.changeOf(key, read)
	matters, err := f.matters(change)
	if err == nil {
		err = f.take(key, change, matters || f.rows.Has(key))
	}
	f.settle(key, read, err)
}

// settle keeps a change of a row until it is tried again with the loop's backoff if one of the user's functions
// panicked, and forgets the kept change of the row otherwise.
func (f *follower[Req, Obj]) settle(key string, read statedb.Change[Obj], err error) {
	if err == nil {
		f.rows.Forget(key, read.Revision)
		return
	}
	set, now := f.c.loop.Settings(), f.rows.Now()
	wait := backoff.Exponential{Min: set.MinBackoff, Max: set.MaxBackoff, Jitter: set.Jitter, Rand: f.jitter}
	f.rows.Keep(key, read, err, now, follow.After(now, wait.Delay(f.rows.Failures(key)+1)))
}

// changeOf returns a change for the predicates, with the previous version of the row if that is
// remembered.
func (f *follower[Req, Obj]) changeOf(key string, read statedb.Change[Obj]) Change[Obj] {
	change := Change[Obj]{Object: read.Object, Deleted: read.Deleted}
	if f.known != nil {
		var seen bool
		change.Old, seen = f.known[key]
		change.Created = !seen
	}
	return change
}

// take makes the requests of a change and remembers the row. It returns an error if the function
// that finds the requests panics.
func (f *follower[Req, Obj]) take(key string, change Change[Obj], matters bool) error {
	if n, says := f.newsOf(change, matters); says {
		if err := f.ask(change, n); err != nil {
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

// newsOf returns what a change says about its object, and whether anything has to be written.
func (f *follower[Req, Obj]) newsOf(change Change[Obj], matters bool) (n news, says bool) {
	switch {
	case !f.primary:
		return silent, matters || f.deletions && change.Deleted
	case change.Deleted:
		return absent, true
	case matters:
		return present, true
	}
	return hidden, change.Created
}

// matters reports whether all predicates return true. All are called, since some may remember what
// they see. It returns an error if one of them panics.
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

// ask enqueues the requests of a change: those of the current version of the row and, unless the
// source is primary, those of the previous one.
func (f *follower[Req, Obj]) ask(change Change[Obj], n news) (err error) {
	defer f.recovered(change, &err)
	f.news = n
	if !f.primary && !change.Created {
		f.requests(change.Old, f.add)
	}
	f.requests(change.Object, f.add)
	return nil
}

// recovered is deferred around a call of a user's function. It logs a panic and stores it in err.
func (f *follower[Req, Obj]) recovered(change Change[Obj], err *error) {
	if r := recover(); r != nil {
		key, table := f.rows.Key(change.Object), f.table.Name()
		said := guard.Panicked(r, f.c.log, "function of a source panicked", "source", f.kind, "table", table, "key", key)
		*err = fmt.Errorf("requests of key %q of table %q: panic: %s", key, table, said)
	}
}
