// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/statekeel/statekeel/internal/inputs"
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
		switch r.pruned = !loop.Lists && !prunes(loop.Settings); {
		case r.pruned:
			return ""
		case !loop.Initialized:
			return "the first prune waits until these have filled the table: " + strings.Join(loop.Waiting, ", ")
		case loop.PruneFailure != "":
			return "the first prune has failed: " + loop.PruneFailure
		}
		return "the first prune has not ended"
	}
	// What a resync finds is deleted after it. Only the loop knows these deletions.
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
	return slices.ContainsFunc(settings, func(s inspect.SettingText) bool {
		interval, _ := time.ParseDuration(s.Value)
		return s.Name == "PruneInterval" && interval > 0
	})
}

// maxProblem bounds the bytes of one line of Ack.Problems.
const maxProblem = 300

// lines are the problems of an ack.
type lines []string

// add adds a short line of text if there is a problem and the ack has room.
func (p *lines) add(is bool, format string, args ...any) {
	if is && len(*p) < maxNamed {
		*p = append(*p, text.Cut(text.Printable(fmt.Sprintf(format, args...)), maxProblem))
	}
}

// addUnapplied adds the objects that are not applied for the longest time.
func (p *lines) addUnapplied(ctx context.Context, loop inspect.Inspector) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	rest, err := loop.WaitAll(ctx, reconciler.Attempted)
	for _, u := range rest.Keys[:min(len(rest.Keys), maxNamed-len(*p))] {
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
		p.add(true, "%s: %s", loop.Explain(ctx, text.Key(u.Key)).Key, why)
	}
	busy := (*inspect.BusyError)(nil)
	p.add(errors.As(err, &busy), "%s", busy)
}

// maxWait bounds the time that the loop has to attempt what is new, before it is asked what is not applied.
const maxWait = 100 * time.Millisecond

// unsetRows returns the rows that the loop leaves alone because their status is zero, as rejected: no wait waits for them.
func unsetRows(ctx context.Context, loop inspect.Inspector) (r inputs.Rejected) {
	page := inspect.ObjectPage{Next: "0"}
	// The figure counts such changes since the start. A page reads a limited number of rows.
	for loop.Figures().Unset > 0 && len(page.Objects) == 0 && page.Next != "" && ctx.Err() == nil {
		page, _ = loop.Objects(ctx, inspect.ObjectQuery{Status: "Unset", After: page.Next, Limit: 1000})
		r.N += len(page.Objects)
		for _, o := range page.Objects[:min(len(page.Objects), maxNamed)] {
			r.Errs = append(r.Errs, fmt.Errorf("%s: %w", o.Key, reconciler.ErrNoStatus))
		}
	}
	return r
}
