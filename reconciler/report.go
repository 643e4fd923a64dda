// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
)

// report says what a pass did: to metrics if it ran anything or the number of failing
// objects changed, to the journal if it did anything, to health if that changed. The first
// pass is always said to metrics, so that the figures of an idle reconciler are there.
func (l *Loop[Obj]) report(r *Round, txn statedb.ReadTxn, began time.Duration) {
	tasks, attempts := l.tasks, l.attempts
	if len(tasks) > 0 || r.Reason == ReasonStart || l.core.Failing() != l.reporter.last.failing {
		failed := 0
		for i := range attempts {
			if attempts[i].result == resultFailed || attempts[i].result == resultTerminal {
				failed++
			}
		}
		l.metrics.ReconciliationErrors(failed, l.core.Failing())
	}
	if len(tasks) > 0 || r.Prune != nil {
		l.sequence++
		r.Sequence = l.sequence
		r.Took = l.now() - began
		l.journal.add(*r, tasks, attempts)
		l.pace.round(began, r, l.set.RoundSize, len(tasks), l.pooled)
	}
	l.recycle()
	l.reportHealth(l.cfg.Table.NumObjects(txn))
}

// condition is everything that health says anything of.
type condition struct {
	objects, failing, blocked int
	failures                  uint64
	pruneFailure              string
}

// reporter remembers what health has been told.
type reporter struct {
	health cell.Health
	told   bool
	last   condition
}

func (l *Loop[Obj]) reportHealth(objects int) {
	now := condition{
		objects:      objects,
		failing:      l.core.Failing(),
		blocked:      l.core.Count(core.Blocked),
		failures:     l.core.FailureVersion(),
		pruneFailure: l.pruner.failure,
	}
	if l.reporter.told && now == l.reporter.last {
		return
	}
	l.reporter.told, l.reporter.last = true, now

	numErrors := now.failing
	if now.pruneFailure != "" {
		numErrors++
	}
	if numErrors > 0 {
		l.reporter.health.Degraded(fmt.Sprintf("%d error(s)", numErrors), l.examples(numErrors))
		return
	}
	message := fmt.Sprintf("OK, %d object(s)", now.objects)
	if now.blocked > 0 {
		message += fmt.Sprintf(", %d blocked", now.blocked)
	}
	l.reporter.health.OK(message)
}

// maxExamples bounds the errors that health is told, so that it costs the same
// whatever fails.
const maxExamples = 10

// examples joins the errors of a failing prune and of the objects that are unreconciled
// the longest.
func (l *Loop[Obj]) examples(numErrors int) error {
	var errs []error
	if l.pruner.failure != "" {
		errs = append(errs, errors.New(l.pruner.failure))
	}
	for text := range l.core.Failures {
		if len(errs) == maxExamples {
			break
		}
		errs = append(errs, errors.New(text))
	}
	if omitted := numErrors - len(errs); omitted > 0 {
		errs = append(errs, fmt.Errorf("%d further errors omitted", omitted))
	}
	return errors.Join(errs...)
}

// noHealth is the health of a loop that nobody asks.
type noHealth struct{}

func (noHealth) OK(string)                   {}
func (noHealth) Stopped(string)              {}
func (noHealth) Degraded(string, error)      {}
func (noHealth) NewScope(string) cell.Health { return noHealth{} }
func (noHealth) Close()                      {}
