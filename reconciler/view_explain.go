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
	// maxAhead bounds how many objects ahead of another are counted; explained is how many operations
	// of an object an explanation has.
	maxAhead  = 1000
	explained = 10
)

// explain is [Loop.Explain].
func (v *view[Obj]) explain(ctx context.Context, key string) inspect.Explanation {
	seen, err := told(ctx, v, func() sight[Obj] { return v.look(key) })
	if err != nil {
		seen = v.glance(key)
	}
	x := inspect.Explanation{
		Reconciler: v.identity.String(), Key: v.nameOfKey(&seen), At: time.Now(),
		Found: seen.found, Revision: seen.revision,
	}
	if seen.found {
		s := seen.status
		x.Status, x.Revision = s.Kind.String(), seen.revision
		x.Since = s.UpdatedAt
		if seen.info != nil {
			x.Wanted = v.writtenAt(seen.row, seen.revision, seen.info.Wanted)
		}
	}
	switch {
	case seen.info != nil:
		v.explainStanding(&x, &seen)
	case err != nil:
		v.explainUnasked(&x, &seen, err)
	default:
		v.explainRow(&x, &seen)
	}
	x.Notes = v.notes(&seen, err)
	var latest bool
	x.Events, latest = v.eventsOf(&seen.key, inspect.EventQuery{Limit: explained})
	if latest && x.LastAttempt.IsZero() {
		x.LastAttempt = x.Events[len(x.Events)-1].Started
	}
	return x
}

// sight is what is known about an object: its row in a snapshot, and what the loop knew at that time.
type sight[Obj any] struct {
	txn      statedb.ReadTxn
	key      index.Key
	row      Obj
	revision statedb.Revision
	status   Status
	found    bool
	// info is nil if the loop has no entry for the key.
	info  *core.KeyInfo[Obj]
	whole bool
	// paused: the work of the object waits, because single objects are paused, and it is one of them.
	paused   bool
	breakers openBreakers
	// seen: the rows carry no status, and the loop has read this version.
	seen bool
	// absent says what is known about the deletion of an object that neither the table nor the loop has;
	// empty for other objects, and if the loop did not answer.
	absent string
}

// look returns what the table and the loop know about the object that a text names. It is called by
// the goroutine of the loop.
func (v *view[Obj]) look(text string) sight[Obj] {
	s := v.sight(text, func(key index.Key) bool {
		_, ok := v.core.KeyInfo(string(key), 0)
		return ok
	})
	if info, ok := v.core.KeyInfo(string(s.key), maxAhead); ok {
		s.info = &info
	}
	p := v.paused()
	s.whole, s.breakers = p.whole, v.openBreakers()
	s.seen = s.found && v.seen(s.row, s.revision)
	s.paused = p.objects != nil && s.found && p.objects(s.row)
	if !s.found && s.info == nil {
		s.absent = v.absent(s.txn)
	}
	return s
}

// absent describes an object that neither a snapshot nor the loop has. It is called by the goroutine of the
// loop.
func (v *view[Obj]) absent(txn statedb.ReadTxn) string {
	at := v.observed()
	switch {
	case at >= v.rows.Table.Revision(txn):
		return "not in the table, and nothing is left to be done for it"
	case v.catchingUp():
		return fmt.Sprintf("not in the table; some deletions after revision %d are unread: if it was deleted since, that may be still to come", at)
	}
	return fmt.Sprintf("not in the table; deletions after revision %d are unread: if it was deleted since, that is still to come", at)
}

// glance is look without the loop, for when it does not answer.
func (v *view[Obj]) glance(text string) sight[Obj] {
	s := v.sight(text, func(index.Key) bool { return false })
	v.stats.mu.Lock()
	defer v.stats.mu.Unlock()
	s.whole, s.breakers = v.stats.state.paused, v.stats.state.breakers
	return s
}

// sight finds the object that a text names: the first key of which the table or the loop has an
// object, else the first key.
func (v *view[Obj]) sight(text string, known func(index.Key) bool) sight[Obj] {
	txn := v.rows.DB.ReadTxn()
	s := sight[Obj]{txn: txn}
	keys := v.rows.Keys(text)
	for _, key := range keys {
		s.key = key
		if s.row, s.revision, s.found = v.rows.ByKey(txn, key); s.found {
			s.status = v.ledger.Status(txn, s.row, s.revision)
			return s
		} else if known(key) {
			return s
		}
	}
	s.key = keys[0]
	return s
}

func (v *view[Obj]) nameOfKey(s *sight[Obj]) string {
	switch {
	case s.found:
		return v.rows.Name(s.row)
	case s.info != nil:
		return v.rows.Name(s.info.Obj)
	}
	return v.rows.KeyName(s.key)
}

// explainUnasked explains an object from its row alone, because the loop did not answer.
func (v *view[Obj]) explainUnasked(x *inspect.Explanation, s *sight[Obj], err error) {
	if obj, operation, since, ok := v.busyWith(); ok && bytes.Equal(v.rows.Key(obj), s.key) {
		x.State, x.Since, x.Deleted = inspect.StateInFlight, v.timeOf(since), operation == OpDelete
		x.Why = operation + " is running, and the reconciler waits for it"
		return
	}
	x.State, x.Why = inspect.StateUnknown, "the reconciler could not be asked"
	if !s.found {
		return
	}
	is := s.status
	x.State, x.Error = stateOfRow(is.Kind, err), errorOf(is)
	switch x.State {
	case inspect.StateDone, inspect.StateNoStatus:
		v.explainRow(x, s)
	case inspect.StateBlocked:
		x.BlockedOn, x.Error = x.Error, ""
		x.Why = "its operation waits for something: " + x.BlockedOn
	case inspect.StateUnseen:
		x.Wanted = is.UpdatedAt
		x.Why = "its change waits, since the reconciler is busy"
	}
}

// rowState returns the state of a row for which the loop has no entry. err is why the loop did not
// answer, nil if it did.
func (v *view[Obj]) rowState(key index.Key, kind StatusKind, err error) inspect.State {
	if err != nil && v.unaskedState(key) == inspect.StateInFlight {
		return inspect.StateInFlight
	}
	return stateOfRow(kind, err)
}

// stateOfRow is rowState for a row on which the loop itself runs no operation.
func stateOfRow(kind StatusKind, err error) inspect.State {
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
	// Another writer has set a status that asks for no work.
	return inspect.StateNoStatus
}

// unaskedState returns the state of an object without a row, if the loop did not answer.
func (v *view[Obj]) unaskedState(key index.Key) inspect.State {
	if obj, _, _, ok := v.busyWith(); ok && bytes.Equal(v.rows.Key(obj), key) {
		return inspect.StateInFlight
	}
	return inspect.StateUnknown
}

// busyWith returns the object of the single operation that the loop itself is running; false if there
// is none.
func (v *view[Obj]) busyWith() (obj Obj, operation string, since time.Duration, ok bool) {
	s := v.scope.Load()
	if s == nil {
		return obj, "", 0, false
	}
	return s.Running()
}

// busy names the call that the loop itself is in; empty if there is none.
func (v *view[Obj]) busy() string {
	s := v.scope.Load()
	if s == nil {
		return ""
	}
	if obj, operation, since, ok := s.Running(); ok {
		return fmt.Sprintf("%s of %s, running since %s", operation, v.rows.Name(obj), v.timeOf(since).Format(time.RFC3339))
	}
	c := s.Calling()
	if c == nil {
		return ""
	}
	at := v.timeOf(c.Since).Format(time.RFC3339)
	if c.Objects == 0 {
		return fmt.Sprintf("%s, running since %s", c.Operation, at)
	}
	return fmt.Sprintf("%s of %s in one batch, running since %s", c.Operation, count(c.Objects, "object"), at)
}

// notes returns facts about the reconciler that matter to an object. err is why the loop did not
// answer.
func (v *view[Obj]) notes(s *sight[Obj], err error) (notes []string) {
	if err != nil {
		notes = append(notes, err.Error())
	}
	if ready, _ := v.rows.Table.Initialized(s.txn); !ready {
		notes = append(notes, fmt.Sprintf("the table is not initialised, so that nothing is pruned: it waits for %s",
			strings.Join(v.rows.Table.PendingInitializers(s.txn), ", ")))
	}
	if s.whole {
		notes = append(notes, "the reconciler is paused")
	}
	if s.paused && (s.info == nil || s.info.State != core.Paused) {
		notes = append(notes, "the object is paused: what changes about it waits until it is resumed")
	}
	if s.info != nil || s.found && s.status.IsPendingOrRefreshing() {
		set := v.settings.Load()
		notes = limitNote(notes, "rounds", set.RoundLimiter)
		notes = limitNote(notes, "operations", set.OperationLimiter)
	}
	return append(notes, v.breakerLines(s.breakers)...)
}

// limitNote adds a note if a limiter has no token.
func limitNote(notes []string, on string, limiter *rate.Limiter) []string {
	if limiter == nil || limiter.Tokens() >= 1 {
		return notes
	}
	return append(notes, fmt.Sprintf("the limit on %s is used up: %s", on, limiterText(limiter)))
}
