// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"errors"
	"strings"
	"time"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler"
)

// Operation is the name of an operation on a resource: see [Results.OpsCount].
type Operation string

// The operations that the engines add.
const (
	// OperationCRIsFinalizing: the row was deleted. A hook may add it in CRChecker to finalize a
	// row that still exists.
	OperationCRIsFinalizing Operation = "the row is being finalized"
	// OperationInfiniteLoop: the walk did not reach End; see [MaxSteps].
	OperationInfiniteLoop Operation = "infinite loop"
	// OperationUnknownEdge: the hook called [Stepper.GoTo] with a state to which the graph has no
	// edge.
	OperationUnknownEdge Operation = "unknown edge"
)

// Result is an operation that succeeded or failed.
type Result struct {
	// Resource is the name of the resource, or empty.
	Resource  string
	Operation Operation
	// Err is the error of a failed operation, else nil.
	Err error
	// After is the delay after which the row should be reconciled again. Zero means no delay.
	After time.Duration
}

// Results collects the results of one reconciliation. The zero value is empty and ready to use. It
// is for one goroutine at a time.
type Results struct {
	list []Result
	// since is the index of the first result in list that counts for the outcome.
	since  int
	errors int
	gaveUp bool
	// reason is the reason of the first give-up that has one. first is the first error that is no
	// give-up.
	reason, first error
}

// AddOp adds an operation on a resource. It succeeded if err is nil. after is the delay after which
// the row should be reconciled again. Zero and negative values mean no delay: a failed row is then
// retried with backoff. AddOp returns err.
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

// AddOpSuccess adds an operation that succeeded, without a delay: for a delay use [Results.AddOp].
func (r *Results) AddOpSuccess(resource string, op Operation) { r.AddOp(resource, op, nil, 0) }

// AddGiveupError gives the reconciliation up, and returns the error of the give-up. reason is the
// error that makes it a failure. nil means that nothing is wrong, but the reconciliation cannot
// continue for now.
func (r *Results) AddGiveupError(resource string, op Operation, reason error) error {
	if reason == nil {
		return r.AddOp(resource, op, ErrGiveUpReconciliation, 0)
	}
	return r.AddOp(resource, op, &giveUp{reason}, 0)
}

// ErrorsCount returns the number of results with an error, including give-ups. Once CRFinalizer is
// entered, results from before it do not count.
func (r *Results) ErrorsCount() int { return r.errors }

// OpsCount returns the number of results of an operation, whether it succeeded or failed.
func (r *Results) OpsCount(op Operation) (n int) {
	for i := range r.list {
		if r.list[i].Operation == op {
			n++
		}
	}
	return n
}

// All returns the results in the order in which they were added. The caller owns the slice.
func (r *Results) All() []Result { return append([]Result(nil), r.list...) }

// ConsolidatedError reports whether the reconciliation was given up, and returns the error that
// counts: the reason of the first give-up that has one, or else the first other error, or nil.
func (r *Results) ConsolidatedError() (giveup bool, err error) {
	if r.reason != nil {
		return r.gaveUp, r.reason
	}
	return r.gaveUp, r.first
}

// disregard excludes the current results from the outcome. They stay in the list.
func (r *Results) disregard() { *r = Results{list: r.list, since: len(r.list)} }

// ResetAllResults removes all results.
func (r *Results) ResetAllResults() {
	clear(r.list)
	*r = Results{list: r.list[:0]}
}

// Outcome converts the results into the return value of an operation.
//
// A give-up with an error, its own or that of another result, is a [reconciler.TerminalError]: the row
// is not reconciled again until it changes. A give-up without any error is [reconciler.Blocked], with
// the operations that gave up as the reason. It is no failure, and the row is reconciled again when it
// changes, or at the next recheck (see [reconciler.Settings].BlockedRecheck). A give-up ignores
// delays.
//
// Without a give-up, errors make the operation fail. It is retried with backoff or, if a result with
// an error has a delay, after the shortest such delay, as [reconciler.RetryAfter] does. Without an
// error, the shortest delay becomes a [reconciler.Requeue]. For a row that is being finalized a
// Requeue means that the deletion is still going on. Without errors and delays Outcome returns nil.
//
// A row that is being finalized is never given up: a give-up is retried with backoff, and one without
// an error waits for the recheck.
//
// Several errors are joined. An error that is an outcome, such as [reconciler.Blocked], has its
// meaning for the loop, unless a failed result has a delay.
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

// after returns the shortest delay, or zero if there is none. If failed is set, only results with
// an error count.
func (r *Results) after(failed bool) (after time.Duration) {
	for i := r.since; i < len(r.list); i++ {
		result := &r.list[i]
		if result.After > 0 && (result.Err != nil || !failed) && (after == 0 || result.After < after) {
			after = result.After
		}
	}
	return after
}

// text returns the results in order, as in "created disk, mounted (failed)".
func (r *Results) text() string {
	texts := make([]string, len(r.list))
	for i := range r.list {
		texts[i] = r.list[i].text()
	}
	return strings.Join(texts, ", ")
}

// gaveUpText returns the reason of a give-up without an error.
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

// name returns the operation and the resource, as in "created disk".
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

// joined returns all errors that count, joined. A single error is returned as it is.
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
