// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

const (
	// maxAhead bounds how many are counted that come before an object, and explained how
	// many of its operations an explanation has.
	maxAhead  = 1000
	explained = 10
)

// ID says which reconciler this is. It implements [inspect.Inspector].
func (l *Loop[Obj]) ID() inspect.ID { return l.cfg.id(&l.opts) }

// Explain says why an object is, or is not, reconciled: in which state it is and since
// when, how often it failed and with what, when it is tried again or what it waits for,
// what is ahead of it, and what its last operations came back with.
//
// The key is a text in quotes, or bytes in hexadecimal after "0x", or else what the table's
// primary index makes of the text, as with the commands of statedb, or the text as it is: the
// first of these of which there is an object. What the reconciler shows as a key, in
// [inspect.Explanation], [inspect.ObjectLine] and [inspect.Event], means that object alone; a program that has an object
// passes "0x" and the key in hexadecimal. What has been deleted, too, is told of as long as
// the reconciler has it to do.
//
// The cost does not grow with the table. The reconciler is asked between two rounds; one
// that is stuck in an operation is given 100 ms, and then named with what it does, while
// the rest is told from the row. Safe from any goroutine.
func (l *Loop[Obj]) Explain(ctx context.Context, key string) inspect.Explanation {
	told, err := askBriefly(ctx, l, func(*books[Obj]) sight[Obj] { return l.look(key) })
	if err != nil {
		told = l.glance(key)
	}
	x := inspect.Explanation{
		Reconciler: l.ID().String(), Key: l.nameOfKey(&told), At: time.Now(),
		Found: told.found, Revision: told.revision,
	}
	if told.found {
		s := l.rows.GetStatus(told.row)
		x.Status, x.Revision = s.Kind.String(), told.revision
		x.Since = s.UpdatedAt
		if told.standing != nil {
			x.Wanted = l.writtenAt(told.row, told.standing.Wanted)
		}
	}
	switch {
	case told.standing != nil:
		l.explainStanding(&x, &told)
	case err != nil:
		l.explainUnasked(&x, &told, err)
	default:
		l.explainRow(&x, &told)
	}
	x.Notes = l.notes(&told, err)
	var latest bool
	x.Events, latest = l.eventsOf(&told.key, inspect.EventQuery{Limit: explained})
	if latest && x.LastAttempt.IsZero() {
		x.LastAttempt = x.Events[len(x.Events)-1].Started
	}
	return x
}

// sight is what was seen of an object: its row in a snapshot, and what the loop knew then.
type sight[Obj any] struct {
	txn      statedb.ReadTxn
	key      index.Key
	row      Obj
	revision statedb.Revision
	found    bool
	// standing is nil if the loop has no entry for the key.
	standing *core.Standing[Obj]
	whole    bool
	// paused: what is to be done for it waits, because its key or PauseObjects says so.
	paused   bool
	breakers openBreakers
}

// look is called by the goroutine of the loop.
func (l *Loop[Obj]) look(text string) sight[Obj] {
	s := l.sight(text, func(key index.Key) bool {
		_, ok := l.core.StandingOf(string(key), 0)
		return ok
	})
	if standing, ok := l.core.StandingOf(string(s.key), maxAhead); ok {
		s.standing = &standing
	}
	s.whole, s.breakers = l.pause.whole, l.openBreakers()
	if paused := l.paused(); paused != nil && s.found {
		s.paused = paused(s.row)
	}
	return s
}

// glance is look for when the loop cannot be asked.
func (l *Loop[Obj]) glance(text string) sight[Obj] {
	s := l.sight(text, func(index.Key) bool { return false })
	l.book.mu.Lock()
	defer l.book.mu.Unlock()
	s.whole, s.breakers = l.book.standing.paused, l.book.standing.breakers
	return s
}

// sight finds the object that a text means: one of which the table or the loop knows, if
// there is any.
func (l *Loop[Obj]) sight(text string, known func(index.Key) bool) sight[Obj] {
	txn := l.rows.DB.ReadTxn()
	s := sight[Obj]{txn: txn}
	keys := l.rows.Keys(text)
	for _, key := range keys {
		s.key = key
		if s.row, s.revision, s.found = l.rows.ByKey(txn, key); s.found || known(key) {
			return s
		}
	}
	s.key = keys[0]
	return s
}

func (l *Loop[Obj]) nameOfKey(s *sight[Obj]) string {
	switch {
	case s.found:
		return l.rows.Name(s.row)
	case s.standing != nil:
		return l.rows.Name(s.standing.Obj)
	}
	return l.rows.KeyName(s.key)
}

// explainUnasked explains an object as far as its row tells: the loop could not be asked.
func (l *Loop[Obj]) explainUnasked(x *inspect.Explanation, s *sight[Obj], err error) {
	x.Why = "the reconciler could not be asked"
	var is Status
	if s.found {
		is = l.rows.GetStatus(s.row)
		x.State, x.Error = l.rowState(s.key, is.Kind, err), errorOf(is)
	} else {
		x.State = l.unaskedState(s.key)
	}
	switch x.State {
	case inspect.StateInFlight:
		_, operation, since, _ := l.busyWith()
		x.Since, x.Deleted, x.Error = l.timeOf(since), operation == OpDelete, ""
		x.Why = operation + " is running, and the reconciler waits for it"
	case inspect.StateDone, inspect.StateNoStatus:
		l.explainRow(x, s)
	case inspect.StateBlocked:
		x.BlockedOn, x.Error = x.Error, ""
		x.Why = "its operation waits for something: " + x.BlockedOn
	case inspect.StateUnseen:
		x.Wanted = is.UpdatedAt
		x.Why = "its change waits, since the reconciler is busy"
	}
}

// rowState returns the state of a row of which the loop has no entry; err is why it could not be
// asked, nil if it was.
func (l *Loop[Obj]) rowState(key index.Key, kind StatusKind, err error) inspect.State {
	if err != nil {
		if state := l.unaskedState(key); state == inspect.StateInFlight {
			return state
		}
	}
	busy := (*inspect.BusyError)(nil)
	switch kind {
	case status.KindUnset:
		return inspect.StateNoStatus
	case status.KindDone:
		return inspect.StateDone
	case status.KindPending, status.KindRefreshing:
		if err == nil || errors.As(err, &busy) {
			return inspect.StateUnseen
		}
	case status.KindBlocked:
		if err != nil {
			return inspect.StateBlocked
		}
	}
	if err != nil {
		return inspect.StateUnknown
	}
	// Another has set it to what asks for nothing.
	return inspect.StateNoStatus
}

// unaskedState returns the state of an object of which there is no row, if the loop could not be
// asked.
func (l *Loop[Obj]) unaskedState(key index.Key) inspect.State {
	if obj, _, _, ok := l.busyWith(); ok && bytes.Equal(l.rows.Key(obj), key) {
		return inspect.StateInFlight
	}
	return inspect.StateUnknown
}

// busyWith returns the object of the operation that the loop itself is running, if it is.
func (l *Loop[Obj]) busyWith() (obj Obj, operation string, since time.Duration, ok bool) {
	s := l.scope.Load()
	if s == nil {
		return obj, "", 0, false
	}
	return s.Running()
}

// busy says what the loop itself is running; empty if nothing.
func (l *Loop[Obj]) busy() string {
	s := l.scope.Load()
	if s == nil {
		return ""
	}
	if obj, operation, since, ok := s.Running(); ok {
		return fmt.Sprintf("%s of %s, running since %s", operation, l.rows.Name(obj), l.timeOf(since).Format(time.RFC3339))
	}
	c := s.Calling()
	if c == nil {
		return ""
	}
	at := l.timeOf(c.Since).Format(time.RFC3339)
	if c.Objects == 0 {
		return fmt.Sprintf("%s, running since %s", c.Operation, at)
	}
	return fmt.Sprintf("%s of %s in one batch, running since %s", c.Operation, count(c.Objects, "object"), at)
}

// notes are what holds of the whole reconciler and matters to an object. err is why it could not
// be asked.
func (l *Loop[Obj]) notes(s *sight[Obj], err error) (notes []string) {
	if err != nil {
		notes = append(notes, err.Error())
	}
	if ready, _ := l.rows.Table.Initialized(s.txn); !ready {
		notes = append(notes, fmt.Sprintf("the table is not initialised, so that nothing is pruned: it waits for %s",
			strings.Join(l.rows.Table.PendingInitializers(s.txn), ", ")))
	}
	if s.whole {
		notes = append(notes, "the reconciler is paused")
	}
	if s.paused && (s.standing == nil || s.standing.State != core.Paused) {
		notes = append(notes, "the object is paused: what changes about it waits until it is resumed")
	}
	if s.standing != nil || s.found && l.rows.GetStatus(s.row).IsPendingOrRefreshing() {
		set := l.settings.Load()
		notes = limitNote(notes, "rounds", set.RoundLimiter)
		notes = limitNote(notes, "operations", set.OperationLimiter)
	}
	notes = append(notes, l.sharedNotes()...)
	return append(notes, l.breakerLines(s.breakers)...)
}

// limitNote notes that a limit is used up, if it is.
func limitNote(notes []string, on string, limiter *rate.Limiter) []string {
	if limiter == nil || limiter.Tokens() >= 1 {
		return notes
	}
	return append(notes, fmt.Sprintf("the limit on %s is used up: %s", on, limiterText(limiter)))
}
