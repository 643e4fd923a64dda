// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/statekeel/statekeel/internal/bounded"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func (c *commands) journal() *spec {
	return &spec{
		name:    "reconciler/journal",
		summary: "Show the latest operations or rounds",
		args:    []string{argOptional},
		flags: func(fs *pflag.FlagSet) {
			fs.String(flagKey, "", "Show only the operations on this object")
			fs.Duration("since", 0, "Show only what began in this time before now (10m, say); 0 means all")
			fs.Int("limit", 0, "Show only so many of the latest of each reconciler, with --first-failures of the oldest; 0 means all")
			fs.Bool("first-failures", false, "Show only the first failure of each object")
			fs.Bool("rounds", false, "Show rounds instead of operations")
		},
		detail: []string{
			"Prints each operation with its cause and result, the latest last, of one reconciler or of all. The journal keeps the latest 1024 operations of the latest 128 rounds. An answer has at most 1 MiB of JSON, and says how much is left out. The table cuts long texts: reconciler/explain NAME KEY prints the last error in full, and --format=json all of them.",
			"",
			"The cause is change, refresh, retry, requeue, released, recheck, probe, breaker closed, resumed, call, orphan, repair or adopted. A result is \"lost\" if the object changed while the operation ran: it was not written to the row. It is \"merged\" if another reconciler wrote the object meanwhile: it was added to that version.",
			"",
			"With --first-failures: the first failure of each object, the oldest first.",
			"",
			"With --rounds: why each round ran, what it planned, what it committed, and how long that took.",
			"",
			"Examples:",
			"> reconciler/journal routes --since=5m",
			"> reconciler/journal routes --key=10.0.0.0/24",
			"> reconciler/journal routes --first-failures --limit=3",
			"> reconciler/journal --rounds --limit=10",
		},
		run: c.readJournal,
	}
}

// journalOf is the answer for one reconciler: events or rounds.
type journalOf struct {
	Reconciler string              `json:"reconciler"`
	Events     []inspect.Operation `json:"events,omitempty"`
	Rounds     []inspect.Round     `json:"rounds,omitempty"`
	// rounds are the same as Rounds, with all their operations.
	rounds []inspect.Round
	// Omitted is the number of events or rounds that are left out because the answer would be too
	// large. Narrow is the flag that makes the answer smaller.
	Omitted int    `json:"omitted,omitempty"`
	Narrow  string `json:"narrow,omitempty"`
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
	journals := make([]journalOf, len(of))
	for i, r := range of {
		journals[i].Reconciler = r.ID().String()
		switch {
		case rounds:
			journals[i].rounds, journals[i].Rounds, journals[i].Omitted = bounded.Rounds(latestRounds(r.Rounds(), q), bounded.MaxList/len(of))
		case failures:
			journals[i].Events, journals[i].Omitted = bounded.First(firstFailures(r, q), bounded.MaxList/len(of))
		default:
			journals[i].Events, journals[i].Omitted = bounded.Latest(r.Operations(q), bounded.MaxList/len(of))
		}
		if journals[i].Omitted > 0 {
			journals[i].Narrow = narrowing(rounds)
		}
	}
	what := "earlier operations"
	if rounds {
		what = "earlier rounds"
	} else if failures {
		what = "later failures"
	}
	return output{journals, func() string { return journalText(journals, what, now) }}, nil
}

// loops returns the reconcilers that have a journal.
func loops(all []inspect.Controller) (out []inspect.Loop) {
	for _, one := range all {
		if loop, ok := one.(inspect.Loop); ok {
			out = append(out, loop)
		}
	}
	return out
}

// narrowing returns the flag that makes a journal smaller.
func narrowing(rounds bool) string {
	if rounds {
		return "--since"
	}
	return "--key"
}

// firstFailures returns the first failure of each object, the oldest first.
func firstFailures(r inspect.Loop, q inspect.OperationQuery) []inspect.Operation {
	limit := q.Limit
	// The query's limit would count the latest operations of any result.
	q.Limit = 0
	seen := map[string]bool{}
	var first []inspect.Operation
	for _, e := range r.Operations(q) {
		if !e.Result.Failed() || seen[e.Key] {
			continue
		}
		if limit > 0 && len(first) == limit {
			break
		}
		seen[e.Key] = true
		first = append(first, e)
	}
	return first
}

// journalText returns the journals as text. what names the elements that may be left out.
func journalText(journals []journalOf, what string, now time.Time) string {
	var out strings.Builder
	for _, j := range journals {
		if len(journals) > 1 {
			fmt.Fprintf(&out, "%s:\n", text.Plain(j.Reconciler))
		}
		switch {
		case len(j.Events) == 0 && len(j.Rounds) == 0:
			out.WriteString("no entries in the journal\n")
		case len(j.rounds) > 0:
			out.WriteString(roundsText(j.rounds, now))
		default:
			out.WriteString(inspect.OperationsText(j.Events, now))
		}
		if j.Omitted > 0 {
			fmt.Fprintf(&out, "%d %s are left out: the texts are too long for one answer; use %s\n", j.Omitted, what, j.Narrow)
		}
	}
	if len(journals) == 0 {
		out.WriteString("no reconcilers\n")
	}
	return out.String()
}

// latestRounds returns the rounds within the Since and Limit of a query.
func latestRounds(rounds []inspect.Round, q inspect.OperationQuery) []inspect.Round {
	rounds = slices.DeleteFunc(rounds, func(r inspect.Round) bool { return r.Started.Before(q.Since) })
	if q.Limit > 0 && len(rounds) > q.Limit {
		rounds = rounds[len(rounds)-q.Limit:]
	}
	return rounds
}

func roundsText(rounds []inspect.Round, now time.Time) string {
	var t text.Table
	t.Row("Time", "Ago", "Round", "Reason", "Changes", "Waited", "Refreshes", "Returned",
		"Operations", "Written", "Lost", "Merged", "Took", "Commit", "Prune")
	for _, r := range rounds {
		t.Row(text.Stamp(r.Started), text.Relative(r.Started, now), strconv.FormatUint(r.Sequence, 10), string(r.Reason),
			strconv.Itoa(r.Changes), strconv.Itoa(r.Waited), strconv.Itoa(r.Refreshes), strconv.Itoa(r.Returned),
			strconv.Itoa(len(r.Operations)), strconv.Itoa(r.Written), strconv.Itoa(r.Lost), strconv.Itoa(r.Conflicts),
			text.Duration(r.Took), text.Duration(r.CommitTook), pruneText(&r))
	}
	return t.String()
}

func pruneText(r *inspect.Round) string {
	p := r.Prune
	switch {
	case r.Resync != nil:
		return r.Resync.Summary()
	case p == nil:
		return ""
	case p.Error != "":
		return "failed: " + text.Printable(p.Error)
	}
	return "done in " + text.Duration(p.Took)
}
