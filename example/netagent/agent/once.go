// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
)

// NotDone is returned by a [Run] with Options.Once when not all was Done at the timeout.
type NotDone struct {
	Timeout time.Duration

	// Why has a line for each object that is not Done, and for each other problem.
	Why []string
}

// Error lists what is not Done and why, one line for each object.
func (e *NotDone) Error() string {
	return fmt.Sprintf("not all is Done after %s:\n  %s", e.Timeout, strings.Join(e.Why, "\n  "))
}

var onceCell = cell.Module(
	"once",
	"Ends the agent when all is Done",

	cell.ProvidePrivate(job.Registry.NewGroup),
	cell.Invoke(func(jobs job.Group, o Options, now func() situation, shutdowner hive.Shutdowner, settled *settled) {
		if !o.Once {
			return
		}
		jobs.Add(job.OneShot("once", func(ctx context.Context, _ cell.Health) error {
			err := untilSettled(ctx, now, o.Timeout)
			settled.Store(err == nil)
			shutdowner.Shutdown(hive.ShutdownWithError(err))
			return nil
		}))
	}),
)

// settled reports, after the hive has stopped, whether all was Done.
type settled struct{ atomic.Bool }

// errStopped is returned by a run with Options.Once that is stopped before all is Done.
var errStopped = errors.New("stopped before all was Done")

// untilSettled returns nil when all is Done and healthy, and a NotDone after the timeout.
func untilSettled(ctx context.Context, look func() situation, timeout time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		now := look()
		switch {
		case now.isSettled():
			return nil
		case ctx.Err() != nil:
			return errStopped
		case limited.Err() != nil:
			if len(now.unsettled) == 0 {
				// Problems without an object: a deletion that fails, or a listing.
				now.unsettled = now.unhealthy
			}
			return &NotDone{Timeout: timeout, Why: now.unsettled}
		}
		set := statedb.NewWatchSet()
		set.Add(now.changed...)
		waited, stop := context.WithTimeout(limited, healthPoll)
		_, _ = set.Wait(waited, 0) // the error is that of the context
		stop()
	}
}

// healthPoll is the interval of health checks: health does not signal changes.
const healthPoll = 100 * time.Millisecond
