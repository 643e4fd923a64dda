// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"time"
)

// Kind is the state of a row, in words that belong to no contender.
type Kind uint8

// The kinds of rows that a benchmark distinguishes.
const (
	// Waiting is a row not reconciled yet, or not by all of its reconcilers.
	Waiting Kind = iota
	// Done is a row that all of its reconcilers reported done.
	Done
	// Failed is a row that at least one reconciler reported failed.
	Failed
)

// String returns the name of the kind for error messages.
func (k Kind) String() string {
	switch k {
	case Done:
		return "Done"
	case Failed:
		return "Error"
	default:
		return "Pending"
	}
}

// Options are the settings that a benchmark needs of a contender. The zero value means the contender's
// defaults and one reconciler. A contender ignores what it does not have.
type Options struct {
	// Reconcilers is the number of reconcilers that share each row, each with its own target and its own
	// status in a status set. 0 is one reconciler on a plain status, without a set.
	Reconcilers int
	// Unlimited lifts the limit on rounds per second, which only the peer has by default.
	Unlimited bool
	// RetryMin and RetryMax bound the backoff of failed rows; both 0 means the default.
	RetryMin, RetryMax time.Duration
	// RefreshEvery is the refresh interval, with no limit on the rate; 0 means the default.
	RefreshEvery time.Duration
	// Workers is the number of operations that run at a time; 0 is one. Only Statekeel has more.
	Workers int
	// BreakerFailures is the number of failures that open the breaker; 0 is no breaker. Only Statekeel has one.
	BreakerFailures int
	// Listed is a target with rows; nil if it has none at first. Only Statekeel lists it.
	Listed *Listing
	// WriteWork is called before each row is inserted or removed, while the writer holds the table: the work
	// of the program that computes the row. Its error fails the write. nil is no work.
	WriteWork func(id uint64) error
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
	// Targets returns one target for each reconciler, in the order of their names.
	Targets() []*Target
	// Stop stops the hive and waits for the contender to end.
	Stop(ctx context.Context) error
}
