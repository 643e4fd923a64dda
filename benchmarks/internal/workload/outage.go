// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// errDown is the error of every failing call: one value, so that the error itself costs no time and no
// memory per row.
var errDown = errors.New("the target is down")

// outage makes a target fail for a while, and tracks which rows were tried meanwhile.
type outage struct {
	down  atomic.Bool
	tried []atomic.Bool

	// attempted counts the rows that were tried at least once during the outage.
	attempted subject.Counter
	// healed counts the calls that succeeded after it.
	healed subject.Counter
}

// breakTarget makes target fail for rows 0 ... n-1, until repair. Other rows succeed and are not counted.
func breakTarget(target *subject.Target, n uint64) *outage {
	o := &outage{tried: make([]atomic.Bool, n)}
	o.down.Store(true)
	target.SetRule(func(id uint64) error {
		if id >= n {
			return nil
		}
		if !o.down.Load() {
			o.healed.Add()
			return nil
		}
		if !o.tried[id].Swap(true) {
			o.attempted.Add()
		}
		return errDown
	})
	return o
}

func (o *outage) repair() { o.down.Store(false) }

// heal repairs the target and returns the time until all of its n rows were done.
func heal(ctx context.Context, sys subject.System, o *outage, n uint64) (time.Duration, error) {
	done := o.healed.Reached(n)
	begin := time.Now()
	o.repair()
	if err := wait(ctx, done, "every row to heal"); err != nil {
		return 0, err
	}
	if _, err := sys.AwaitAll(ctx, subject.Done); err != nil {
		return 0, err
	}
	return time.Since(begin), nil
}
