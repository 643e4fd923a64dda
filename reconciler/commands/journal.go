// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func (c *commands) journal() *spec {
	return &spec{
		name:    "reconciler/journal",
		summary: "Show the latest operations or rounds",
		args:    []string{argOptionalName},
		flags: func(fs *pflag.FlagSet) {
			fs.String(flagKey, "", "Show only the operations on this object")
			fs.Duration("since", 0, "Show only what began in this time before now (10m, say); 0 means all")
			fs.Int("limit", 0, "Show only so many of the latest of each reconciler, with --first-failures of the oldest; 0 means all")
			fs.Bool("first-failures", false, "Show only the first failure of each object")
			fs.Bool("rounds", false, "Show rounds instead of operations")
		},
		detail: []string{
			"Prints each operation with its cause and result, the latest last, of one reconciler or of all. The journal keeps the latest 1024 operations of the latest 128 rounds. Long texts are cut: reconciler/explain NAME KEY prints the last error in full.",
			"",
			"The cause is change, refresh, retry, requeue, released, recheck, probe, breaker closed, resumed, call, orphan, repair or adopted. A result is \"lost\" if the object changed while the operation ran: it was not written to the row. It is \"merged\" if another reconciler wrote the object meanwhile: it was added to that version.",
			"",
			"With --first-failures: the first failure of each object, the oldest first.",
			"",
			"With --rounds: why each round ran, what it planned, what it committed, and how long that took.",
		},
		examples: []string{
			"reconciler/journal routes --since=5m",
			"reconciler/journal routes --key=10.0.0.0/24",
			"reconciler/journal routes --first-failures --limit=3",
			"reconciler/journal --rounds --limit=10",
		},
		run: c.readJournal,
	}
}

// journalOf is the answer for one reconciler: events or rounds.
type journalOf struct {
	Reconciler string              `json:"reconciler"`
	Events     []inspect.Operation `json:"events,omitempty"`
	Rounds     []inspect.Round     `json:"rounds,omitempty"`
}

func (c *commands) readJournal(_ context.Context, in *input) (output, error) {
	now := time.Now()
	since, errSince := in.duration("since")
	limit, errLimit := in.number("limit")
	q := inspect.OperationQuery{Key: in.text(flagKey), Limit: limit}
	if since > 0 {
		q.Since = now.Add(-since)
	}
	rounds, failures := in.is("rounds"), in.is("first-failures")
	var errBoth error
	if rounds && failures {
		errBoth = errors.New("--rounds and --first-failures are both set")
	}
	if rounds && q.Key != "" {
		errBoth = errors.New("--rounds and --key are both set: a round is of many objects")
	}
	if err := errors.Join(errSince, errLimit, errBoth); err != nil {
		return output{}, err
	}
	of := loops(c.registry.All())
	if in.reconciler != nil {
		if of = loops([]inspect.Controller{in.reconciler}); len(of) == 0 {
			return output{}, fmt.Errorf("%s is a derivation: it has no journal", in.named())
		}
	}
	journals, last := make([]journalOf, len(of)), ""
	for i, r := range of {
		j := &journals[i]
		j.Reconciler = r.ID().String()
		var table text.Table
		switch {
		case rounds:
			j.Rounds = operator.Rounds(r, q.Since, q.Limit)
			table = inspect.RoundsTable(j.Rounds, now)
		case failures:
			j.Events = operator.FirstFailures(r, q)
			table = inspect.OperationsTable(j.Events, now)
		default:
			j.Events = operator.Operations(r, q)
			table = inspect.OperationsTable(j.Events, now)
		}
		if len(of) > 1 {
			last += text.Plain(j.Reconciler) + ":\n"
		}
		typeable(&table)
		report := text.Report{Tables: []text.Table{table}}
		last += report.String()
	}
	if len(of) == 0 {
		last = "no reconcilers\n"
	}
	return output{data: journals, last: last}, nil
}

// loops returns the reconcilers that have a journal.
func loops(all []inspect.Controller) (out []inspect.LoopController) {
	for _, one := range all {
		if loop, ok := one.(inspect.LoopController); ok {
			out = append(out, loop)
		}
	}
	return out
}
