// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"

	"github.com/statekeel/statekeel/internal/resync"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Plan lists the target and returns what a resync would do with the rows of now, without doing it: which listed objects
// no row wants (orphan), and which rows are missing in the target, different ([Config].Equal, with the text of
// [Config].Diff) or equal. Unlike in a resync, rows that are not Done are compared, too. No operation is called, no
// status, journal or metric shows the plan, and it is no first listing. While a [Loop.Pause] lasts, or before
// [Loop.Run], a plan only reports what should be done.
//
// Plan waits until the table is initialised, and for a listing that runs, of the loop or of another plan. It calls the
// [Config].Lister on the goroutine of the caller, and the loop does not list meanwhile. The context that List gets is
// derived from ctx, [IsPlan] is true for it, and it also ends when the loop stops, which waits for List. Give ctx a
// deadline.
//
// Without other writers of the table and the target, the operations that follow are those of the plan: see
// [inspect.Plan].Operations. Rows that become Done without one are counted in [inspect.Plan].Adopted. A difference is found
// also for a row that has failed for good, is blocked or paused, and has to change or wait first. A deletion of a row that
// is not carried out is an orphan, if the target has the object. An object of which an operation ended while the target was
// listed is left out.
//
// The error is that of List, of ctx, [inspect.ErrStopped] after the loop has stopped, or [ErrInOperation] in an operation
// or listing of this reconciler. Without a Lister it says so at once. Safe from any goroutine.
func (l *Loop[Obj]) Plan(ctx context.Context) (inspect.Plan, error) {
	id := l.setup.id.String()
	p := inspect.Plan{Reconciler: id}
	if l.setup.cfg.Lister == nil {
		return p, fmt.Errorf("reconciler %q: there is no plan without a list of the target: set Config.Lister", called(l.setup.id))
	}
	if err := l.mayWait(ctx); err != nil {
		return p, err
	}
	err := l.awaitInitialized(ctx)
	if err == nil {
		p, err = l.runner.resync.Plan(context.WithValue(ctx, planKey{}, true), l.settings.Load().ListTimeout > 0)
		p.Reconciler = id
	}
	if errors.Is(err, resync.ErrEnded) {
		err = inspect.ErrStopped
	}
	if err != nil {
		err = fmt.Errorf("reconciler %q: plan: %w", called(l.setup.id), err)
	}
	return p, err
}

// awaitInitialized waits until the table is initialised.
func (l *Loop[Obj]) awaitInitialized(ctx context.Context) error {
	if l.life.stopped() {
		return inspect.ErrStopped
	}
	return filled[Obj]{l.rows.DB, l.rows.Table}.await(ctx, l.life.ended)
}

// planKey is the key of the context of a plan's listing.
type planKey struct{}

// IsPlan reports whether a call of [Lister].List is for [Loop.Plan], by its context: then List must change nothing, also
// not what the operations remember of the target. A List that only reads need not ask.
func IsPlan(ctx context.Context) bool {
	is, _ := ctx.Value(planKey{}).(bool)
	return is
}
