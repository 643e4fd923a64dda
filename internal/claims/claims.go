// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package claims has which input row of a derivation wants which places of its output, and which of them wins. It is
// plain data: it has no lock, reads no table, and calls no function of the program.
package claims

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/cilium/statedb/index"
)

// Set has the claims. It is not safe for concurrent use.
type Set[In, Out any] struct {
	Inputs map[string]*Input[In, Out]
	Places map[string]*Place[In, Out]
	// Dirty are the places that may have to be written.
	Dirty []*Place[In, Out]
	// old is memory of Put, empty between two calls: what the input wanted before, by the key of the place.
	old map[string]*Claim[In, Out]
}

// Input is an input row with at least one claim.
type Input[In, Out any] struct {
	Key string
	// Row is the version that was derived last without an error.
	Row In
	// rank is that of row; nil if no row is better than another.
	rank   Rank
	Claims []*Claim[In, Out]
}

// Claim is the wish of an input for a place.
type Claim[In, Out any] struct {
	Of *Input[In, Out]
	At *Place[In, Out]
	// Row is the output row if this claim wins.
	Row Out
	// pos is the position in the heap of the place.
	pos int
}

// Wins reports whether the claim is the best one of its place.
func (c *Claim[In, Out]) Wins() bool { return c.pos == 0 }

// Place is a primary key of the output.
type Place[In, Out any] struct {
	Key string
	// Heap has the claims; the first is the winner. A place without claims is there until the output has no
	// such row.
	Heap claimHeap[In, Out]
	// dirty: the place is in Set.Dirty.
	dirty bool
}

// Rank is the rank of an input row. All rows of a derivation have ranks of one type.
type Rank interface {
	// compare returns a negative number if the receiver is better.
	compare(other Rank) int
}

// ordered is a rank of which the lower value is better.
type ordered[Value cmp.Ordered] struct{ value Value }

func (a ordered[Value]) compare(b Rank) int { return cmp.Compare(a.value, b.(ordered[Value]).value) }

// By returns a rank of which the lower value is better.
func By[Value cmp.Ordered](value Value) Rank { return ordered[Value]{value} }

// compare returns a negative number if a is better than b: by the rank, then by the lower key.
func compare[In, Out any](a, b *Claim[In, Out]) int {
	order := 0
	if a.Of.rank != nil {
		order = a.Of.rank.compare(b.Of.rank)
	}
	return cmp.Or(order, cmp.Compare(a.Of.Key, b.Of.Key))
}

// claimHeap is a heap of package container/heap, whose claims know their positions.
type claimHeap[In, Out any] []*Claim[In, Out]

func (h claimHeap[In, Out]) Len() int           { return len(h) }
func (h claimHeap[In, Out]) Less(i, j int) bool { return compare(h[i], h[j]) < 0 }
func (h claimHeap[In, Out]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

func (h *claimHeap[In, Out]) Push(x any) {
	added := x.(*Claim[In, Out])
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

// Wanted is an output row with its key.
type Wanted[Out any] struct {
	Key string
	Row Out
}

func New[In, Out any]() Set[In, Out] {
	return Set[In, Out]{
		Inputs: map[string]*Input[In, Out]{}, Places: map[string]*Place[In, Out]{}, old: map[string]*Claim[In, Out]{},
	}
}

// Put takes over a new version of an input: what it wants, and nothing else. The keys of wants must differ.
func (c *Set[In, Out]) Put(key string, row In, rank Rank, wants []Wanted[Out]) {
	in := c.Inputs[key]
	if in == nil {
		in = &Input[In, Out]{Key: key}
		c.Inputs[key] = in
	}
	in.Row, in.rank = row, rank
	before := in.Claims
	for _, x := range before {
		c.old[x.At.Key] = x
	}
	in.Claims = make([]*Claim[In, Out], len(wants))
	for i, w := range wants {
		x := c.old[w.Key]
		if x != nil {
			delete(c.old, w.Key)
			heap.Fix(&x.At.Heap, x.pos)
		} else {
			x = &Claim[In, Out]{Of: in, At: c.Place(w.Key)}
			heap.Push(&x.At.Heap, x)
		}
		x.Row, in.Claims[i] = w.Row, x
		c.Touch(x.At)
	}
	for _, x := range before {
		if c.old[x.At.Key] != nil {
			delete(c.old, x.At.Key)
			heap.Remove(&x.At.Heap, x.pos)
			c.Touch(x.At)
		}
	}
	if len(wants) == 0 {
		delete(c.Inputs, key)
	}
}

// Of returns the claims of the input with a key; none if there is no such input.
func (c *Set[In, Out]) Of(key string) []*Claim[In, Out] {
	if in := c.Inputs[key]; in != nil {
		return in.Claims
	}
	return nil
}

// Named returns the first place that has one of these keys; nil if there is none.
func (c *Set[In, Out]) Named(keys []index.Key) *Place[In, Out] {
	for _, key := range keys {
		if at := c.Places[string(key)]; at != nil {
			return at
		}
	}
	return nil
}

// Place returns the place with a key, which it adds if there is none.
func (c *Set[In, Out]) Place(key string) *Place[In, Out] {
	at := c.Places[key]
	if at == nil {
		at = &Place[In, Out]{Key: key}
		c.Places[key] = at
	}
	return at
}

// Touch has a place compared with the output.
func (c *Set[In, Out]) Touch(at *Place[In, Out]) {
	if !at.dirty {
		at.dirty = true
		c.Dirty = append(c.Dirty, at)
	}
}

// Next takes the first dirty place from the list.
func (c *Set[In, Out]) Next() *Place[In, Out] {
	at := c.Dirty[0]
	at.dirty = false
	if c.Dirty = c.Dirty[1:]; len(c.Dirty) == 0 {
		c.Dirty = nil // release its memory
	}
	return at
}

// Sort puts the places whose row is written before those whose row is deleted.
func (c *Set[In, Out]) Sort() {
	order := func(at *Place[In, Out]) int { return min(len(at.Heap), 1) }
	slices.SortStableFunc(c.Dirty, func(a, b *Place[In, Out]) int { return order(b) - order(a) })
}

// First returns the n best claims in their order: they are in the first n levels of the heap. n must be
// small.
func (p *Place[In, Out]) First(n int) []*Claim[In, Out] {
	best := slices.Clone(p.Heap[:min(len(p.Heap), 1<<n-1)])
	slices.SortFunc(best, compare)
	return best[:min(len(best), n)]
}
