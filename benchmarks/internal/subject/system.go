// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"time"
)

// Kind is how far a row is, in words no contender has to itself.
type Kind uint8

// The kinds of rows a workload tells apart.
const (
	// Waiting is a row not reconciled yet, or not by all of its reconcilers.
	Waiting Kind = iota
	// Done is a row that all of its reconcilers reported done.
	Done
	// Failed is a row that at least one reconciler reported failed.
	Failed
	// Blocked is a row whose operation named what it waits for: see [BlockedOn]. One that
	// several reconcilers share is Waiting.
	Blocked
)

// String returns the kind as an error message shows it.
func (k Kind) String() string {
	switch k {
	case Done:
		return "Done"
	case Failed:
		return "Error"
	case Blocked:
		return "Blocked"
	default:
		return "Pending"
	}
}

// Options is what a workload asks of a contender. The zero value asks for the contender's
// own defaults, single operations and one reconciler.
type Options struct {
	// Batch asks for batch operations; the floor has no operations and ignores it.
	Batch bool
	// Reconcilers is how many reconcilers share each row, each with its own target and its
	// own status in a status set. 0 is one reconciler on a plain status, without a set.
	Reconcilers int
	// RetryMin and RetryMax bound the backoff of failed rows; both 0 means the default.
	RetryMin, RetryMax time.Duration
	// RefreshEvery is the refresh interval, with no limit on the rate; 0 means the default.
	RefreshEvery time.Duration
	// Prepare is called with the target before the contender starts, for rules that hold from
	// the first call on. nil is no such rule. Only a plain status has it.
	Prepare func(*Target)
	// DoneRows is how many rows, 0 ... DoneRows-1, are in the table before the contender starts,
	// all done since DoneSince, without a call. 0 is an empty table. Only rows with a plain
	// status can be there.
	DoneRows  uint64
	DoneSince time.Time
	// Timeout is the deadline of each operation, and MaxStuck how many that ignore it are left
	// behind; MaxStuck needs a Timeout. 0 is no deadline. Only Statekeel has them; the others
	// wait for every operation.
	Timeout  time.Duration
	MaxStuck int
	// WriteWork is called before each row is inserted or removed, while the writer holds the
	// table: what a program does to work out the row. Its error fails the write. nil is no
	// work. Rows with annotations, those of [StatekeelStateful] and [StatekeelResources], have
	// none.
	WriteWork func(id uint64) error
}

// System is a table in a running hive and a contender that reconciles it.
// Methods may be called from any goroutine; none after Stop.
type System interface {
	// Insert writes rows first, first+1, ... first+n-1 as pending, in one transaction.
	// A row that is there already is replaced.
	Insert(first, n uint64) error
	// Remove deletes rows first ... first+n-1 in one transaction.
	Remove(first, n uint64) error
	// Await waits, by watch channel, until row id is of that kind, or until ctx ends; the
	// error then says how the row stands.
	Await(ctx context.Context, id uint64, kind Kind) error
	// AwaitAll is Await for every row now in the table. It returns how many of them it
	// had to wait for.
	AwaitAll(ctx context.Context, kind Kind) (waited uint64, err error)
	// Count returns the number of rows of each kind.
	Count() map[Kind]uint64
	// Oldest returns when the status that was not touched for the longest time was
	// written; the zero time for an empty table.
	Oldest() time.Time
	// Targets returns one target for each reconciler, in the order of their names.
	Targets() []*Target
	// Workers returns how many operations of a reconciler may run at a time.
	Workers() int
	// View returns what is mounted to look at the contender; nil if nothing is.
	View() *View
	// Stop stops the hive and waits for the contender to end.
	Stop(ctx context.Context) error
}
