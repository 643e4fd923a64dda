// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// lookForPrune returns why the target may have what it had before this program; empty if it may not, or if
// the loop does not prune by itself. It remembers that.
func (r *reporter) lookForPrune(ctx context.Context, figures *metrics.Figures) string {
	switch {
	case r.pruned:
		return ""
	case figures.Prunes.Count == figures.PruneErrors:
		loop := r.Loop.Snapshot(ctx)
		switch r.pruned = !prunes(loop.Settings); {
		case r.pruned:
			return ""
		case !loop.Initialized:
			return "the first prune waits until these have filled the table: " + strings.Join(loop.Waiting, ", ")
		case loop.PruneFailure != "":
			return "the first prune has failed: " + loop.PruneFailure
		}
		return "the first prune has not ended"
	}
	// What a sweep finds is deleted after it. Only the loop knows these deletions.
	left, err := r.Loop.Objects(ctx, inspect.ObjectQuery{Status: "Deleted", Limit: 1})
	switch {
	case len(left.Objects) > 0:
		return "deletions after the first prune are not carried out"
	case err != nil, left.Next != "":
		// The loop is busy, or too many older changes are not applied to look behind them each time.
		return "deletions after the first prune may not be carried out"
	}
	r.pruned = true
	return ""
}

// prunes reports whether a loop with these settings prunes by itself.
func prunes(settings []inspect.SettingText) bool {
	for _, s := range settings {
		if interval, _ := time.ParseDuration(s.Value); s.Name == "PruneInterval" {
			return interval > 0
		}
	}
	return false
}

// maxProblem bounds the bytes of one line of Ack.Problems.
const maxProblem = 300

// problems are the lines of an ack.
type problems struct{ lines []string }

// add adds a line if there is a problem.
func (p *problems) add(is bool, format string, args ...any) {
	if is {
		p.lines = append(p.lines, fmt.Sprintf(format, args...))
	}
}

// first returns as many lines as an ack has, each a short line of text.
func (p *problems) first() []string {
	lines := p.lines[:min(len(p.lines), maxNamed)]
	for i, line := range lines {
		lines[i] = text.Cut(text.Printable(line), maxProblem)
	}
	return lines
}

// unapplied describes the objects that are not applied for the longest time.
func (r *reporter) unapplied(ctx context.Context) (lines []string) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	rest, err := r.Loop.WaitAll(ctx, reconciler.Attempted)
	for _, u := range rest.Keys[:min(len(rest.Keys), maxNamed)] {
		// Not the state or the number of attempts: an ack of each would be too many.
		why := "it is not applied"
		switch {
		case u.Err != nil:
			why = u.Err.Error()
		case u.State == inspect.StatePaused:
			why = "it is paused"
		case u.Deleted:
			why = "it is not deleted yet"
		}
		lines = append(lines, r.Loop.Explain(ctx, rows.KeyText(u.Key)).Key+": "+why)
	}
	if busy := (*inspect.BusyError)(nil); errors.As(err, &busy) {
		lines = append(lines, busy.Error())
	}
	return lines
}

// maxWait bounds the time that the loop has to attempt what is new, before it is asked what is not applied.
const maxWait = 100 * time.Millisecond
