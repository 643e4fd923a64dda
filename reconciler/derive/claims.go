// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/cilium/statedb/index"
)

// claims has which input row wants which places of the output, and which of them wins. It is plain
// data: it has no lock, reads no table, and calls no function of the program.
type claims[In, Out any] struct {
	inputs map[string]*input[In, Out]
	places map[string]*place[In, Out]
	// dirty are the places that may have to be written.
	dirty []*place[In, Out]
	// old is memory of set, empty between two calls: what the input wanted before, by the key of the place.
	old map[string]*claim[In, Out]
}

// input is an input row with at least one claim.
type input[In, Out any] struct {
	key string
	// row is the version that was derived last without an error.
	row In
	// rank is that of row; nil if no row is better than another.
	rank   rank
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
	// heap has the claims; the first is the winner. A place without claims is there until the output has no
	// such row.
	heap claimHeap[In, Out]
	// dirty: the place is in claims.dirty.
	dirty bool
}

// rank is the rank of an input row. All rows of a derivation have ranks of one type.
type rank interface {
	// compare returns a negative number if the receiver is better.
	compare(other rank) int
}

// ordered is a rank of which the lower value is better.
type ordered[Rank cmp.Ordered] struct{ value Rank }

func (a ordered[Rank]) compare(b rank) int { return cmp.Compare(a.value, b.(ordered[Rank]).value) }

// compare returns a negative number if a is better than b: by the rank, then by the lower key.
func compare[In, Out any](a, b *claim[In, Out]) int {
	order := 0
	if a.of.rank != nil {
		order = a.of.rank.compare(b.of.rank)
	}
	return cmp.Or(order, cmp.Compare(a.of.key, b.of.key))
}

// claimHeap is a heap of package container/heap, whose claims know their positions.
type claimHeap[In, Out any] []*claim[In, Out]

func (h claimHeap[In, Out]) Len() int           { return len(h) }
func (h claimHeap[In, Out]) Less(i, j int) bool { return compare(h[i], h[j]) < 0 }
func (h claimHeap[In, Out]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

func (h *claimHeap[In, Out]) Push(x any) {
	added := x.(*claim[In, Out])
	added.pos = len(*h)
	*h = append(*h, added)
}

func (h *claimHeap[In, Out]) Pop() any {
	last := len(*h) - 1
	removed := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return removed
}

// wanted is an output row with its key.
type wanted[Out any] struct {
	key string
	row Out
}

func newClaims[In, Out any]() claims[In, Out] {
	return claims[In, Out]{
		inputs: map[string]*input[In, Out]{}, places: map[string]*place[In, Out]{}, old: map[string]*claim[In, Out]{},
	}
}

// set takes over a new version of an input: what it wants, and nothing else. The keys of wants must differ.
func (c *claims[In, Out]) set(key string, row In, rank rank, wants []wanted[Out]) {
	in := c.inputs[key]
	if in == nil {
		in = &input[In, Out]{key: key}
		c.inputs[key] = in
	}
	in.row, in.rank = row, rank
	before := in.claims
	for _, x := range before {
		c.old[x.at.key] = x
	}
	in.claims = make([]*claim[In, Out], len(wants))
	for i, w := range wants {
		x := c.old[w.key]
		if x != nil {
			delete(c.old, w.key)
			heap.Fix(&x.at.heap, x.pos)
		} else {
			x = &claim[In, Out]{of: in, at: c.place(w.key)}
			heap.Push(&x.at.heap, x)
		}
		x.row, in.claims[i] = w.row, x
		c.touch(x.at)
	}
	for _, x := range before {
		if c.old[x.at.key] != nil {
			delete(c.old, x.at.key)
			heap.Remove(&x.at.heap, x.pos)
			c.touch(x.at)
		}
	}
	if len(wants) == 0 {
		delete(c.inputs, key)
	}
}

// of returns the claims of the input with a key; none if there is no such input.
func (c *claims[In, Out]) of(key string) []*claim[In, Out] {
	if in := c.inputs[key]; in != nil {
		return in.claims
	}
	return nil
}

// named returns the first place that has one of these keys; nil if there is none.
func (c *claims[In, Out]) named(keys []index.Key) *place[In, Out] {
	for _, key := range keys {
		if at := c.places[string(key)]; at != nil {
			return at
		}
	}
	return nil
}

// place returns the place with a key, which it adds if there is none.
func (c *claims[In, Out]) place(key string) *place[In, Out] {
	at := c.places[key]
	if at == nil {
		at = &place[In, Out]{key: key}
		c.places[key] = at
	}
	return at
}

// touch has a place compared with the output.
func (c *claims[In, Out]) touch(at *place[In, Out]) {
	if !at.dirty {
		at.dirty = true
		c.dirty = append(c.dirty, at)
	}
}

// next takes the first dirty place from the list.
func (c *claims[In, Out]) next() *place[In, Out] {
	at := c.dirty[0]
	at.dirty = false
	if c.dirty = c.dirty[1:]; len(c.dirty) == 0 {
		c.dirty = nil // release its memory
	}
	return at
}

// sort puts the places whose row is written before those whose row is deleted.
func (c *claims[In, Out]) sort() {
	order := func(at *place[In, Out]) int { return min(len(at.heap), 1) }
	slices.SortStableFunc(c.dirty, func(a, b *place[In, Out]) int { return order(b) - order(a) })
}

// first returns the n best claims in their order: they are in the first n levels of the heap. n must be
// small.
func (p *place[In, Out]) first(n int) []*claim[In, Out] {
	best := slices.Clone(p.heap[:min(len(p.heap), 1<<n-1)])
	slices.SortFunc(best, compare)
	return best[:min(len(best), n)]
}
