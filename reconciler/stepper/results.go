// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler"
)

// Operation is the name of something that was done on the way, for [Results.OpsCount].
type Operation string

// The operations that the engines add themselves.
const (
	// OperationCRIsFinalizing: the row was deleted. A hook may add it in CRChecker to have a
	// row finalized that is there.
	OperationCRIsFinalizing Operation = "the row is being finalized"
	// OperationInfiniteLoop: the walk did not come to End; see [MaxSteps].
	OperationInfiniteLoop Operation = "infinite loop"
	// OperationUnknownEdge: the hook wanted to go where the graph does not lead to.
	OperationUnknownEdge Operation = "unknown edge"
)

// Result is one thing that was done, or failed.
type Result struct {
	// Resource is what it was done to; empty if that does not matter.
	Resource  string
	Operation Operation
	// Err is why it failed; nil if it did not.
	Err error
	// After is when the row is to be reconciled again; zero if it does not matter.
	After time.Duration
}

// Results are what happened in a reconciliation. The zero value is empty, and ready to use.
// They are for one goroutine at a time.
type Results struct {
	list []Result
	// since is the place in list from which on results count for the outcome.
	since  int
	errors int
	gaveUp bool
	// reason is that of the first give-up that has one, first the first other error.
	reason, first error
}

// AddOp adds something that was done to a resource, or that failed with err, if that is not
// nil. after is the delay after which the row is wanted to be reconciled again; zero or below
// means none: that is the backoff for what failed. It returns err.
func (r *Results) AddOp(resource string, op Operation, err error, after time.Duration) error {
	r.list = append(r.list, Result{Resource: resource, Operation: op, Err: err, After: max(after, 0)})
	if err != nil {
		r.failed(err)
	}
	return err
}

func (r *Results) failed(err error) {
	r.errors++
	gaveUp, reason := giveUpIn(err)
	switch {
	case gaveUp && r.reason == nil:
		r.reason = reason
	case !gaveUp && r.first == nil:
		r.first = err
	}
	r.gaveUp = r.gaveUp || gaveUp
}

// AddOpSuccess adds something that was done to a resource, without a delay: use
// [Results.AddOp] for one.
func (r *Results) AddOpSuccess(resource string, op Operation) { r.AddOp(resource, op, nil, 0) }

// AddGiveupError gives the reconciliation up, and returns the error that says so. An
// alarming reason is an error too; nil means that there is nothing alarming, it cannot go
// further for the moment.
func (r *Results) AddGiveupError(resource string, op Operation, reason error) error {
	if reason == nil {
		return r.AddOp(resource, op, ErrGiveUpReconciliation, 0)
	}
	return r.AddOp(resource, op, &giveUp{reason}, 0)
}

// ErrorsCount returns how many results have an error, give-ups among them. Those from before
// CRFinalizer, once that is entered, do not count.
func (r *Results) ErrorsCount() int { return r.errors }

// OpsCount returns how many results there are of an operation, whatever came of it.
func (r *Results) OpsCount(op Operation) (n int) {
	for i := range r.list {
		if r.list[i].Operation == op {
			n++
		}
	}
	return n
}

// All returns the results in the order in which they were added. The slice is the caller's.
func (r *Results) All() []Result { return append([]Result(nil), r.list...) }

// ConsolidatedError reports whether the reconciliation was given up, and returns the error
// that counts: the first alarming reason for a give-up, or else the first error; nil if there
// is neither.
func (r *Results) ConsolidatedError() (giveup bool, err error) {
	if r.reason != nil {
		return r.gaveUp, r.reason
	}
	return r.gaveUp, r.first
}

// disregard makes the results that there are not count for the outcome. They stay in the list.
func (r *Results) disregard() { *r = Results{list: r.list, since: len(r.list)} }

// ResetAllResults forgets all results.
func (r *Results) ResetAllResults() {
	clear(r.list)
	*r = Results{list: r.list[:0]}
}

// Outcome returns what the results mean for the loop, as an operation returns it.
//
// A give-up with an error, its own or that of another result, is a [reconciler.TerminalError]:
// the row is not reconciled again until it changes. A give-up without any error is
// [reconciler.Blocked], with the operations that gave up as the reason: it is no failure, and is
// reconciled again when the row changes, or at the next recheck (see
// [reconciler.Settings].BlockedRecheck). The delays of a give-up do not count.
//
// Without a give-up, errors make it fail, and be retried with backoff, or as
// [reconciler.RetryAfter] says for the shortest delay that a result with an error wants. Without
// an error, the shortest delay wanted is a [reconciler.Requeue], which says of a row that is being
// finalized that its deletion is still going on. nil if there is none.
//
// A row that is being finalized is never given up: the loop retries that as any failure.
//
// Several errors are joined: those that are outcomes themselves, such as
// [reconciler.Blocked], count as they do for the loop, unless there is a delay.
func (r *Results) Outcome() error {
	switch {
	case r.gaveUp && r.reason == nil && r.first == nil:
		return &giveUp{reconciler.Blocked(r.gaveUpText())}
	case r.gaveUp:
		return reconciler.TerminalError(r.joined())
	case r.errors > 0:
		if after := r.after(true); after > 0 {
			return reconciler.RetryAfter(r.joined(), after)
		}
		return r.joined()
	}
	if after := r.after(false); after > 0 {
		return reconciler.Requeue(after)
	}
	return nil
}

// after returns the shortest delay wanted, zero if there is none.
func (r *Results) after(failed bool) (after time.Duration) {
	for i := r.since; i < len(r.list); i++ {
		result := &r.list[i]
		if result.After > 0 && (result.Err != nil || !failed) && (after == 0 || result.After < after) {
			after = result.After
		}
	}
	return after
}

// Summary returns how many operations there were, how many of them failed, and which, in their
// order, as in "2 operations, 1 failed: created disk, mounted (failed)". What is beyond
// [reconciler.MaxNote] bytes of the list is left out. It is empty if there are no results.
func (r *Results) Summary() string {
	if len(r.list) == 0 {
		return ""
	}
	failed := 0
	for i := range r.list {
		if r.list[i].Err != nil {
			failed++
		}
	}
	count := fmt.Sprintf("%d operations", len(r.list))
	if len(r.list) == 1 {
		count = "1 operation"
	}
	if failed > 0 {
		count += fmt.Sprintf(", %d failed", failed)
	}
	return count + ": " + r.text()
}

// text returns the results in their order, as in "created disk, mounted (failed)". It has no
// more of them than fit into a note.
func (r *Results) text() string {
	texts, length := make([]string, 0, len(r.list)), 0
	for i := 0; i < len(r.list) && length <= reconciler.MaxNote; i++ {
		texts = append(texts, r.list[i].text())
		length += len(texts[i])
	}
	return strings.Join(texts, ", ")
}

// gaveUpText returns what was given up without an error.
func (r *Results) gaveUpText() string {
	var texts []string
	for _, result := range r.list[r.since:] {
		if name := result.name(); result.Err != nil && name != "" {
			texts = append(texts, name)
		}
	}
	if len(texts) == 0 {
		return "it cannot go further for the moment"
	}
	return strings.Join(texts, ", ")
}

// name returns what was done to what, as in "created disk".
func (r *Result) name() string {
	return text.Printable(strings.TrimSpace(string(r.Operation) + " " + r.Resource))
}

func (r *Result) text() string {
	name := r.name()
	switch {
	case r.Err == nil:
		return name
	case name == "":
		return "failed"
	}
	return name + " (failed)"
}

// joined returns all errors as one, a single one as it is.
func (r *Results) joined() error {
	errs := make([]error, 0, r.errors)
	for _, result := range r.list[r.since:] {
		if err := result.Err; err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
