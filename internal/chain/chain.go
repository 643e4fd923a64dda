// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package chain tells whether what a row says is in force: in the targets of all loops that work on it, or on what is
// derived from it. The parts of a chain are derivations and loops. Each answers for one row at a time, and [Parts] goes
// from the row down to the loops.
package chain

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/inputs"
)

// ErrStopped is inspect.ErrStopped.
var ErrStopped = errors.New("the reconciler has stopped")

// Row is a version of a row of a table. For a row that the table does not have, the revision is one of the table after
// the deletion.
type Row struct {
	Table, Key string
	Revision   statedb.Revision
}

// Held is something that is not in force, with the part where it stops.
type Held struct {
	// Part is nil if no part can do anything for the row.
	Part Part
	// Object names the object that Part explains, and Table is the name of its table. Object is empty if Why is about all
	// rows of Table: then the part is not asked for others in the same walk.
	Table, Object string
	// Why is the reason if what Part explains does not show it.
	Why string
}

// Step is what one part answers about a row.
type Step struct {
	// Held is what the part has not done. The walk sets Part.
	Held []Held
	// Next are the rows of the output that follow from the row.
	Next []Row
	// Since is the time by which the part had done its share, zero if that is not known.
	Since time.Time
}

// Part is a derivation or a loop. All methods are safe from any goroutine.
type Part interface {
	// Controller returns the derivation or the loop.
	Controller() any
	// Tables returns the names of the tables whose rows the part works on.
	Tables() []string
	// Output returns the name of the table that a derivation writes; empty for a loop.
	Output() string
	// DB returns the database of the tables.
	DB() *statedb.DB
	// Find returns the row that a text names, and its name. Without such a row it is the deletion of the most likely key.
	Find(table, text string) (row Row, name string, found bool)
	// Follow tells how far a version of a row is, or a later one. It waits at most 100 ms for an answer.
	Follow(ctx context.Context, row Row) Step
	// Await is called when Follow has held something, and returns its answer when it holds nothing. A loop returns when it
	// has applied the version, or a later one, since the call has begun. The error is that of ctx, or says that the wait
	// has no end.
	Await(ctx context.Context, row Row) (Step, error)
	// Uncertain returns why the target of a loop may have what no row shows; nil if there is no reason. There is none
	// any more once there was none. It is [ErrStopped] if the loop has stopped.
	Uncertain(ctx context.Context) error
	// Settle waits until everything that the tables have at the call is done. The error is as for Await.
	Settle(ctx context.Context) error
}

// Hidden gives the type that embeds it a value, and exports nothing: a part to those who are one, and [Parts] to a registry.
type Hidden[Value any] struct{ value Value }

// Hide returns a Hidden with a value.
func Hide[Value any](value Value) Hidden[Value] { return Hidden[Value]{value} }

func (h *Hidden[Value]) hidden() *Value { return &h.value }

// In returns the value of this type that is hidden in what embeds it; false if there is none.
func In[Value any](of any) (value *Value, has bool) {
	h, has := of.(interface{ hidden() *Value })
	if !has {
		return nil, false
	}
	return h.hidden(), true
}

// PartsOf returns the parts of a registry.
func PartsOf(registry interface{ hidden() *Parts }) *Parts { return registry.hidden() }

// Parts are the parts that run. The zero value has none. It is safe for concurrent use.
type Parts struct {
	mu  sync.Mutex
	all []Part
	// ended has the tables whose loop has left: a loop does not run again.
	ended map[string]bool
}

// Join adds a part.
func (p *Parts) Join(one Part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, one)
}

// Leave removes a part.
func (p *Parts) Leave(one Part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = slices.DeleteFunc(p.all, func(other Part) bool { return other == one })
	if one.Output() == "" {
		if p.ended == nil {
			p.ended = map[string]bool{}
		}
		p.ended[one.Tables()[0]] = true
	}
}

// Readers returns the parts that work on the rows of a table. The error says why these are not all; nil if they are.
func (p *Parts) Readers(table string) (readers []Part, err error) {
	p.mu.Lock()
	readers, ended := slices.Clone(p.all), p.ended[table]
	p.mu.Unlock()
	readers = slices.DeleteFunc(readers, func(one Part) bool { return !slices.Contains(one.Tables(), table) })
	switch {
	case ended && !slices.ContainsFunc(readers, func(one Part) bool { return one.Output() == "" }):
		return readers, ErrStopped
	case len(readers) == 0:
		return nil, errors.New("no reconciler and no derivation of the registry works on this table")
	}
	for _, output := range inputs.DerivedFrom(readers[0].DB(), table) {
		if !slices.ContainsFunc(readers, func(one Part) bool { return one.Output() == output }) {
			return readers, errors.New("the derivation of table " + output + " does not run, or its Config does not have the registry")
		}
	}
	return readers, nil
}

// MaxHeld bounds what a verdict names.
const MaxHeld = 10

// Verdict is whether a row is in force.
type Verdict struct {
	// Held is what is not, at most MaxHeld, and More the number of others; both are empty if the row is in force.
	Held []Held
	More int
	// Since is the time since when it is in force, as far as that is known; zero if it is not.
	Since time.Time
}

// walk goes from a row down.
type walk struct {
	Verdict
	ctx   context.Context
	parts *Parts
	// readers are those of each table below the row. seen has the revisions of the rows that were visited, which it has
	// without theirs. silent are the parts that are not asked any more. certain are the loops that were certain, also of
	// earlier walks of a wait: they need not all answer at one time.
	readers         map[string][]Part
	seen            map[Row]statedb.Revision
	silent, certain map[Part]bool
	// unknown: of a part it is not known since when it is done.
	unknown bool
	// patient: what a part has not done is waited for. err is why that has no end.
	patient bool
	err     error
}

// begin begins a walk with a look at the parts below a table, whether or not anything follows from the row there: what
// it wanted before may still be in a target.
func (p *Parts) begin(ctx context.Context, table string, certain map[Part]bool) *walk {
	w := &walk{
		ctx: ctx, parts: p, readers: map[string][]Part{}, seen: map[Row]statedb.Revision{}, silent: map[Part]bool{}, certain: certain,
	}
	w.survey(table)
	return w
}

func (w *walk) survey(table string) {
	if _, done := w.readers[table]; done {
		return
	}
	readers, err := w.parts.Readers(table)
	w.readers[table] = readers
	w.doubt(Held{Table: table}, err)
	for _, part := range readers {
		if part.Output() != "" {
			w.survey(part.Output())
		} else if !w.certain[part] {
			err := part.Uncertain(w.ctx)
			w.certain[part] = err == nil
			w.doubt(Held{Part: part, Table: table}, err)
		}
	}
}

// doubt holds something for a reason; nil if there is none.
func (w *walk) doubt(one Held, err error) {
	if err == nil {
		return
	}
	one.Why = err.Error()
	if w.hold(one); errors.Is(err, ErrStopped) {
		w.err = err
	}
}

// Walk tells whether a version of a row is in force, or a later one.
func (p *Parts) Walk(ctx context.Context, row Row) Verdict {
	w := p.begin(ctx, row.Table, map[Part]bool{})
	w.err = nil // what has stopped is held
	w.visit(row)
	return w.verdict()
}

func (w *walk) verdict() Verdict {
	if w.unknown || len(w.Held) > 0 {
		w.Since = time.Time{}
	}
	return w.Verdict
}

func (w *walk) visit(row Row) {
	at := Row{Table: row.Table, Key: row.Key}
	if revision, seen := w.seen[at]; seen && revision >= row.Revision {
		return
	}
	w.seen[at] = row.Revision
	for _, part := range w.readers[row.Table] {
		if w.ends(row.Table) {
			return
		}
		if !w.silent[part] {
			w.follow(part, row)
		}
	}
}

// ends reports whether the walk has ended early, in a table: then it is held up there.
func (w *walk) ends(table string) bool {
	if err := w.ctx.Err(); err != nil && w.err == nil {
		w.hold(Held{Table: table, Why: err.Error()})
		w.err = err
	}
	return w.err != nil
}

// follow visits what follows from a row through a part.
func (w *walk) follow(part Part, row Row) {
	step := part.Follow(w.ctx, row)
	if w.patient && len(step.Held) > 0 {
		if step, w.err = part.Await(w.ctx, row); w.err != nil {
			return
		}
	}
	for _, held := range step.Held {
		held.Part = part
		w.hold(held)
		w.silent[part] = w.silent[part] || held.Object == ""
	}
	if w.unknown = w.unknown || step.Since.IsZero(); step.Since.After(w.Since) {
		w.Since = step.Since
	}
	for _, next := range step.Next {
		w.visit(next)
	}
}

func (w *walk) hold(one Held) {
	if len(w.Held) < MaxHeld {
		w.Held = append(w.Held, one)
	} else {
		w.More++
	}
}

// Wait waits until a version of a row, or a later one, is in force: down from the row, it waits for one part after the
// other, and never comes back. So a row that changes all the time holds nothing up: each object of a loop has to be applied
// once, in a version that follows from this one of the row, or from a later one. The error is that of ctx, or of a part
// for which there is no end; the verdict then says what holds the row up.
func (p *Parts) Wait(ctx context.Context, row Row) (Verdict, error) {
	w := p.awaitParts(ctx, row.Table)
	if w.err == nil {
		w.visit(row)
	}
	if w.err == nil {
		return w.verdict(), nil
	}
	brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	v := p.Walk(brief, row)
	switch {
	case len(v.Held) > 0:
	case errors.Is(w.err, ErrStopped):
		// What has stopped is a part no more.
		v = Verdict{Held: []Held{{Table: row.Table, Why: w.err.Error()}}}
	default:
		return v, nil
	}
	return v, w.err
}

// again is the time between two looks at something that no part tells the end of.
const again = 100 * time.Millisecond

// awaitParts waits until all parts below a table run and are certain, and begins a patient walk. If one leaves, the error is
// [ErrStopped].
func (p *Parts) awaitParts(ctx context.Context, table string) *walk {
	certain := map[Part]bool{}
	for had := 0; ; {
		w, n := p.begin(ctx, table, certain), 0
		w.patient = true
		for _, readers := range w.readers {
			n += len(readers)
		}
		if n < had {
			w.err = ErrStopped
		}
		if had = n; len(w.Held) == 0 || w.err != nil {
			return w
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			w.err = ctx.Err()
			return w
		}
	}
}

// Settle waits until everything is done that the parts below a table have at the call. The error is as for Wait.
func (p *Parts) Settle(ctx context.Context, table string) error {
	w := p.awaitParts(ctx, table)
	w.settle(table)
	return w.err
}

// settle visits a table again on each way to it.
func (w *walk) settle(table string) {
	for _, part := range w.readers[table] {
		if w.err != nil {
			return
		}
		if w.err = part.Settle(w.ctx); w.err == nil && part.Output() != "" {
			w.settle(part.Output())
		}
	}
}
