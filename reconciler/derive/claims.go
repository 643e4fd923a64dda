// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import (
	"cmp"
	"slices"
)

// claims has which input row wants which places of the output, and which of them wins. It is plain
// data: it has no lock and reads no table. A change has two parts: plan calls the functions of the
// program and changes nothing, apply changes the claims and calls nothing of the program.
type claims[In, Out any] struct {
	// compare orders the input rows that want one place, the best first; nil if none is better. Then
	// the lower input key wins, as it does among equal rows.
	compare func(a, b In) int
	inputs  map[string]*input[In, Out]
	places  map[string]*place[In, Out]

	// The plan, whose memory is used again.
	change planned[In, Out]
}

// input is an input row with at least one claim.
type input[In, Out any] struct {
	key string
	// row is the version that was derived last without an error.
	row    In
	claims []*claim[In, Out]
}

// claim is the wish of an input for a place.
type claim[In, Out any] struct {
	of *input[In, Out]
	at *place[In, Out]
	// row is the output row if this claim wins.
	row Out
	// pos is the position in the heap of the place.
	pos int
}

// place is a primary key of the output.
type place[In, Out any] struct {
	key string
	// heap has the claims; the first is the winner. A place without claims stays until its row has been
	// deleted from the output.
	heap []*claim[In, Out]
	// last is the row of the last claim, while there is none.
	last Out
	// dirty: the place is in the list of places that are written next.
	dirty bool
	// unordered: compare panicked when a claim was removed, so the heap has no order. The next change of
	// the place sorts it.
	unordered bool
}

// wanted is an output row with its key.
type wanted[Out any] struct {
	key string
	row Out
}

// planned is a change of one input.
type planned[In, Out any] struct {
	key   string
	row   In
	wants []wanted[Out]
	// kept has the claim that the input already has, for each of wants; nil if it has none.
	kept  []*claim[In, Out]
	steps []step[In, Out]
	moves []move[In, Out]
}

// step is the change of one place: moves[from:to] are the new positions of its claims.
type step[In, Out any] struct {
	at *place[In, Out]
	// removed is the claim that goes, nil if none does. added is the index in wants of a new claim, -1 if
	// there is none. Its claim is made by apply: it is nil in the moves.
	removed  *claim[In, Out]
	added    int
	from, to int
	// unordered: the moves were made without compare.
	unordered bool
}

type move[In, Out any] struct {
	pos   int
	claim *claim[In, Out]
}

func newClaims[In, Out any](compare func(a, b In) int) claims[In, Out] {
	return claims[In, Out]{
		compare: compare, inputs: map[string]*input[In, Out]{}, places: map[string]*place[In, Out]{},
	}
}

// winner returns the first claim; nil if there is none.
func (p *place[In, Out]) winner() *claim[In, Out] {
	if len(p.heap) == 0 {
		return nil
	}
	return p.heap[0]
}

// plan plans that an input wants these places and no others. Their keys must differ. It may panic in
// compare.
func (c *claims[In, Out]) plan(key string, row In, wants []wanted[Out]) {
	c.begin(key, row, wants)
	p := &c.change
	in := c.inputs[key]
	find := c.finder(in, len(wants))
	for i, w := range wants {
		old := find(w.key)
		p.kept = append(p.kept, old)
		at := c.places[w.key]
		switch {
		case at != nil && at.unordered:
			c.planSorted(at, nil, i, old)
		case old == nil:
			c.planInsert(at, i)
		case c.compare != nil:
			c.planUpdate(old)
		}
	}
	if in == nil {
		return
	}
	isKept := c.isKept()
	for _, old := range in.claims {
		if isKept(old) {
			continue
		}
		if old.at.unordered {
			c.planSorted(old.at, old, -1, nil)
		} else {
			c.planRemove(old)
		}
	}
}

// planWithout plans that an input wants nothing, without a call of compare.
func (c *claims[In, Out]) planWithout(key string) {
	var none In
	c.begin(key, none, nil)
	if in := c.inputs[key]; in != nil {
		for _, old := range in.claims {
			p := &c.change
			from := len(p.moves)
			if last := old.at.heap[len(old.at.heap)-1]; last != old {
				p.moves = append(p.moves, move[In, Out]{old.pos, last})
			}
			p.steps = append(p.steps, step[In, Out]{
				at: old.at, removed: old, added: -1, from: from, to: len(p.moves), unordered: len(old.at.heap) > 2,
			})
		}
	}
}

func (c *claims[In, Out]) begin(key string, row In, wants []wanted[Out]) {
	p := &c.change
	clear(p.steps)
	clear(p.moves)
	clear(p.kept)
	*p = planned[In, Out]{
		key: key, row: row, wants: wants, kept: p.kept[:0], steps: p.steps[:0], moves: p.moves[:0],
	}
}

// finder returns a function that finds the claim of an input on a place.
func (c *claims[In, Out]) finder(in *input[In, Out], lookups int) func(key string) *claim[In, Out] {
	if in == nil {
		return func(string) *claim[In, Out] { return nil }
	}
	if len(in.claims) <= few || lookups <= 1 {
		return func(key string) *claim[In, Out] {
			for _, old := range in.claims {
				if old.at.key == key {
					return old
				}
			}
			return nil
		}
	}
	byKey := make(map[string]*claim[In, Out], len(in.claims))
	for _, old := range in.claims {
		byKey[old.at.key] = old
	}
	return func(key string) *claim[In, Out] { return byKey[key] }
}

// few is the number of claims up to which a search is faster than a map.
const few = 16

// isKept returns a function that reports whether the changed input keeps a claim.
func (c *claims[In, Out]) isKept() func(*claim[In, Out]) bool {
	kept := c.change.kept
	if len(kept) <= few {
		return func(x *claim[In, Out]) bool { return slices.Contains(kept, x) }
	}
	set := make(map[*claim[In, Out]]bool, len(kept))
	for _, x := range kept {
		set[x] = true
	}
	return func(x *claim[In, Out]) bool { return set[x] }
}

// less reports whether the first row is better than the second.
func (c *claims[In, Out]) less(a In, aKey string, b In, bKey string) bool {
	if c.compare != nil {
		if order := c.compare(a, b); order != 0 {
			return order < 0
		}
	}
	return aKey < bKey
}

func (c *claims[In, Out]) lessClaims(a, b *claim[In, Out]) bool {
	return c.less(a.of.row, a.of.key, b.of.row, b.of.key)
}

// planInsert plans a new claim of the changed input. at is nil if there is no such place.
func (c *claims[In, Out]) planInsert(at *place[In, Out], want int) {
	p := &c.change
	from := len(p.moves)
	if at == nil {
		p.moves = append(p.moves, move[In, Out]{})
	} else {
		c.siftUp(at.heap, len(at.heap), nil, p.row, p.key)
	}
	p.steps = append(p.steps, step[In, Out]{at: at, added: want, from: from, to: len(p.moves)})
}

// planUpdate plans the new position of a claim whose input changed.
func (c *claims[In, Out]) planUpdate(old *claim[In, Out]) {
	p := &c.change
	from := len(p.moves)
	c.sift(old.at.heap, old.pos, old, p.row, p.key)
	p.steps = append(p.steps, step[In, Out]{at: old.at, added: -1, from: from, to: len(p.moves)})
}

// planRemove plans the heap without a claim.
func (c *claims[In, Out]) planRemove(old *claim[In, Out]) {
	p := &c.change
	from := len(p.moves)
	heap := old.at.heap
	if last := heap[len(heap)-1]; last != old {
		c.sift(heap[:len(heap)-1], old.pos, last, last.of.row, last.of.key)
	}
	p.steps = append(p.steps, step[In, Out]{at: old.at, removed: old, added: -1, from: from, to: len(p.moves)})
}

// planSorted plans all positions of a place that is unordered. kept is the changed input's claim; nil
// if it gets a new one, want, or removed goes.
func (c *claims[In, Out]) planSorted(at *place[In, Out], removed *claim[In, Out], want int, kept *claim[In, Out]) {
	p := &c.change
	all := slices.DeleteFunc(slices.Clone(at.heap), func(x *claim[In, Out]) bool { return x == removed })
	added := -1
	if removed == nil && kept == nil {
		added = want
		all = append(all, nil)
	}
	of := func(x *claim[In, Out]) (In, string) {
		if x == kept || x == nil {
			return p.row, p.key
		}
		return x.of.row, x.of.key
	}
	slices.SortFunc(all, func(a, b *claim[In, Out]) int {
		aRow, aKey := of(a)
		bRow, bKey := of(b)
		if c.compare != nil {
			if order := c.compare(aRow, bRow); order != 0 {
				return order
			}
		}
		return cmp.Compare(aKey, bKey)
	})
	from := len(p.moves)
	for pos, x := range all {
		p.moves = append(p.moves, move[In, Out]{pos, x})
	}
	p.steps = append(p.steps, step[In, Out]{at: at, removed: removed, added: added, from: from, to: len(p.moves)})
}

// sift plans that a claim with this row comes to pos of a heap, or to its place above or below.
func (c *claims[In, Out]) sift(heap []*claim[In, Out], pos int, x *claim[In, Out], row In, key string) {
	if pos > 0 && c.isBelow(heap, pos, row, key) {
		c.siftUp(heap, pos, x, row, key)
		return
	}
	p := &c.change
	for {
		child := 2*pos + 1
		if child >= len(heap) {
			break
		}
		if child+1 < len(heap) && c.lessClaims(heap[child+1], heap[child]) {
			child++
		}
		if !c.less(heap[child].of.row, heap[child].of.key, row, key) {
			break
		}
		p.moves = append(p.moves, move[In, Out]{pos, heap[child]})
		pos = child
	}
	p.moves = append(p.moves, move[In, Out]{pos, x})
}

// isBelow reports whether the row is better than the one above pos.
func (c *claims[In, Out]) isBelow(heap []*claim[In, Out], pos int, row In, key string) bool {
	above := heap[(pos-1)/2]
	return c.less(row, key, above.of.row, above.of.key)
}

func (c *claims[In, Out]) siftUp(heap []*claim[In, Out], pos int, x *claim[In, Out], row In, key string) {
	p := &c.change
	for pos > 0 && c.isBelow(heap, pos, row, key) {
		p.moves = append(p.moves, move[In, Out]{pos, heap[(pos-1)/2]})
		pos = (pos - 1) / 2
	}
	p.moves = append(p.moves, move[In, Out]{pos, x})
}

// apply makes the planned change, and appends the places to dirty that may have to be written and are
// not in it.
func (c *claims[In, Out]) apply(dirty []*place[In, Out]) []*place[In, Out] {
	p := &c.change
	touch := func(at *place[In, Out]) {
		if !at.dirty {
			at.dirty = true
			dirty = append(dirty, at)
		}
	}
	in := c.inputs[p.key]
	if in == nil && len(p.wants) > 0 {
		in = &input[In, Out]{key: p.key}
		c.inputs[p.key] = in
	}
	if in == nil {
		return dirty
	}
	in.row = p.row
	for i, w := range p.wants {
		if kept := p.kept[i]; kept != nil {
			kept.row = w.row
			if kept.pos == 0 {
				touch(kept.at)
			}
		}
	}
	for i := range p.steps {
		s := &p.steps[i]
		before := (*claim[In, Out])(nil)
		if s.at != nil {
			before = s.at.winner()
		}
		c.applyStep(in, s)
		// Without compare, a second claim is an error of the place.
		if c.compare == nil || s.at.winner() != before || s.at.unordered {
			touch(s.at)
		}
	}
	in.claims = mine(in, p)
	if len(in.claims) == 0 {
		delete(c.inputs, in.key)
	}
	return dirty
}

// applyStep changes one place.
func (c *claims[In, Out]) applyStep(in *input[In, Out], s *step[In, Out]) {
	p := &c.change
	var added *claim[In, Out]
	if s.added >= 0 {
		w := p.wants[s.added]
		if s.at == nil {
			s.at = &place[In, Out]{key: w.key}
			c.places[w.key] = s.at
		}
		added = &claim[In, Out]{of: in, at: s.at, row: w.row}
		p.kept[s.added] = added
		s.at.heap = append(s.at.heap, added)
	}
	for _, m := range p.moves[s.from:s.to] {
		x := m.claim
		if x == nil {
			x = added
		}
		s.at.heap[m.pos], x.pos = x, m.pos
	}
	if s.removed != nil {
		last := len(s.at.heap) - 1
		s.at.heap[last] = nil
		s.at.heap = s.at.heap[:last]
		var none Out
		if s.at.last = none; last == 0 {
			s.at.last = s.removed.row
		}
	}
	s.at.unordered = s.unordered
}

// mine returns the claims of an input after a change: p.kept, in memory of its own.
func mine[In, Out any](in *input[In, Out], p *planned[In, Out]) []*claim[In, Out] {
	if slices.Equal(in.claims, p.kept) {
		return in.claims
	}
	return slices.Clone(p.kept)
}

// forget removes a place that has no claims.
func (c *claims[In, Out]) forget(at *place[In, Out]) {
	if len(at.heap) == 0 && c.places[at.key] == at {
		delete(c.places, at.key)
	}
}

// ranked has the first claims of a place.
type ranked[In any] struct {
	key string
	row In
}

// maxRanked bounds the claims that an explanation names: the winner and ten others.
const maxRanked = 11

// top copies the part of a heap that has the best maxRanked claims: its first maxRanked levels.
func (p *place[In, Out]) top() []ranked[In] {
	heap := p.heap[:min(len(p.heap), 1<<maxRanked-1)]
	out := make([]ranked[In], len(heap))
	for i, x := range heap {
		out[i] = ranked[In]{x.of.key, x.of.row}
	}
	return out
}
