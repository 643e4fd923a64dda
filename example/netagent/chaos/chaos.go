// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package chaos makes operations of a target fail at random, so that users and tests can check that the
// reconcilers still converge.
//
// Operations fail before they do anything, or after they have done everything; some panic, and some are
// late. Only the seed, the object's name and the number of earlier operations on it decide what happens: the
// same seed gives the same mishaps in whatever order the objects come.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/desired"
)

// Chaos decides which operations go wrong. It is safe for concurrent use.
type Chaos struct {
	percent float64
	seed    uint64
	only    string

	// calls counts the operations by name. Names of deleted objects stay, which does no harm in an
	// experiment.
	mu    sync.Mutex
	calls map[string]uint64
}

// New returns a Chaos that makes a percentage of the operations go wrong: none at 0, all at 100. Only those whose names
// begin with only do, such as "list link" or "update route main/10.1.0.0/16".
func New(percent float64, seed uint64, only string) *Chaos {
	return &Chaos{percent: percent, seed: seed, only: only, calls: make(map[string]uint64)}
}

// Target returns a target that does what t does, with operations that go wrong. The links that it observes
// are always right.
func (c *Chaos) Target(t desired.Target) desired.Target {
	t.Links = wrap(c, "link", t.Links)
	t.Addresses = wrap(c, "address", t.Addresses)
	t.Routes = wrap(c, "route", t.Routes)
	t.Sysctls = wrap(c, "sysctl", t.Sysctls)
	return t
}

// mishap is the way in which an operation goes wrong.
type mishap int

const (
	none mishap = iota
	// before: it fails, and has done nothing.
	before
	// after: it fails, and has done everything.
	after
	// late: it succeeds, after a delay.
	late
	// panics: it panics, and has done everything.
	panics
)

// mishaps lists each mishap by its share of twenty. Panics are rare, since each logs a stack.
var mishaps = [20]mishap{
	before, before, before, before, before, before, before, before,
	after, after, after, after, after, after, after, after,
	late, late, late,
	panics,
}

// maxDelay is the longest delay of a late operation.
const maxDelay = 100 * time.Millisecond

// errBefore and errAfter are the errors of failed operations.
var (
	errBefore = errors.New("chaos: failed before the operation")
	errAfter  = errors.New("chaos: failed after the operation")
)

// decide returns the mishap of the next operation on the object of that name, and the delay if the mishap is
// late.
func (c *Chaos) decide(name string) (mishap, time.Duration) {
	if !strings.HasPrefix(name, c.only) {
		return none, 0
	}
	c.mu.Lock()
	c.calls[name]++
	call := c.calls[name]
	c.mu.Unlock()

	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // never fails
	random := rand.New(rand.NewPCG(c.seed^hash.Sum64(), call))
	if random.Float64()*100 >= c.percent {
		return none, 0
	}
	return mishaps[random.IntN(len(mishaps))], time.Duration(random.Int64N(int64(maxDelay)))
}

// do runs an operation, with its mishap if it has one.
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

// operations wraps operations with mishaps.
type operations[S desired.Spec] struct {
	chaos  *Chaos
	kind   string
	target desired.Operations[S]
}

func wrap[S desired.Spec](c *Chaos, kind string, target desired.Operations[S]) desired.Operations[S] {
	return &operations[S]{c, kind, target}
}

func (o *operations[S]) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, row *desired.Row[S]) error {
	return o.chaos.do(ctx, "update "+o.kind+" "+row.Spec.Key(), func() error { return o.target.Update(ctx, txn, revision, row) })
}

func (o *operations[S]) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, row *desired.Row[S]) error {
	return o.chaos.do(ctx, "delete "+o.kind+" "+row.Spec.Key(), func() error { return o.target.Delete(ctx, txn, revision, row) })
}

func (o *operations[S]) List(ctx context.Context, txn statedb.ReadTxn, yield func(*desired.Row[S]) bool) error {
	return o.chaos.do(ctx, "list "+o.kind, func() error { return o.target.List(ctx, txn, yield) })
}
