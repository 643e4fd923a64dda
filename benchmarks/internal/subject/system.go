// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"time"
)

// Kind is the state of a row, in words that belong to no contender.
type Kind uint8

// The kinds of rows that a workload distinguishes.
const (
	// Waiting is a row not reconciled yet, or not by all of its reconcilers.
	Waiting Kind = iota
	// Done is a row that all of its reconcilers reported done.
	Done
	// Failed is a row that at least one reconciler reported failed.
	Failed
	// Blocked is a row whose operation named what it waits for: see [BlockedOn]. A row that several
	// reconcilers share is Waiting instead.
	Blocked
)

// String returns the name of the kind for error messages.
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

// Options are the settings that a workload needs of a contender. The zero value means the contender's
// defaults, single operations and one reconciler.
type Options struct {
	// Batch selects batch operations; the floor has no operations and ignores it.
	Batch bool
	// Reconcilers is the number of reconcilers that share each row, each with its own target and its own
	// status in a status set. 0 is one reconciler on a plain status, without a set.
	Reconcilers int
	// RetryMin and RetryMax bound the backoff of failed rows; both 0 means the default.
	RetryMin, RetryMax time.Duration
	// RefreshEvery is the refresh interval, with no limit on the rate; 0 means the default.
	RefreshEvery time.Duration
	// Prepare is called with the target before the contender starts, to set rules for the first call. nil
	// sets none. It works only with one reconciler that is not in a set.
	Prepare func(*Target)
	// DoneRows is the number of rows, 0 ... DoneRows-1, in the table before the contender starts, all done
	// since DoneSince, without a call. 0 is an empty table. It works only with a plain status in the row.
	DoneRows  uint64
	DoneSince time.Time
	// Timeout is the deadline of each operation; 0 is none. Only Statekeel has it.
	Timeout time.Duration
	// WriteWork is called before each row is inserted or removed, while the writer holds the table: the work
	// of the program that computes the row. Its error fails the write. nil is no work. Rows with
	// annotations, those of [StatekeelStateful] and [StatekeelResources], ignore it.
	WriteWork func(id uint64) error
	// Listed is a target with rows; nil if it has none at first. The peer does not list it.
	Listed *Listing
}

// System is a table in a running hive and a contender that reconciles it.
// Methods may be called from any goroutine; none after Stop.
type System interface {
	// Insert writes rows first, first+1, ... first+n-1 as pending, in one transaction.
	// An existing row is replaced.
	Insert(first, n uint64) error
	// Remove deletes rows first ... first+n-1 in one transaction.
	Remove(first, n uint64) error
	// Await waits, by watch channel, until row id is of that kind, or until ctx ends. The error then names
	// the kind of the row.
	Await(ctx context.Context, id uint64, kind Kind) error
	// AwaitAll is Await for every row now in the table. It returns the number of rows that were not of that
	// kind at first.
	AwaitAll(ctx context.Context, kind Kind) (waited uint64, err error)
	// Count returns the number of rows of each kind.
	Count() map[Kind]uint64
	// Oldest returns the time of the oldest status; the zero time for an empty table, and for rows that
	// carry no status.
	Oldest() time.Time
	// Targets returns one target for each reconciler, in the order of their names.
	Targets() []*Target
	// Workers returns the number of operations of a reconciler that may run at a time.
	Workers() int
	// View returns what is mounted to observe the contender; nil if nothing is.
	View() *View
	// Stop stops the hive and waits for the contender to end.
	Stop(ctx context.Context) error
}
