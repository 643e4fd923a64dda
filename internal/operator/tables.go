// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package operator

import (
	"time"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// snapshotsTable returns a line for each of several reconcilers, for people to read.
func snapshotsTable(all []inspect.Snapshot) text.Table {
	t := text.Table{
		ID: "reconcilers", Caption: "Reconcilers", Empty: "no reconcilers",
		Columns: []string{"Name", "Table", "Rows", "Failing", "Blocked", "Unseen", "Summary"},
	}
	for _, s := range all {
		t.Add(text.Code(s.ID.String()), text.Code(s.ID.Table), text.Count(s.Objects), text.Alarm(s.Failing, text.KindBad),
			text.Alarm(s.Blocked, text.KindWait), text.Count(s.Unseen), text.Value{Text: s.Summary(), Kind: s.Report().Lead.Kind})
	}
	return t
}

// objectsTable returns a line for each object, for people to read, with the distance of their times from at.
func objectsTable(objects []inspect.ObjectLine, at time.Time) text.Table {
	t := text.Table{
		ID: "objects", Caption: "Objects, those written last at the end", Empty: "no such objects",
		Columns: []string{"Key", "Status", "State", "Since", "Failures", "Next attempt", "Revision", "Blocked on", "Error"},
	}
	for _, o := range objects {
		state := text.Code(string(o.State))
		state.Kind = text.StateKind(string(o.State))
		t.Add(text.Object(o.Key), text.Code(o.Status), state, text.Time(o.Since, at), text.Count(o.Attempts),
			text.Time(o.Next, at), text.Count(o.Revision), text.Code(o.BlockedOn), text.Code(o.Error))
	}
	return t
}

// roundsTable returns a line for each round, for people to read, with the distance of their times from at.
func roundsTable(rounds []inspect.Round, at time.Time) text.Table {
	t := text.Table{
		ID: "rounds", Caption: "Rounds", Empty: "no entries in the journal",
		Columns: []string{
			"Time", "Ago", "Round", "Reason", "Changes", "Waited", "Refreshes", "Returned",
			"Operations", "Written", "Lost", "Merged", "Took", "Commit", "Prune",
		},
	}
	for i := range rounds {
		r := &rounds[i]
		t.Add(text.Value{Text: text.Stamp(r.Started)}, text.Value{Text: text.Relative(r.Started, at)}, text.Count(r.Sequence),
			text.Code(string(r.Reason)), text.Count(r.Changes), text.Count(r.Waited), text.Count(r.Refreshes), text.Count(r.Returned),
			text.Count(len(r.Operations)), text.Count(r.Written), text.Count(r.Lost), text.Count(r.Conflicts),
			text.Value{Text: text.Duration(r.Took)}, text.Value{Text: text.Duration(r.CommitTook)}, pruned(r))
	}
	return t
}

// pruned returns what the round's prune or resync came to.
func pruned(r *inspect.Round) text.Value {
	switch {
	case r.Resync != nil && r.Resync.Error != "":
		return text.Value{Text: r.Resync.Summary(), Kind: text.KindBad}
	case r.Resync != nil:
		return text.Value{Text: r.Resync.Summary()}
	case r.Prune == nil:
		return text.Value{Text: text.None}
	case r.Prune.Error != "":
		return text.Value{Text: "failed: " + text.Printable(r.Prune.Error), Kind: text.KindBad}
	}
	return text.Value{Text: "done in " + text.Duration(r.Prune.Took)}
}

// sourcesTable returns a line for each of several sources, for people to read; nothing is shown without sources.
func sourcesTable(all []inspect.SourceSnapshot) text.Table {
	t := text.Table{
		ID: "sources", Caption: "Sources", Columns: []string{"Source", "Rows", "Rejected", "Held", "Input", "Summary", "Problem"},
	}
	for i := range all {
		s := &all[i]
		held, problem := 0, ""
		if s.Held != nil {
			held = s.Held.Rows
		}
		if len(s.Problems) > 0 {
			problem = s.Problems[0]
		}
		t.Add(text.Code(s.Name), text.Count(s.Rows), text.Alarm(s.Rejected, text.KindBad), text.Alarm(held, text.KindBad),
			text.Count(s.Input), text.Value{Text: s.Summary(), Kind: s.Report(time.Now()).Lead.Kind}, text.Code(problem))
	}
	return t
}
