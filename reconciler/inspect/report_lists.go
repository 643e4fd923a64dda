// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"time"

	"github.com/statekeel/statekeel/internal/text"
)

// SnapshotsTable returns a line for each of several reconcilers, for people to read.
func SnapshotsTable(all []Snapshot) text.Table {
	t := text.Table{
		ID: "reconcilers", Caption: "Reconcilers", Empty: "no reconcilers",
		Columns: []string{"Name", "Table", "Rows", "Failing", "Blocked", "Unseen", "Summary"},
	}
	for _, s := range all {
		t.Add(text.Code(s.ID.String()), text.Code(s.ID.Table), text.Count(s.Objects), text.Alarm(s.Failing, text.KindBad),
			text.Alarm(s.Blocked, text.KindWait), text.Count(s.Unseen), text.Value{Text: s.Summary(), Kind: s.kind()})
	}
	return t
}

// ObjectsTable returns a line for each object, for people to read, with the distance of their times from at.
func ObjectsTable(objects []ObjectLine, at time.Time) text.Table {
	t := text.Table{
		ID: "objects", Caption: "Objects, those written last at the end", Empty: "no such objects",
		Columns: []string{"Key", "Status", "State", "Since", "Failures", "Next attempt", "Revision", "Blocked on", "Error"},
	}
	for _, o := range objects {
		state := text.Code(string(o.State))
		state.Kind = o.State.kind()
		t.Add(text.Object(o.Key), text.Code(o.Status), state, text.Time(o.Since, at), text.Count(o.Attempts),
			text.Time(o.Next, at), text.Count(o.Revision), text.Code(o.BlockedOn), text.Code(o.Error))
	}
	return t
}

// OperationsTable returns a line for each operation, for people to read, with the distance of their times from at.
func OperationsTable(operations []Operation, at time.Time) text.Table {
	t := text.Table{
		ID: "events", Caption: "Operations", Empty: "no entries in the journal", Optional: "Note",
		Columns: []string{"Time", "Ago", "Key", "Round", "Operation", "Cause", "Revision", "Attempt", "Result", "Took", "Error", "Note"},
	}
	for i := range operations {
		o := &operations[i]
		t.Add(text.Value{Text: text.Stamp(o.Started)}, text.Value{Text: text.Relative(o.Started, at)}, text.Object(o.Key),
			text.Count(o.Round), text.Code(o.Op), text.Code(string(o.Cause)), text.Count(o.Revision), text.Count(o.Attempt),
			o.outcome(), text.Value{Text: text.Duration(o.Took)}, text.Code(o.Error), text.Code(o.Note))
	}
	return t
}

// outcome returns the result, with "lost" or "merged" if that applies.
func (o *Operation) outcome() text.Value {
	v := text.Value{Text: text.Plain(string(o.Result)), Kind: text.KindGood}
	switch {
	case o.Result.Failed():
		v.Kind = text.KindBad
	case o.Result == ResultBlocked:
		v.Kind = text.KindWait
	}
	if o.Lost {
		v.Text += ", lost"
	}
	if o.Conflict {
		v.Text += ", merged"
	}
	return v
}

// RoundsTable returns a line for each round, for people to read, with the distance of their times from at.
func RoundsTable(rounds []Round, at time.Time) text.Table {
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
			text.Value{Text: text.Duration(r.Took)}, text.Value{Text: text.Duration(r.CommitTook)}, r.pruned())
	}
	return t
}

// pruned returns what the round's prune or resync came to.
func (r *Round) pruned() text.Value {
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
