// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// The lists have texts that are cut to the size of a table's cell, so a bounded number of lines bounds an
// answer. Explain and Snapshot of one reconciler have the texts in full. Keys are whole: they name objects.

// Statuses are the values of [inspect.ObjectQuery].Status; without one all rows are listed.
var Statuses = []string{"Pending", "Refreshing", "Done", "Error", "Blocked", "Unset", "Deleted"}

// IsStatus reports whether a query may have the status.
func IsStatus(s string) bool {
	return s == "" || slices.ContainsFunc(Statuses, func(known string) bool { return strings.EqualFold(known, s) })
}

// Snapshots returns the snapshots of several reconcilers. It reads them concurrently: each one that is busy
// takes 100 ms.
func Snapshots(ctx context.Context, all []inspect.Controller) []inspect.Snapshot {
	out := make([]inspect.Snapshot, len(all))
	var asked sync.WaitGroup
	for i, r := range all {
		asked.Go(func() { out[i] = r.Snapshot(ctx) })
	}
	asked.Wait()
	for i := range out {
		s := &out[i]
		s.PruneFailure, s.Breaker = text.Cell(s.PruneFailure), text.Cell(s.Breaker)
		s.Errors = slices.Clone(s.Errors)
		for j := range s.Errors {
			s.Errors[j].Example = text.Cell(s.Errors[j].Example)
		}
	}
	return out
}

// PlanPatience bounds a plan, which waits for a listing of the target. maxPlanned bounds the differences that are shown.
const (
	PlanPatience = time.Minute
	maxPlanned   = 200
)

// Plan returns what a resync of a reconciler would do.
func Plan(ctx context.Context, of inspect.Controller, patience time.Duration) (inspect.Plan, error) {
	loop, ok := of.(inspect.LoopController)
	if !ok {
		return inspect.Plan{}, fmt.Errorf("%s is a derivation: it has no target to list", text.Plain(of.ID().String()))
	}
	listing, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p, err := loop.Plan(listing)
	p.Differences = p.Differences[:min(len(p.Differences), maxPlanned)]
	for i := range p.Differences {
		p.Differences[i].Diff = text.Cell(p.Differences[i].Diff)
	}
	return p, Overdue(ctx, patience, err)
}

// Objects returns a page of a list of objects.
func Objects(ctx context.Context, of inspect.Inspector, q inspect.ObjectQuery) (inspect.ObjectPage, error) {
	page, err := of.Objects(ctx, q)
	for i := range page.Objects {
		o := &page.Objects[i]
		o.Error, o.BlockedOn = text.Cell(o.Error), text.Cell(o.BlockedOn)
	}
	return page, err
}

// Operations returns operations from the journal of a reconciler, the latest last.
func Operations(of inspect.LoopController, q inspect.OperationQuery) []inspect.Operation {
	return cut(of.Operations(q))
}

// FirstFailures returns the first failure of each object from the journal, the oldest first. The limit of
// the query counts these.
func FirstFailures(of inspect.LoopController, q inspect.OperationQuery) []inspect.Operation {
	limit := q.Limit
	q.Limit = 0
	seen := map[string]bool{}
	var first []inspect.Operation
	for _, o := range of.Operations(q) {
		if !o.Result.Failed() || seen[o.Key] {
			continue
		}
		if limit > 0 && len(first) == limit {
			break
		}
		seen[o.Key] = true
		first = append(first, o)
	}
	return cut(first)
}

// cut cuts the texts of operations, which the caller has alone.
func cut(operations []inspect.Operation) []inspect.Operation {
	for i := range operations {
		o := &operations[i]
		o.Error, o.Note = text.Cell(o.Error), text.Cell(o.Note)
	}
	return operations
}

// Rounds returns the latest rounds from the journal that did not begin before a time, the latest last. Zero
// means no limit.
func Rounds(of inspect.LoopController, since time.Time, limit int) []inspect.Round {
	rounds := slices.DeleteFunc(of.Rounds(), func(r inspect.Round) bool { return r.Started.Before(since) })
	if limit > 0 && len(rounds) > limit {
		rounds = rounds[len(rounds)-limit:]
	}
	for i := range rounds {
		r := &rounds[i]
		r.Operations = cut(slices.Clone(r.Operations))
		if r.Prune != nil {
			r.Prune = &inspect.Prune{Error: text.Cell(r.Prune.Error), Took: r.Prune.Took}
		}
		if r.Resync != nil {
			resync := *r.Resync
			resync.Error = text.Cell(resync.Error)
			r.Resync = &resync
		}
	}
	return rounds
}
