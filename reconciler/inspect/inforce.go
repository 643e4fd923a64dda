// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/statekeel/statekeel/internal/chain"
	"github.com/statekeel/statekeel/internal/text"
)

// InForce tells whether what a row says is in force: whether all that follows from it, through derivations, is in the
// targets of their reconcilers. [Registry.InForce] returns it.
type InForce struct {
	// Table is the name of the table, Key the text of the key. Found is true if the table has the row, at Revision.
	// Otherwise the answer is about its deletion.
	Table    string `json:"table"`
	Key      string `json:"key"`
	Found    bool   `json:"found"`
	Revision uint64 `json:"revision,omitempty"`
	// At is the time of the answer.
	At time.Time `json:"at"`
	// Yes is true if that version, or a later one, is in force. It is true for a row from which nothing follows when
	// the derivations of its table have processed it. It may become true late, and is never true early. What the target
	// has lost since without a trace is not known.
	Yes bool `json:"yes"`
	// Since is the time since when it is in force; zero if it is not, and if that is not known of all that follows.
	Since time.Time `json:"since,omitzero"`
	// HeldUpBy are the first ten objects, in the order of the chain, that are not done; none if Yes. More counts the others.
	HeldUpBy []HeldUp `json:"held_up_by,omitempty"`
	More     int      `json:"more,omitempty"`
}

// HeldUp is an object that keeps a row from being in force, and why.
type HeldUp struct {
	// Table is the name of the table of the object, and Key the text of its key; empty if Why is about the table as a
	// whole, or its target. Reconciler is the one that has to do something, as in [ID.String]; empty if there is none.
	Table      string `json:"table"`
	Key        string `json:"key,omitempty"`
	Reconciler string `json:"reconciler,omitempty"`
	// State, Since, Attempts, Next and Why are those of the [Explanation] of the object. Error is the last failure,
	// or what the object is blocked on.
	State    State     `json:"state"`
	Since    time.Time `json:"since,omitzero"`
	Attempts int       `json:"attempts,omitempty"`
	Next     time.Time `json:"next,omitzero"`
	Why      string    `json:"why"`
	Error    string    `json:"error,omitempty"`
}

// holder has the reconcilers and derivations of the registry as parts of chains.
type holder = chain.Hidden[chain.Parts]

func (r *Registry) parts() *chain.Parts { return chain.PartsOf(&r.holder) }

// InForce tells whether the present version of a row is in force, or its deletion if the table does not have it. table
// is the name of a table on which reconcilers or derivations work, key the text of a key as for [Inspector].Explain.
//
// Only reconcilers and derivations of this module that run with this registry, on one database, count: others are not
// known. A derivation without it, or one that does not run, holds up all rows of its inputs. A row that loses to another
// one in a derivation by derive.Best is not in force. Until the first prune or resync of a reconciler is over, nothing is
// in force there; what an earlier run has left in the target of one that never prunes and has no Lister is not known. What
// a row no longer wants has to be deleted from the targets, too.
//
// A reconciler or derivation that does not answer within 100 ms counts as not done. The error wraps [ErrNoReconciler]
// if nothing works on the table. Safe from any goroutine; in an operation the reconciler of that operation counts as not done.
func (r *Registry) InForce(ctx context.Context, table, key string) (InForce, error) {
	answer, row, err := r.find(table, key)
	if err == nil {
		r.fill(ctx, &answer, r.parts().Walk(ctx, row))
	}
	return answer, err
}

// WaitInForce waits until the version of a row that the table has at the call, or a later one, is in force, or its deletion.
// A row that changes all the time does not prolong the wait: each object that follows from it needs to be applied once. If
// the wait ends before that, the answer says what holds the row up, and the error wraps that of ctx, or that of a part that
// can do no more: [ErrStopped] if a reconciler or derivation stops on which the answer depends, or a reconciler has stopped
// before and no other one works on its table; or reconciler.ErrNoStatus. Parts that have not started are waited for, unless
// none works on the table: the error is also that of [Registry.InForce]. Do not call it in an operation: it would wait for
// that.
func (r *Registry) WaitInForce(ctx context.Context, table, key string) (InForce, error) {
	answer, row, err := r.find(table, key)
	if err != nil {
		return answer, err
	}
	v, err := r.parts().Wait(ctx, row)
	r.fill(context.WithoutCancel(ctx), &answer, v)
	if err != nil {
		err = fmt.Errorf("%s of table %q is not in force: %s: %w", answer.Key, table, answer.reason(), err)
	}
	return answer, err
}

func (r *Registry) find(table, key string) (answer InForce, row chain.Row, err error) {
	readers, _ := r.parts().Readers(table)
	if len(readers) == 0 {
		return answer, row, fmt.Errorf("%w works on table %q", ErrNoReconciler, table)
	}
	row, answer.Key, answer.Found = readers[0].Find(table, key)
	if answer.Table = table; answer.Found {
		answer.Revision = row.Revision
	}
	return answer, row, nil
}

func (r *Registry) fill(ctx context.Context, answer *InForce, v chain.Verdict) {
	answer.At, answer.Yes, answer.Since, answer.More = time.Now(), len(v.Held) == 0, v.Since, v.More
	for _, held := range v.Held {
		x := HeldUp{Table: held.Table, Key: held.Object, State: StateUnknown, Why: held.Why}
		if held.Part != nil {
			c := held.Part.Controller().(Controller)
			x.Reconciler = c.ID().String()
			if held.Object != "" {
				e := c.Explain(ctx, held.Object)
				x.State, x.Since, x.Attempts, x.Next, x.Why = e.State, e.Since, e.Attempts, e.Next, cmp.Or(held.Why, e.Why)
				x.Error = cmp.Or(e.Error, e.BlockedOn)
			}
		}
		answer.HeldUpBy = append(answer.HeldUpBy, x)
	}
}

// reason returns what holds the row up, in one line.
func (f *InForce) reason() string {
	if len(f.HeldUpBy) == 0 {
		return "nothing is known to hold it up"
	}
	x := &f.HeldUpBy[0]
	line := fmt.Sprintf("held up by table %q: %s", x.Table, text.Printable(x.Why))
	if x.Key != "" {
		line = fmt.Sprintf("held up by %s of table %q: %s: %s", text.Printable(x.Key), x.Table, x.State, text.Printable(x.Why))
	}
	if x.Error != "" {
		line += ": " + text.Cell(x.Error)
	}
	if more := len(f.HeldUpBy) + f.More - 1; more > 0 {
		line += fmt.Sprintf(", and by %d other(s)", more)
	}
	return line
}

// report adds the answer to a report.
func (f *InForce) report(r *text.Report) {
	if f.Yes {
		value := text.Value{Text: "yes", Kind: text.KindGood}
		if !f.Since.IsZero() {
			value.Text = "since " + text.When(f.Since, f.At)
		}
		r.Field("in force", value)
		return
	}
	r.Field("in force", text.Value{Text: "no, " + f.reason(), Kind: text.KindWait})
	t := text.Table{
		ID: "held-up", Caption: "What holds it up",
		Columns: []string{"Held up by", "Of", "Reconciler", "State", "Since", "Failures", "Next attempt", "Why", "Error"},
	}
	for _, x := range f.HeldUpBy {
		state := text.Code(string(x.State))
		state.Kind = text.StateKind(string(x.State))
		t.Add(text.Object(x.Key), text.Code(x.Table), text.Code(x.Reconciler), state, text.Time(x.Since, f.At), text.Count(x.Attempts),
			text.Time(x.Next, f.At), text.Code(x.Why), text.Code(x.Error))
	}
	r.Tables = append(r.Tables, t)
}
