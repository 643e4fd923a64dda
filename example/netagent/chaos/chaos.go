// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package chaos makes a target go wrong at random, so that one can watch it converge
// all the same, and tests can ask that it does.
//
// Operations fail before they did anything, and after they did it all; some panic, and
// some come late. What goes wrong is settled by a seed, the object and how often it was
// its turn, and by nothing else: whatever the order in which objects come, the same seed
// makes for the same mishaps.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/reconciler"
)

// Chaos decides what goes wrong. It is safe for concurrent use.
type Chaos struct {
	percent float64
	seed    uint64

	// calls counts the operations by what they were on. It keeps what is gone, which
	// for an experiment is no harm.
	mu    sync.Mutex
	calls map[string]uint64
}

// New returns a Chaos by which so many of a hundred operations go wrong: none at 0, all
// at 100.
func New(percent float64, seed uint64) *Chaos {
	return &Chaos{percent: percent, seed: seed, calls: make(map[string]uint64)}
}

// Target returns a target that does what t does, except when it goes wrong. What it
// observes is right.
func (c *Chaos) Target(t desired.Target) desired.Target {
	t.Links = wrap(c, "link", t.Links)
	t.Addresses = wrap(c, "address", t.Addresses)
	t.Routes = wrap(c, "route", t.Routes)
	t.Sysctls = wrap(c, "sysctl", t.Sysctls)
	return t
}

// mishap is what goes wrong with an operation.
type mishap int

const (
	none mishap = iota
	// before: it fails, and nothing was done.
	before
	// after: it fails, and all was done.
	after
	// late: it is right, after a while.
	late
	// panics: it panics, and all was done.
	panics
)

// mishaps is how often each comes among twenty; panics are rare, as each comes with a
// stack in the log.
var mishaps = [20]mishap{
	before, before, before, before, before, before, before, before,
	after, after, after, after, after, after, after, after,
	late, late, late,
	panics,
}

// maxDelay is how long an operation that is late takes at most.
const maxDelay = 100 * time.Millisecond

// errBefore and errAfter are what operations fail with.
var (
	errBefore = errors.New("chaos: failed, and did nothing")
	errAfter  = errors.New("chaos: failed, and did it all")
)

// decide returns what goes wrong with the next operation on what has this name, and how
// late it is if that is what.
func (c *Chaos) decide(name string) (mishap, time.Duration) {
	c.mu.Lock()
	c.calls[name]++
	call := c.calls[name]
	c.mu.Unlock()

	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // which never fails
	random := rand.New(rand.NewPCG(c.seed^hash.Sum64(), call))
	if random.Float64()*100 >= c.percent {
		return none, 0
	}
	return mishaps[random.IntN(len(mishaps))], time.Duration(random.Int64N(int64(maxDelay)))
}

// do does an operation, unless it goes wrong.
func (c *Chaos) do(ctx context.Context, name string, operation func() error) error {
	what, delay := c.decide(name)
	switch what {
	case before:
		return errBefore
	case late:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(delay):
		}
	}
	if err := operation(); err != nil {
		return err
	}
	switch what {
	case after:
		return errAfter
	case panics:
		panic(fmt.Sprintf("chaos: panics at %s, and did it all", name))
	}
	return nil
}

// operations are others that go wrong.
type operations[S desired.Spec] struct {
	chaos  *Chaos
	kind   string
	target reconciler.Operations[*desired.Row[S]]
}

func wrap[S desired.Spec](c *Chaos, kind string, target reconciler.Operations[*desired.Row[S]]) reconciler.Operations[*desired.Row[S]] {
	return &operations[S]{c, kind, target}
}

func (o *operations[S]) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, row *desired.Row[S]) error {
	return o.chaos.do(ctx, "update "+o.kind+" "+row.Spec.Key(), func() error { return o.target.Update(ctx, txn, revision, row) })
}

func (o *operations[S]) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, row *desired.Row[S]) error {
	return o.chaos.do(ctx, "delete "+o.kind+" "+row.Spec.Key(), func() error { return o.target.Delete(ctx, txn, revision, row) })
}

func (o *operations[S]) Prune(ctx context.Context, txn statedb.ReadTxn, rows iter.Seq2[*desired.Row[S], statedb.Revision]) error {
	return o.chaos.do(ctx, "prune "+o.kind, func() error { return o.target.Prune(ctx, txn, rows) })
}
