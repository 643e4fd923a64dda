// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// calls holds what other goroutines have asked the loop for since it last took calls. The callers
// never wait for the loop here, because it may be stuck in an operation.
type calls[Obj any] struct {
	// made wakes the loop.
	made signal.Signal
	// pause is the pause that they want.
	pause atomic.Pointer[pause[Obj]]

	mu    sync.Mutex
	asked asked[Obj]
}

// asked holds the requests to the loop.
type asked[Obj any] struct {
	prune, approve bool
	// refresh is a walk over rows to refresh; nil if there is none.
	refresh *refresh.Walk[Obj]
	// questions are those of callers that wait for an answer.
	questions map[*question[Obj]]struct{}
}

// question is a question of another goroutine. The goroutine of the loop calls it between two rounds,
// after it has published its state; it must not block.
type question[Obj any] func(*answers[Obj])

// question adds a question.
func (a *asked[Obj]) question(q *question[Obj]) {
	if a.questions == nil {
		a.questions = map[*question[Obj]]struct{}{}
	}
	a.questions[q] = struct{}{}
}

// ask adds a request.
func (c *calls[Obj]) ask(add func(*asked[Obj])) {
	c.mu.Lock()
	add(&c.asked)
	c.mu.Unlock()
	c.made.Send()
}

// take returns the requests since the last call of take.
func (c *calls[Obj]) take() asked[Obj] {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.asked
	c.asked = asked[Obj]{}
	return taken
}

// withdraw removes a question whose caller has stopped waiting, so that the questions to a stuck loop
// do not pile up.
func (c *calls[Obj]) withdraw(q *question[Obj]) {
	c.mu.Lock()
	delete(c.asked.questions, q)
	c.mu.Unlock()
}

// ask returns the answer of the goroutine of the loop. The error is that of ctx, if it ends first, with the operation
// that the loop is in, or [inspect.ErrStopped].
func ask[Obj any, T any](ctx context.Context, v *view[Obj], answer func(*answers[Obj]) T) (told T, err error) {
	if v.life.stopped() {
		return told, inspect.ErrStopped
	}
	answered := make(chan T, 1)
	q := question[Obj](func(b *answers[Obj]) { answered <- answer(b) })
	v.calls.ask(func(a *asked[Obj]) {
		a.question(&q)
	})
	defer v.calls.withdraw(&q)
	select {
	case told = <-answered:
		return told, nil
	case <-ctx.Done():
		return told, unanswered(ctx.Err(), v.whyBusy())
	case <-v.life.ended:
		return told, inspect.ErrStopped
	}
}

// ErrInOperation is returned, at once, by Retry, Reapply, Verify, Refresh with keys, Plan, Ready, Wait, WaitAll, WaitFor,
// WaitKey and WaitUntilReconciled if they are called in an operation of the same reconciler, a prune or a listing included:
// the call would wait for the end of the operation, and the operation for the call.
//
// The operation is detected by ctx, which has to be the context of the operation or derived from it.
// With any other context the call blocks until that context ends. Waiting for another reconciler is
// allowed.
var ErrInOperation = errors.New("waiting for the reconciler in one of its own operations")

// mayWait returns an error that wraps [ErrInOperation] if the context is that of an operation of this
// loop, which would wait for itself.
func (s *shared[Obj]) mayWait(ctx context.Context) error {
	if execute.ScopeOf(ctx, s.rows) == nil {
		return nil
	}
	return fmt.Errorf("reconciler %q: %w", called(s.setup.id), ErrInOperation)
}

// answerTimeout bounds the wait for an answer of the loop in calls that must not block for long.
const answerTimeout = 100 * time.Millisecond

// askBriefly is ask with answerTimeout instead of the end of ctx. The error is
// [inspect.ErrNotStarted], [inspect.ErrStopped] or an *[inspect.BusyError].
func askBriefly[Obj any, T any](ctx context.Context, v *view[Obj], answer func(*answers[Obj]) T) (told T, err error) {
	if !v.life.running.Load() {
		return told, inspect.ErrNotStarted
	}
	if s := execute.ScopeOf(ctx, v.rows); s != nil && s == v.scope.Load() {
		// The loop waits for the caller, if that is one of its operations.
		if busy := v.busy(); busy != "" {
			return told, &inspect.BusyError{With: busy}
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	told, err = ask(ctx, v, answer)
	switch {
	case err == nil:
		return told, nil
	case v.life.stopped():
		return told, inspect.ErrStopped
	}
	return told, &inspect.BusyError{With: v.busy()}
}

// unanswered returns err, the error of a wait, and adds why, the reason for which the loop did not
// answer; nil if it did.
func unanswered(err, why error) error {
	if why == nil || errors.Is(err, why) || errors.As(err, new(*inspect.BusyError)) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, why)
}

// takeCalls takes what others have asked for, without waiting. It is called in every pass, because a
// loop that is never idle does not reach wait. It reports whether a prune was requested.
func (r *runner[Obj]) takeCalls(ctx context.Context) (prune bool) {
	if r.shared.settings.Load() != r.set {
		r.reconfigure(ctx, r.life.now())
	}
	a := r.shared.calls.take()
	if a.prune || a.approve {
		r.resync.Request(a.approve)
	}
	r.applyPause()
	walks := r.core.Walk(r.life.now())
	if watch.IsClosed(r.blocked.Released()) {
		r.release()
	}
	if a.refresh != nil {
		r.shared.refresher.Walk(a.refresh)
	}
	if len(a.questions) > 0 {
		r.publishState()
		b := answers[Obj]{r: r}
		for q := range a.questions {
			(*q)(&b)
		}
		if !walks {
			// A question may have begun a walk.
			walks = r.core.Walk(r.life.now())
		}
	}
	if walks {
		// Another pass follows at once.
		r.shared.calls.made.Send()
	}
	return a.prune || a.approve
}

// known is what the loop knows about an object.
type known[Obj any] struct {
	// info is nil if the loop has no entry for the key.
	info *core.KeyInfo[Obj]
	// seen: the rows carry no status, and the loop has read this version of the row. paused: single objects are
	// paused, and it is one of them.
	seen, paused bool
	// replaced: the table has another version of the row by now, or none.
	replaced bool
	// inLine is the call that the loop is in, if it does not answer and that is on the object.
	inLine execute.Calling[Obj]
	// wrong is what a resync found of a row that is not repaired yet: see [resync.Resync.Wrong].
	wrong string
}

// known returns what the loop knows about a key, and about a version of its row; the revision is 0 if there
// is none. It counts up to limit of the keys ahead.
func (b *answers[Obj]) known(key index.Key, row Obj, revision statedb.Revision, limit int) (k known[Obj]) {
	if info, has := b.r.core.KeyInfo(string(key), limit); has {
		k.info = &info
	}
	o := b.r.observer
	k.paused = revision > 0 && b.r.paused.pauses(row)
	if revision > 0 {
		k.wrong = b.r.resync.Wrong(row)
	}
	k.seen = revision > 0 && b.r.shared.rows.Writable == nil && (revision <= o.Revision() || o.Applied(row, revision))
	return k
}

// facts returns what the table and the loop know about the object that a text names.
func (b *answers[Obj]) facts(text string) facts[Obj] {
	s := b.r.reports.view.find(text, func(key index.Key) bool {
		_, has := b.r.core.KeyInfo(string(key), 0)
		return has
	})
	s.known = b.known(s.key, s.row, s.revision, maxAhead)
	return s
}

// deletions is a part of the deletions that are not carried out.
type deletions[Obj any] struct {
	// list is in the order of the places. It has one more than the page, if there is one.
	list []*deletion[Obj]
	// last is the highest place that was read. more: keys with higher places are not reconciled.
	last pageEnd
	more bool
}

// deletion is a deletion that is not carried out, and what the core knows about its key.
type deletion[Obj any] struct {
	pageEnd
	key  core.UnreconciledKey[Obj]
	info core.KeyInfo[Obj]
}

// deletions returns the deletions after a place, and one more than limit at most.
func (b *answers[Obj]) deletions(after pageEnd, limit int) deletions[Obj] {
	found, read := deletions[Obj]{last: after}, 0
	b.r.core.Index.Unreconciled(after.revision, func(u core.UnreconciledKey[Obj]) bool {
		// Keys with the same revision come in no order: all of them are read. There may be many, after a listing that
		// found orphans, so little is done for each.
		full := len(found.list) > limit
		if u.Since > found.last.revision && (full || read >= maxScanned) {
			found.more = true
			return false
		}
		at := pageEnd{u.Since, u.Key}
		if at.compare(after) <= 0 {
			return true
		}
		read++
		if at.compare(found.last) > 0 {
			found.last = at
		}
		if u.Deleted && (!full || at.compare(found.list[limit].pageEnd) < 0) {
			i, _ := slices.BinarySearchFunc(found.list, at, func(d *deletion[Obj], at pageEnd) int { return d.compare(at) })
			found.list = slices.Insert(found.list, i, &deletion[Obj]{pageEnd: at, key: u})
			found.list = found.list[:min(len(found.list), limit+1)]
		}
		return true
	})
	for _, d := range found.list {
		d.info = d.key.Describe()
	}
	return found
}
