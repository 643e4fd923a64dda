// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/needs"
	"github.com/statekeel/statekeel/internal/outcome"
)

// ErrNotKnown is in the error of [Need] and [NeedApplied] if the table that they look in is not initialised yet: whether
// the object exists is not known. It is also in that of NeedApplied for a row that is there and not applied, and in that
// of [NeedDeleted] until the reconciler has read the deletions from before the first call. It is never a reason to undo
// anything. Test for it with [errors.Is].
var ErrNotKnown = needs.ErrNotKnown

// Need looks up an object that an operation depends on, in any table and by any index: an observation, such as a device
// of the kernel, or a wish. Whether a wish is carried out, [NeedApplied] tells. It returns the
// object if it exists and all ready functions, if any, return true for it. Otherwise it returns the
// zero object and a [Blocked] error, which the operation returns as it is, wrapped or joined. The
// text of the error is what, such as "device eth0", and "is missing" or "is not ready". While the table
// has initialisers that have not ended, the error is [ErrNotKnown] instead, as after the start of the
// program: an operation that undoes what it did when a dependency goes must not do so then.
//
// The operation runs again when the result of the query changes, and sometimes when a row near it in
// the index changes. So it runs once for every change of a row that is not ready. It does not run
// again for changes of the row after the operation is done: that is what package trigger is for. If
// an object uses both Need and a trigger on the same table, a change of the row may run the operation
// twice, once for each.
//
// txn has to be the transaction that the operation was given; otherwise a wake-up may be lost. An
// operation that is given none, such as a request, passes the transaction that it reads in. If
// several rows match the query, the first one counts, and a change of any of them wakes the
// operation.
//
// Need may be called from any goroutine. The ready functions get the row itself, and must not change
// it.
func Need[Obj any](txn statedb.ReadTxn, table statedb.Table[Obj], query statedb.Query[Obj], what string, ready ...func(obj Obj) bool) (Obj, error) {
	obj, _, watch, found := table.GetWatch(txn, query)
	if found && !slices.ContainsFunc(ready, func(isReady func(Obj) bool) bool { return !isReady(obj) }) {
		return obj, nil
	}
	var none Obj
	if initialized, filled := table.Initialized(txn); !initialized {
		return none, outcome.Missing(fmt.Errorf("%s is %w: table %q is not initialised", what, ErrNotKnown, table.Name()), nil, watch, filled)
	}
	if !found {
		return none, outcome.Missing(errors.New(what+" is missing"), nil, watch)
	}
	return none, outcome.Missing(errors.New(what+" is not ready"), nil, watch)
}

// NeedApplied looks up an object of a reconciler that an operation depends on, and returns it if it is applied: a grant
// needs its role in the server, and not only in the table. Otherwise it returns the zero object and a [Blocked] error,
// which the operation returns as it is, wrapped or joined. The text of the error is what, such as "role web", and "is
// missing" or "is not applied". The latter is also [ErrNotKnown], since the target may have the object, from an earlier
// run or in an earlier version.
//
// A row is applied if its status is Done: it is not while it waits for the operation on a change, even if an earlier
// version was applied. But if the row is written again and again, a version counts that was applied since the
// operation on this version of the object was first blocked; in a batch it counts for all objects of the call that need
// the row. What the target has lost since, by the hand of somebody, nothing shows before a resync.
//
// The operation runs again when the row is applied, appears or has gone, and not for other changes of that row or of
// others. If the query is not one of the primary index and finds no row, it also runs when rows near it in the index
// change. [Loop.Explain] and waits add the error of the row, or that its reconciler is paused. An operation that is
// done does not run again: that is what package trigger is for.
//
// loop is the reconciler of the object; nil means the one whose operation ctx belongs to. Operations that need the
// objects of another one get it after both are made, and before they run. If it has not been started or is paused, the
// object waits; if it has stopped, it waits until the row changes. ctx and txn are those of the operation. NeedApplied
// never waits. It may be called from any goroutine. The returned row is that of the table and must not be changed.
func NeedApplied[Obj any](ctx context.Context, txn statedb.ReadTxn, loop *Loop[Obj], query statedb.Query[Obj], what string) (Obj, error) {
	n, err := needsOf(ctx, loop, what)
	if err != nil {
		var none Obj
		return none, err
	}
	return n.Applied(txn, query, what, execute.Waited(ctx))
}

// NeedDeleted returns a [Blocked] error if deletions of a reconciler are not carried out for which match returns true: a
// role is deleted after its grants, a bridge after its ports. The operation returns the error as it is, wrapped or
// joined. Its text is what, such as "a grant of role web", and "is not deleted", or [ErrNotKnown] as long as the
// reconciler has not read the deletions that were there when it was first asked for any. Each deletion counts that was
// committed before the call. The operation runs again when all that it waits for are carried out.
//
// match gets the last versions of the deleted rows, and orphans as they were listed. It must not change them, and
// must not be true for the object of the operation itself. It is called for each deletion that is not carried out. An
// object whose row is back, or was never deleted, does not count: it is wanted. Orphans count when a
// resync deletes them, and not while they await approval.
//
// In a batch, what differs from object to object. For loop and ctx see [NeedApplied]; without a running reconciler
// the object waits. NeedDeleted never waits, and may be called from any goroutine.
func NeedDeleted[Obj any](ctx context.Context, loop *Loop[Obj], match func(obj Obj) bool, what string) error {
	n, err := needsOf(ctx, loop, what)
	if err != nil {
		return err
	}
	return n.Deleted(match, what)
}

// Suspect is for an operation that has failed with err, perhaps since what it needs is not in the target any more, although
// its reconciler believes so: a rule whose chain somebody has deleted, a route whose device is gone. It asks loop, the
// reconciler of obj, to look at obj, as [Loop.Verify] does, and waits for nothing. It returns an error, which the operation
// returns as it is, wrapped or joined:
//
//   - a [Blocked] error with the text of err: obj is looked at first, or waited for if its row is not Done. If it was lost, the
//     operation runs again as soon as it is applied again. If it is as its row wants it, the operation runs again at once: obj
//     may not have been the reason.
//   - err, if that has not helped, so that the object fails and backs off, and if obj has no row, loop has no
//     [Config].Lister, or one for OrphansOnly, or it has stopped. A nil err is nil.
//
// An operation that needs several objects calls it for one after the other, with the error of the call before. Call it only
// for errors that say that something is missing, such as ENOENT: each call costs a look and another call of the operation.
// If the lister of loop has no [Getter], each costs a resync. ctx is that of the operation, loop and the rest as in
// [NeedApplied], which finds obj. Suspect may be called from any goroutine.
func Suspect[Obj any](ctx context.Context, loop *Loop[Obj], obj Obj, err error) error {
	if err == nil {
		return nil
	}
	n, wrong := needsOf(ctx, loop, "the object of Suspect")
	if wrong != nil {
		return errors.Join(err, wrong)
	}
	return n.Suspect(obj, err, execute.Waited(ctx))
}

// needsOf returns the needs of a loop, or of that whose operation ctx belongs to.
func needsOf[Obj any](ctx context.Context, loop *Loop[Obj], what string) (*needs.Needs[Obj], error) {
	if loop != nil {
		return loop.needs, nil
	}
	if s := execute.AnyScopeOf[Obj](ctx); s != nil {
		return s.Needs, nil
	}
	var row Obj
	return nil, fmt.Errorf("%s is needed from a nil loop, and the context is not that of an operation on a %T: pass the loop", what, row)
}

// newNeeds returns the needs of a loop.
func (r *runner[Obj]) newNeeds() *needs.Needs[Obj] {
	s := r.shared
	cfg := needs.Config[Obj]{
		Rows: s.rows, Name: called(s.setup.id), Status: s.ledger.Status, Started: s.life.running.Load, Wake: s.calls.made.Send,
		Paused:    func() bool { return s.calls.pause.Load().whole },
		Key:       func(key string) (core.KeyInfo[Obj], bool) { return r.core.KeyInfo(key, 0) },
		Deletions: r.core.Deletions,
	}
	if s.setup.cfg.Lister != nil && !s.setup.cfg.OrphansOnly {
		cfg.Verify, cfg.Pauses = r.suspect, func(row Obj) bool { return r.paused.pauses(row) }
	}
	if s.rows.Writable == nil {
		// A version that was applied shows as Done when the mark has passed it.
		cfg.Applied = func(row Obj, revision statedb.Revision) bool {
			_, waits := r.core.UnreconciledOf(string(r.shared.rows.Key(row)))
			return !waits && (revision <= r.observer.Revision() || r.observer.Applied(row, revision))
		}
	}
	return needs.New(cfg)
}

// suspect is Verify of a row on the goroutine of the loop. It asks for no resync if the last one has found the row wrong, and
// its repair comes, nor while one runs, which may find it wrong: if not, suspect is called again.
func (r *runner[Obj]) suspect(row Obj, revision statedb.Revision) (running bool) {
	if r.shared.execution.config.Look != nil {
		return r.refreshRow(row, revision, core.CauseVerify, false)
	}
	comes := r.resync.Wrong(row) != "" && (r.shared.refresher.Repairing() || r.core.TracksKeyOf(row))
	if !comes && !r.resync.Lists() {
		r.resync.Request(false)
	}
	return false
}

// because returns what holds up what a blocked object needs, as a text that follows the reason; empty if nothing is
// known.
func (v *view[Obj]) because(key index.Key) string {
	var lines []string
	for _, w := range v.needs.WaitsOf(string(key)) {
		if why := w.Why(); why != "" && !slices.Contains(lines, why) {
			lines = append(lines, why)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return " (" + strings.Join(lines, "; ") + ")"
}

// circle names the objects that wait for each other, if a blocked object needs one of them.
func (v *view[Obj]) circle(key index.Key) string {
	objects := needs.Circle(core.Needed{In: v.needs, Key: string(key)})
	if len(objects) == 0 {
		return ""
	}
	var names []string
	for _, o := range append(objects, objects[0]) {
		names = append(names, o.In.NameOf(o.Key))
	}
	return ". This never ends by itself, since they need each other: " + strings.Join(names, " -> ")
}
