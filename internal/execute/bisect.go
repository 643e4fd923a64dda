// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/statekeel/statekeel/internal/outcome"
)

// Bisect carries out a batch on a target that applies a batch entirely or not at all, such as an nft
// or SQL transaction. An entry that the target refuses then does not keep the other entries from
// being applied. UpdateBatch or DeleteBatch calls it with its batch. Bisect sets the Result of each
// entry. An entry that already has a Result, such as that of a missing dependency, keeps it and is not applied;
// Bisect moves these entries behind the others.
//
// apply applies all of the given entries or none, and returns why it refused them. Entries that its error
// blames fail, and apply is called with the others. If it blames none of several entries, Bisect applies
// each half, in the order of the entries, until every bad entry is alone. For n entries of which b are bad,
// this takes at most about 2*b*log2(n) + 1 calls. A bad entry fails with the error that apply returned for
// it alone, or that blamed it, which may be a terminal error or any other outcome.
//
// alive is called after each failed call, and returns an error if the target itself is down. Then Bisect
// stops, and all entries that were not applied fail with that error. If alive is nil, Bisect assumes
// that the target is up.
//
// When ctx ends, which it does at the timeout of the batch, the entries that were not applied fail
// with its cause and the text of the last refusal. The next attempt starts with all of these entries
// again, so a timeout that is too short for the calls lets one bad entry hold up the others.
func Bisect[Obj any](ctx context.Context, batch []BatchEntry[Obj], apply func(entries []BatchEntry[Obj]) error, alive func() error) {
	// Entries with a result are not applied: they go behind the others.
	todo, rest := batch[:0], []BatchEntry[Obj](nil)
	for _, e := range batch {
		if e.Result == nil {
			todo = append(todo, e)
		} else {
			rest = append(rest, e)
		}
	}
	copy(batch[len(todo):], rest)
	b := bisection[Obj]{ctx: ctx, apply: apply, alive: alive}
	if len(todo) > 0 {
		b.do(todo, false)
	}
}

type bisection[Obj any] struct {
	ctx   context.Context
	apply func([]BatchEntry[Obj]) error
	alive func() error
	// over is the error that ended the bisection; nil while it goes on.
	over error
	// refused is the error of the last refused call, nil if there is none. entries is the number of
	// its entries.
	refused error
	entries int
}

// do applies entries, then halves of those that are refused, and reports whether any was refused. If
// refuses is true, it starts with the halves: all the other entries of the refused call were applied,
// so these are known to be refused as a whole.
func (b *bisection[Obj]) do(entries []BatchEntry[Obj], refuses bool) (refused bool) {
	if len(entries) == 1 || !refuses {
		err := b.try(entries)
		if err == nil || b.over != nil {
			for i := range entries {
				entries[i].Result = err
			}
			return err != nil
		}
		switch good := blamed(entries, err); {
		case len(good) == 0:
			return true
		case len(good) < len(entries):
			b.do(good, false)
			return true
		case len(entries) == 1:
			entries[0].Result = err
			return true
		}
	}
	half := len(entries) / 2
	firstRefused := b.do(entries[:half], false)
	secondRefused := b.do(entries[half:], !firstRefused)
	return firstRefused || secondRefused
}

// try applies entries once. If that fails, it asks alive whether the target is down. The error is over, once the
// bisection has ended.
func (b *bisection[Obj]) try(entries []BatchEntry[Obj]) error {
	if b.over == nil {
		b.over = context.Cause(b.ctx)
		if b.over != nil && b.refused != nil {
			// The refusal is added as text only: an outcome in it is for the bad entry, not for
			// these.
			b.over = fmt.Errorf("%w: the target had refused %d of the batch: %v", b.over, b.entries, b.refused)
		}
	}
	if b.over != nil {
		return b.over
	}
	// Clip: if apply appends to its slice, it must not overwrite the entries behind it.
	err := b.apply(slices.Clip(entries))
	if err == nil {
		return nil
	}
	b.refused, b.entries = err, len(entries)
	if b.alive != nil {
		b.over = b.alive()
	}
	return cmp.Or(b.over, err)
}

// blame is an error that names the entries of a call of Bisect that it is about.
type blame struct {
	error
	places []int
}

func (b *blame) Unwrap() error { return b.error }

// Blame returns an error about the entries at some places of a call; nil if err is nil.
func Blame(err error, places ...int) error {
	if err == nil {
		return nil
	}
	return &blame{error: err, places: places}
}

// blamed sets the results of the entries that an error blames, moves them behind the others, and returns the
// others, in their order.
func blamed[Obj any](entries []BatchEntry[Obj], err error) (good []BatchEntry[Obj]) {
	c := culprits{errs: map[int]error{}, nodes: 1000 + 10*len(entries)}
	c.note(err, err, nil)
	var bad []BatchEntry[Obj]
	good = entries[:0]
	for i, e := range entries {
		if e.Result = c.errs[i]; e.Result != nil {
			bad = append(bad, e)
		} else {
			good = append(good, e)
		}
	}
	copy(entries[len(good):], bad)
	return good
}

// culprits are the errors of the entries that an error blames, by their places. nodes is the number of errors
// that may still be visited: an error may wrap itself.
type culprits struct {
	errs  map[int]error
	nodes int
}

// note adds what err blames. The outermost blame counts, and of joined ones the first. An entry fails with whole:
// with what wraps its blame, up to where that is joined with others. outer is the outcome that wraps err; nil if
// there is none.
func (c *culprits) note(err, whole error, outer *outcome.Directive) {
	c.nodes--
	if err == nil || c.nodes < 0 {
		return
	}
	switch err := err.(type) {
	case *blame:
		for _, place := range err.places {
			if c.errs[place] == nil {
				c.errs[place] = whole
			}
		}
		return
	case *outcome.Directive:
		outer = cmp.Or(outer, err)
	}
	parts := outcome.Unwrapped(err)
	for _, part := range parts {
		if len(parts) == 1 {
			c.note(part, whole, outer)
		} else {
			c.note(part, outer.With(part), outer)
		}
	}
}
