// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"context"
	"fmt"
	"slices"
)

// Bisect carries out a batch on a target that takes all of it or nothing, such as an nft
// transaction or one of SQL: an entry that the target refuses does not keep the others from being
// applied. It is called in an UpdateBatch or DeleteBatch with the batch, and sets the Result of each
// entry.
//
// apply applies entries, all or none, and returns why it did not. When it refuses more than one,
// Bisect applies halves of them, in their order, until each bad entry is found alone: with n
// entries of which b are bad that takes at most about 2·b·log2(n) + 1 calls, and what is good is
// applied in as few calls as that finds out. alive returns an error if the target itself is down;
// it is called after a call that failed, and then all entries that were not applied fail with that
// error, at once. It may be nil: then no failure is the target's. When ctx ends, which is when the
// timeout of the batch is over, they fail with its cause and the last refusal, and the next attempt
// starts with all of them again: a timeout that is too short for these calls lets one bad entry hold up
// the others. An entry of which apply said what comes next, as [TerminalError] does, has that as its outcome once it is alone.
func Bisect[Obj any](ctx context.Context, batch []BatchEntry[Obj], apply func(entries []BatchEntry[Obj]) error, alive func() error) {
	b := bisection[Obj]{ctx: ctx, apply: apply, alive: alive}
	if len(batch) > 0 {
		b.do(batch, false)
	}
}

type bisection[Obj any] struct {
	ctx   context.Context
	apply func([]BatchEntry[Obj]) error
	alive func() error
	// over is why nothing else is tried.
	over error
	// refused is why a call was refused last, nil if none was, and entries how many it had.
	refused error
	entries int
}

// do applies entries, and halves of those that are refused. refuses: they are known to be refused
// as a whole, since others of what was refused were not. It reports whether any was refused.
func (b *bisection[Obj]) do(entries []BatchEntry[Obj], refuses bool) (refused bool) {
	if len(entries) == 1 || !refuses {
		err := b.try(entries)
		switch {
		case err == nil:
			set(entries, nil)
			return false
		case b.over != nil:
			set(entries, b.over)
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

// try applies entries once, and finds out whether the target is down if that fails.
func (b *bisection[Obj]) try(entries []BatchEntry[Obj]) error {
	if b.over == nil {
		b.over = context.Cause(b.ctx)
		if b.over != nil && b.refused != nil {
			// Without what the refusal says comes next: that is for the entry that is to blame.
			b.over = fmt.Errorf("%w: the target had refused %d of the batch: %v", b.over, b.entries, b.refused)
		}
	}
	if b.over != nil {
		return b.over
	}
	// A function that appends to its entries is not to overwrite those behind them.
	err := b.apply(slices.Clip(entries))
	if err == nil {
		return nil
	}
	if b.alive != nil {
		b.over = b.alive()
	}
	b.refused, b.entries = err, len(entries)
	return err
}

func set[Obj any](entries []BatchEntry[Obj], err error) {
	for i := range entries {
		entries[i].Result = err
	}
}
