// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/statekeel/statekeel/internal/health"
	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Bound bounds the deletions of one call. If Rows and Fraction are set, both bounds hold.
type Bound struct {
	// Rows is how many rows a call may delete. Zero is no such bound.
	Rows int
	// Fraction is which part of the rows of the source a call may delete, from 0 to 1. Zero is no such bound.
	Fraction float64
	// Min is how many rows a call may delete whatever Fraction is, for sources with few rows: two of three rows are more
	// than half. It must not be above Rows, if that is set. Zero means one.
	Min int
}

// exceeds reports whether a call may not delete n of a number of rows, which it gets from count.
func (b Bound) exceeds(n int, count func() int) bool {
	return n > max(b.Min, 1) && (b.Rows > 0 && n > b.Rows || b.Fraction > 0 && float64(n) > b.Fraction*float64(count()))
}

func (b Bound) validate() error {
	var errs []error
	if b.Rows < 0 {
		errs = append(errs, fmt.Errorf("Config.MaxDeletions.Rows is %d, must not be negative", b.Rows))
	}
	if f := b.Fraction; !(f >= 0 && f <= 1) {
		errs = append(errs, fmt.Errorf("Config.MaxDeletions.Fraction is %v, must be from 0 to 1", f))
	}
	if b.Min < 0 {
		errs = append(errs, fmt.Errorf("Config.MaxDeletions.Min is %d, must not be negative", b.Min))
	}
	if b.Rows > 0 && b.Min > b.Rows {
		errs = append(errs, fmt.Errorf("Config.MaxDeletions.Min is %d, must not be above Rows, %d", b.Min, b.Rows))
	}
	return errors.Join(errs...)
}

// heldSet are deletions that are held. It does not change.
type heldSet[Obj any] struct {
	steps map[string]step[Obj]
	// of is the number of rows of the source when the deletions were held first, and since when that was.
	of    int
	since time.Time
	// set names exactly these keys. examples are the names of the first ones.
	set      string
	examples []string
}

// holdDeletions keeps the deletions of a call back if they are too many. It adds them to those that are held.
func (c *call[Obj]) holdDeletions() {
	n := 0
	for i := range c.steps {
		if c.steps[i].deleted {
			n++
		}
	}
	if !c.cfg.MaxDeletions.exceeds(n, func() int { return c.count(c.snapshot) }) {
		return
	}
	next := &heldSet[Obj]{steps: map[string]step[Obj]{}, of: c.count(c.snapshot), since: time.Now()}
	if c.hold != nil {
		next.of, next.since = c.hold.of, c.hold.since
		maps.Copy(next.steps, c.hold.steps)
	}
	var rest []step[Obj]
	for _, s := range c.steps {
		if !s.deleted {
			rest = append(rest, s)
			continue
		}
		// When it is approved, it is no error if another source has taken the row.
		s.unlisted = true
		next.steps[s.key] = s
	}
	next.describe(c)
	c.steps, c.held, c.hold = rest, n, next
	if known := c.Sink.hold; known != nil && known.set == next.set {
		c.hold = known
	}
}

// describe sets the name and the examples of a set.
func (h *heldSet[Obj]) describe(c *call[Obj]) {
	hash := sha256.New()
	for i, key := range slices.Sorted(maps.Keys(h.steps)) {
		fmt.Fprintf(hash, "%d %s", len(key), key)
		if i < health.MaxExamples {
			h.examples = append(h.examples, c.name(h.steps[key].obj))
		}
	}
	h.set = hex.EncodeToString(hash.Sum(nil)[:6])
}

// without returns the set without the keys of a call; nil if none is left.
func (h *heldSet[Obj]) without(c *call[Obj], keys map[string]int) *heldSet[Obj] {
	isHeld := func(key string) bool { _, is := h.steps[key]; return is }
	if h == nil || !slices.ContainsFunc(slices.Collect(maps.Keys(keys)), isHeld) {
		return h
	}
	rest := &heldSet[Obj]{steps: maps.Clone(h.steps), of: h.of, since: h.since}
	for key := range keys {
		delete(rest.steps, key)
	}
	if len(rest.steps) == 0 {
		return nil
	}
	rest.describe(c)
	return rest
}

// text describes the set, and how to approve it. input is the name of the source in the registry.
func (h *heldSet[Obj]) text(input string) string {
	return fmt.Sprintf("%d of %d rows are not in the source any more, such as %s: they stay until the source has them "+
		"again, or somebody approves their deletion: reconciler/approve %s %s",
		len(h.steps), h.of, text.Printable(strings.Join(h.examples[:min(3, len(h.examples))], ", ")), text.Plain(input), h.set)
}

func (h *heldSet[Obj]) err(input string) error { return fmt.Errorf("%w: %s", ErrHeld, h.text(input)) }

// Approve deletes the rows that are held, if they are still exactly the set with this name, as [Sink.Snapshot] shows
// it. changed is the number of rows that were deleted. It is an error if nothing is held, or another set. Otherwise
// it is as [Sink.Clear]; after an error of ctx the rest is held.
func (s *Sink[Obj]) Approve(ctx context.Context, set string) (changed int, err error) {
	return s.call(ctx, 0, true, func(c *call[Obj]) error {
		switch {
		case c.hold == nil:
			return errors.New("no deletions are held, there is nothing to approve")
		case c.hold.set != set:
			return fmt.Errorf("the deletions that are held are not %s: %s", text.Plain(set), c.hold.text(s.Input()))
		}
		c.at, c.allowEmpty = s.upTo, true
		c.rejected = rejections{byKey: maps.Clone(s.rejected.byKey), unnamed: s.rejected.unnamed}
		for _, key := range slices.Sorted(maps.Keys(c.hold.steps)) {
			c.plan(c.hold.steps[key])
		}
		c.log.Warn("deletions approved", "number", len(c.hold.steps), "set", set)
		c.hold = nil
		return nil
	})
}

// Problem is something that a source itself rejects, such as a file that does not parse.
type Problem struct {
	// Err says what is wrong, and where: it is shown as it is.
	Err error
	// Keys are the primary keys of objects that it concerns, as [Sink.KeyOf] returns them; may be empty. Explain of
	// such an object shows Err.
	Keys []string
}

// Report tells what the source itself rejects now, in place of what it told last. Health and Explain show it, and
// <table>-inputs counts it with the rejected objects, and has the first one. Report keeps problems.
func (s *Sink[Obj]) Report(problems ...Problem) {
	wtxn := s.cfg.DB.WriteTxn(s.inputs.Meta())
	defer wtxn.Abort()
	s.mu.Lock()
	if !s.ended {
		s.reported = problems
		s.inputs.Update(wtxn, s.cfg.Name, func(row *inputs.Input) { s.writeProblems(row, s.rejected, s.hold) })
	}
	s.mu.Unlock()
	wtxn.Commit()
	s.tell()
}

// writeProblems sets what is wrong in the row of the source, unless it is there. The caller holds mu.
func (s *Sink[Obj]) writeProblems(row *inputs.Input, rejected rejections, held *heldSet[Obj]) {
	row.Rejected, row.Held = rejected.num()+len(s.reported), 0
	p := inputs.Problems{Of: map[string]string{}}
	add := func(said string, keys ...string) {
		if len(p.First) < health.MaxExamples {
			p.First = append(p.First, said)
		}
		for _, key := range keys {
			p.Of[key] = said
		}
	}
	if held != nil {
		row.Held = len(held.steps)
		add(held.text(s.Input()), slices.Collect(maps.Keys(held.steps))...)
	}
	for _, problem := range s.reported {
		add(text.Printable(causeOf(problem.Err)), problem.Keys...)
	}
	for _, key := range slices.Sorted(maps.Keys(rejected.byKey)) {
		add(text.Printable(causeOf(rejected.byKey[key])), key)
	}
	row.SetProblems(p)
}

// Snapshot returns the state of the source for commands and the page: see [inspect.Source].
func (s *Sink[Obj]) Snapshot() inspect.SourceSnapshot {
	state := s.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	row, _ := s.inputs.Get(s.cfg.DB.ReadTxn(), s.cfg.Name)
	x := inspect.SourceSnapshot{
		Name: s.Input(), Table: s.cfg.Table.Name(), Connected: state.Connected, Since: state.Since, LastEvent: state.LastEvent,
		Error: text.Printable(causeOf(state.Err)), Input: state.Input, Output: uint64(state.Output), Rows: state.Rows,
		Rejected: state.Rejected, Problems: row.Problems().First, Running: state.Running,
	}
	if h := s.hold; h != nil {
		x.Held = &inspect.HeldDeletions{Set: h.set, Rows: len(h.steps), Of: h.of, Since: h.since, Examples: h.examples}
	}
	return x
}
