// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package chain tells whether what a row says is in force: in the targets of all loops that work on it, or on what is
// derived from it. The parts of a chain are derivations and loops. Each answers for one row at a time, and [Parts] walks
// from the row down to the loops.
package chain

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/inputs"
)

// Row is a version of a row of a table, or the deletion of one.
type Row struct {
	// Table is the name of the table, Key the primary key.
	Table, Key string
	// Revision is that of the version. For a row that the table does not have it is a revision of the table after the
	// deletion.
	Revision statedb.Revision
	// Gone: the table did not have the row at that revision.
	Gone bool
}

// Held is something that is not in force, with the part where it stops.
type Held struct {
	// Part is nil if no part can do anything for the row.
	Part Part
	Row  Row
	// Object names the object that Part explains, and Table is the name of its table. Object is empty if Why is about all
	// rows of Table.
	Table, Object string
	// Why is the reason if what Part explains does not show it.
	Why string
}

// Step is what one part answers about a row.
type Step struct {
	// Held is what the part has not done. [Parts.Walk] sets Part and Row.
	Held []Held
	// Next are the rows of the output that follow from the row.
	Next []Row
	// Since is the time by which the part had done its share, zero if that is not known.
	Since time.Time
	// Silent: the part has not answered in time. It is not asked again in the same walk.
	Silent bool
}

// Part is a derivation or a loop. All methods are safe from any goroutine.
type Part interface {
	// Reads reports whether the part works on the rows of a table.
	Reads(table string) bool
	// Output returns the name of the table that a derivation writes; empty for a loop.
	Output() string
	// DB returns the database of the tables; nil if that is not known.
	DB() *statedb.DB
	// Find returns the row that a text names, and its name. Without such a row it is the deletion of the most likely key.
	Find(table, text string) (row Row, name string, found bool)
	// Follow tells how far a version of a row is, or a later one. It waits at most 100 ms for an answer.
	Follow(ctx context.Context, row Row) Step
	// Uncertain says why the target of a loop may have what no row shows; empty if there is no reason.
	Uncertain(ctx context.Context) (why string)
	// Await waits until Follow may have another answer than that it is held. A loop has applied the version, or a later
	// one, since the call has begun. The error is that of ctx, or says that the wait has no end.
	Await(ctx context.Context, row Row) error
	// Settled reports whether everything that the tables have at the call is done. It waits at most until ctx ends.
	Settled(ctx context.Context) bool
}

// Member makes the type that embeds it a part of chains. It exports nothing, so that the type does not either.
type Member struct{ part Part }

// NewMember returns the Member of a part.
func NewMember(of Part) Member { return Member{of} }

func (m *Member) member() Part { return m.part }

// PartOf returns the part that a value is; false if it is none.
func PartOf(of any) (Part, bool) {
	m, is := of.(interface{ member() Part })
	if !is {
		return nil, false
	}
	return m.member(), true
}

// Parts are the parts that run. The zero value has none. It is safe for concurrent use.
type Parts struct {
	mu  sync.Mutex
	all []Part
}

// Holder gives the type that embeds it parts, and exports nothing.
type Holder struct{ has Parts }

func (h *Holder) parts() *Parts { return &h.has }

// PartsOf returns the parts of a value that embeds a [Holder].
func PartsOf(of interface{ parts() *Parts }) *Parts { return of.parts() }

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
	if i := slices.Index(p.all, one); i >= 0 {
		p.all = slices.Delete(p.all, i, i+1)
	}
}

// Readers returns the parts that work on the rows of a table.
func (p *Parts) Readers(table string) (readers []Part) {
	p.mu.Lock()
	all := slices.Clone(p.all)
	p.mu.Unlock()
	return slices.DeleteFunc(all, func(one Part) bool { return !one.Reads(table) })
}

// readers returns the parts that work on the rows of a table, and why it does not know all of them; empty if it does.
func (p *Parts) readers(table string) (readers []Part, why string) {
	readers = p.Readers(table)
	if len(readers) == 0 {
		return nil, "no reconciler and no derivation of the registry works on this table"
	}
	i := max(0, slices.IndexFunc(readers, func(one Part) bool { return one.DB() != nil }))
	for _, output := range inputs.DerivedFrom(readers[i].DB(), table) {
		if !slices.ContainsFunc(readers, func(one Part) bool { return one.Output() == output }) {
			return readers, "the derivation of table " + output + " does not run, or is not in the registry"
		}
	}
	return readers, ""
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

// object is an object of a part.
type object struct {
	part       Part
	table, key string
}

// walk is a walk from a row down.
type walk struct {
	Verdict
	parts *Parts
	// readers are those of the tables. seen has the revisions of the rows that were visited, met the objects that need no
	// further look.
	readers map[string][]Part
	seen    map[object]statedb.Revision
	met     map[object]bool
	// silent are the parts that have not answered, with what is held up.
	silent map[Part]Held
	// unknown: of a part it is not known since when it is done.
	unknown bool
}

// Walk tells whether a version of a row is in force, or a later one.
func (p *Parts) Walk(ctx context.Context, row Row) Verdict { return p.walk(ctx, row, nil) }

func (p *Parts) walk(ctx context.Context, row Row, met map[object]bool) Verdict {
	w := walk{parts: p, seen: map[object]statedb.Revision{}, met: met, readers: map[string][]Part{}, silent: map[Part]Held{}}
	w.survey(ctx, row.Table)
	w.visit(ctx, row)
	if w.unknown || len(w.Held) > 0 {
		w.Since = time.Time{}
	}
	return w.Verdict
}

// survey finds the parts below a table, whether or not anything follows from the row there: what it wanted before may
// still be in a target.
func (w *walk) survey(ctx context.Context, table string) {
	if _, done := w.readers[table]; done {
		return
	}
	readers, why := w.parts.readers(table)
	w.readers[table] = readers
	if why != "" {
		w.hold(Held{Table: table, Why: why})
	}
	for _, part := range readers {
		if part.Output() != "" {
			w.survey(ctx, part.Output())
		} else if why := part.Uncertain(ctx); why != "" {
			w.hold(Held{Part: part, Table: table, Why: why})
		}
	}
}

func (w *walk) visit(ctx context.Context, row Row) {
	at := object{nil, row.Table, row.Key}
	if revision, seen := w.seen[at]; seen && revision >= row.Revision {
		return
	}
	w.seen[at] = row.Revision
	if err := ctx.Err(); err != nil {
		w.hold(Held{Table: row.Table, Why: err.Error()})
		return
	}
	for _, part := range w.readers[row.Table] {
		if w.met[object{part, row.Table, row.Key}] {
			continue
		}
		if held, is := w.silent[part]; is {
			w.hold(held)
			continue
		}
		step := part.Follow(ctx, row)
		if step.Silent && len(step.Held) > 0 {
			w.silent[part] = Held{Part: part, Row: row, Table: row.Table, Why: step.Held[0].Why}
		}
		for _, held := range step.Held {
			held.Part, held.Row = part, row
			w.hold(held)
		}
		if w.unknown = w.unknown || step.Since.IsZero(); step.Since.After(w.Since) {
			w.Since = step.Since
		}
		for _, next := range step.Next {
			w.visit(ctx, next)
		}
	}
}

func (w *walk) hold(one Held) {
	if len(w.Held) < MaxHeld {
		w.Held = append(w.Held, one)
	} else {
		w.More++
	}
}

const (
	// again is the time between two looks at something that no part tells the end of.
	again = 100 * time.Millisecond
	// soon is the time to the next look after a derivation has done something.
	soon = 10 * time.Millisecond
)

// Wait waits until a version of a row, or a later one, is in force. A row that changes all the time holds nothing up:
// each object of a loop needs to have been applied once since the call. The error is that of ctx, or of a part for which
// there is no end; the verdict is then the last one.
func (p *Parts) Wait(ctx context.Context, row Row) (Verdict, error) {
	met := map[object]bool{}
	var v Verdict
	for {
		next := p.walk(ctx, row, met)
		if err := ctx.Err(); err != nil && len(v.Held) > 0 && len(next.Held) > 0 {
			return v, err // the walk has ended early
		}
		if v = next; len(v.Held) == 0 {
			if len(met) > 0 {
				// Since when it is, only they can tell that were waited for.
				v.Since = p.Walk(ctx, row).Since
			}
			return v, nil
		}
		pause := again
		if held := v.Held[0]; held.Object != "" {
			if err := held.Part.Await(ctx, held.Row); err != nil {
				return v, err
			}
			if pause = soon; held.Part.Output() == "" {
				met[object{held.Part, held.Row.Table, held.Row.Key}], pause = true, 0
			}
		}
		if err := sleep(ctx, pause); err != nil {
			return v, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Settled reports whether everything that the parts below a table have at the call is done. It waits at most until ctx ends.
func (p *Parts) Settled(ctx context.Context, table string) bool {
	readers, why := p.readers(table)
	for _, one := range readers {
		if one.Uncertain(ctx) != "" || !one.Settled(ctx) || one.Output() != "" && !p.Settled(ctx, one.Output()) {
			return false
		}
	}
	return why == ""
}
