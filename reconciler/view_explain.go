// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/inputs"
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
	s, err := v.facts(ctx, key)
	x := inspect.Explanation{
		Reconciler: v.identity.String(), Key: v.nameOf(&s), At: time.Now(),
		Found: s.found, Revision: s.revision, Status: s.status.Kind.String(), Since: s.status.UpdatedAt,
		Operations: v.operationsOf(s.key, inspect.OperationQuery{Limit: explained}), Notes: v.notes(&s, err),
	}
	is, g := stateOf(s.found, s.status.Kind, &s.known, err), v.gates()
	x.State = g.shown(is, s.key)
	x.Next = v.nextAttempt(g, x.State, s.info)
	if s.info != nil {
		v.explainEntry(&x, &s)
	} else {
		explainRow(&x, s.status, is)
	}
	if n := len(x.Operations); n > 0 && x.LastAttempt.IsZero() {
		x.LastAttempt = x.Operations[n-1].Started
	}
	x.Why = v.why(is, &s, &x)
	switch {
	case err == nil || is != inspect.StateUnknown:
	case s.found:
		x.Why = err.Error() + "; the row does not show what the object waits for"
	default:
		x.Why = err.Error() + "; the table has no such object, but its deletion may be still to come"
	}
	if is == inspect.StateInFlight {
		v.explainFlight(&x, &s)
	}
	switch {
	case x.State == inspect.StateTripped:
		x.Why = "it waits for the breaker to close, which lets probes through until one succeeds: " + s.state.breaker.Failure
	case x.State == inspect.StateStuck:
		x.Why += ", well past its deadline or for a minute without one: the object waits until it returns"
	case x.State == inspect.StatePaused && is != x.State:
		x.Why = "the reconciler is paused; without that: " + x.Why
	}
	return x
}

// explainEntry adds what the core knows about an object.
func (v *view[Obj]) explainEntry(x *inspect.Explanation, s *facts[Obj]) {
	st := s.info
	// The row may be back, and unread.
	x.Deleted, x.Ahead, x.Attempts, x.Error = st.Deleted && !s.found, st.Queue.Ahead, st.Failures, st.Failure
	switch {
	case x.Deleted:
		x.Wanted, x.Since, x.Revision = v.life.timeOf(st.Wanted), v.life.timeOf(st.Wanted), st.Revision
	case s.found:
		x.Wanted = v.writtenAt(s.row, s.revision, st.Wanted)
	}
	if st.LastAttempt >= 0 {
		x.LastAttempt = v.life.timeOf(st.LastAttempt)
		x.Since = x.LastAttempt
	}
	switch st.State {
	case core.Ready, core.Taken:
		x.Lane, x.Since = st.Queue.Lane.String(), v.life.timeOf(st.At)
	case core.Queued:
		x.Group, x.Holder = st.Queue.Group, v.rows.Name(st.Queue.Holder)
	case core.Blocked:
		x.BlockedOn, x.Error = cmp.Or(st.Reason, s.status.GetError()), ""
	}
}

// explainRow adds what the status of a row says.
func explainRow(x *inspect.Explanation, s Status, is inspect.State) {
	if s.Kind == status.KindBlocked {
		x.BlockedOn = s.GetError()
	} else {
		x.Error = s.GetError()
	}
	if s.IsPendingOrRefreshing() && is != inspect.StateDone {
		x.Wanted = s.UpdatedAt
	}
}

// explainFlight explains an object in flight.
func (v *view[Obj]) explainFlight(x *inspect.Explanation, s *facts[Obj]) {
	if s.inLine.Operation != "" {
		x.Since, x.Deleted = v.life.timeOf(s.inLine.Since), s.inLine.Operation == OpDelete
		x.Why = s.inLine.Operation + " is running, and the reconciler waits for it"
		return
	}
	operation := execute.NameOf(s.info.Deletes)
	x.Why = operation + " has ended, and its outcome is about to be written"
	for j := range v.workers.Jobs {
		for i := range j.Ops {
			switch {
			case !v.rows.HasKey(j.Ops[i].Obj, s.key):
				continue
			case j.State == execute.Queued:
				x.Why = operation + " has been handed to the workers, and waits for one to be free"
			default:
				x.Since, x.Why = v.life.timeOf(j.Began), operation+" is running"
			}
			return
		}
	}
}

// facts are what is known about an object: its row in a snapshot, and what the loop knew at that time.
type facts[Obj any] struct {
	txn      statedb.ReadTxn
	key      index.Key
	row      Obj
	revision statedb.Revision
	status   Status
	found    bool
	// state is that of the loop.
	state *state
	known[Obj]
}

// facts returns what is known about the object that a text names. If the loop does not answer, err is
// that of askBriefly, and the rest is from the table.
func (v *view[Obj]) facts(ctx context.Context, text string) (s facts[Obj], err error) {
	s, err = askBriefly(ctx, v, func(b *answers[Obj]) facts[Obj] { return b.facts(text) })
	if err != nil {
		s = v.find(text, nil)
		s.known = v.unasked(s.key)
	}
	return s, err
}

// find finds the object that a text names. known is that of [rows.Rows.Named].
func (v *view[Obj]) find(text string, known func(index.Key) bool) facts[Obj] {
	s := facts[Obj]{txn: v.rows.DB.ReadTxn(), state: v.stats.state.Load()}
	if s.key, s.row, s.revision, s.found = v.rows.Named(s.txn, text, known); s.found {
		s.status = v.ledger.Status(s.txn, s.row, s.revision)
	}
	return s
}

// nameOf returns the text of the key.
func (v *view[Obj]) nameOf(s *facts[Obj]) string {
	switch {
	case s.found:
		return v.rows.Name(s.row)
	case s.info != nil:
		return v.rows.Name(s.info.Obj)
	}
	return v.rows.KeyName(s.key)
}

// calling returns the call that the loop itself is in.
func (v *view[Obj]) calling() (c execute.Calling[Obj]) {
	if s := v.scope.Load(); s != nil {
		c = s.Calling()
	}
	return c
}

// unasked is what is known about a key if the loop does not answer: whether it is in an operation on it.
func (v *view[Obj]) unasked(key index.Key) (k known[Obj]) {
	if c := v.calling(); c.Single && v.rows.HasKey(c.Object, key) {
		k.inLine = c
	}
	return k
}

// busy names the call that the loop itself is in; empty if there is none.
func (v *view[Obj]) busy() string {
	c := v.calling()
	call := c.Operation
	switch {
	case call == "":
		return ""
	case c.Single:
		call += " of " + v.rows.Name(c.Object)
	case c.Objects > 0:
		call += " of " + count(c.Objects, "object") + " in one batch"
	}
	return call + ", running since " + v.life.timeOf(c.Since).Format(time.RFC3339)
}

// whyBusy returns an *[inspect.BusyError] that names the call that the loop itself is in; nil if there is none.
func (v *view[Obj]) whyBusy() error {
	if busy := v.busy(); busy != "" {
		return &inspect.BusyError{With: busy}
	}
	return nil
}

// notes returns facts about the reconciler that matter to an object. err is why the loop did not
// answer.
func (v *view[Obj]) notes(s *facts[Obj], err error) (notes []string) {
	if err != nil {
		notes = append(notes, err.Error())
	}
	if ready, _ := v.rows.Table.Initialized(s.txn); !ready {
		notes = append(notes, fmt.Sprintf("the table is not initialised, so that nothing is pruned: it waits for %s",
			strings.Join(v.rows.Table.PendingInitializers(s.txn), ", ")))
	}
	notes = append(notes, v.inputNotes(s)...)
	if s.state.health.PausedWhole {
		notes = append(notes, "the reconciler is paused")
	}
	if line := v.listing(s.state); line != "" {
		notes = append(notes, line)
	}
	if s.paused && (s.info == nil || s.info.State != core.Paused) {
		notes = append(notes, "the object is paused: what changes about it waits until it is resumed")
	}
	if s.info != nil || s.found && s.status.IsPendingOrRefreshing() {
		set := v.settings.Load()
		notes = limitNote(notes, "rounds", set.RoundLimiter)
		notes = limitNote(notes, "operations", set.OperationLimiter)
	}
	if line := s.state.health.Breaker; line != "" {
		notes = append(notes, line)
	}
	if stuck := v.stuckLines(); s.state.health.NoWorker && len(stuck) > 0 {
		notes = append(notes, "no worker is free: "+stuck[0])
	}
	return notes
}

// maxProblems bounds the problems of an input that an explanation has.
const maxProblems = 3

// inputNotes returns what is wrong with the inputs of the table: with the object, or else with others.
func (v *view[Obj]) inputNotes(s *facts[Obj]) (notes []string) {
	for _, in := range inputs.Of(v.rows.DB, s.txn, v.rows.Table.Name()) {
		p := in.Problems()
		if said, is := p.Of[string(s.key)]; is {
			notes = append(notes, fmt.Sprintf("the input %q: %s", in.Name, said))
			continue
		}
		for _, said := range p.First[:min(maxProblems, len(p.First))] {
			notes = append(notes, fmt.Sprintf("the input %q has a problem that may concern the object: %s", in.Name, said))
		}
	}
	return notes
}

// listing describes the listing of the target that operations wait for; empty if they wait for none.
func (v *view[Obj]) listing(s *state) string {
	since, failure := "", s.health.PruneFailure
	if !s.listing.IsZero() {
		since = ", which runs since " + s.listing.Format(time.RFC3339)
	}
	switch {
	case !s.health.Waits:
		return ""
	case failure != "" && !s.health.ResyncAwaits:
		return "operations wait for a listing of the target" + since + "; the last one has failed: " + failure
	}
	return "operations wait for a listing of the target" + since
}

// limitNote adds a note if a limiter has no token.
func limitNote(notes []string, on string, limiter *rate.Limiter) []string {
	if limiter == nil || limiter.Tokens() >= 1 {
		return notes
	}
	return append(notes, fmt.Sprintf("the limit on %s is used up: %s", on, limiterText(limiter)))
}
