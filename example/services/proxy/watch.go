// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/example/internal/recheck"
	"github.com/statekeel/statekeel/example/services/kernel"
)

// watcher has what other programs change in the kernel repaired at once.
type watcher struct {
	*operations
	db        *statedb.DB
	frontends statedb.Table[*Frontend]
	looks     *recheck.Queue[*Frontend]
	log       *slog.Logger
}

const (
	// watchPause is the time between two looks at what others have changed: what a script does is looked at together.
	watchPause = 20 * time.Millisecond
	// repairPause is the time between two repairs of chains, rules and sets, if another program undoes each. Without that,
	// the first ones begin at once.
	repairPause, firstRepairs = time.Second, 10
)

// run is a job.
func (w *watcher) run(ctx context.Context, health cell.Health) error {
	repairs := rate.NewLimiter(rate.Every(repairPause), firstRepairs)
	health.OK("repairs at once what others change")
	for {
		c, err := w.target.Changed(ctx)
		if err == nil && c.Rules {
			// Elements wait with the rules: their tables may be gone.
			err = repairs.Wait(ctx)
		}
		if ctx.Err() != nil {
			return nil
		} else if err != nil {
			return fmt.Errorf("what other programs change is repaired by resyncs only: %w", err)
		}
		if c.Rules {
			wrote, err := w.target.Repair()
			if err != nil || wrote {
				w.log.Warn("another program has changed the table, which is restored", "program", c.By, "error", err)
			}
			c.More = c.More || err != nil
		}
		w.look(c)
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
}

// look asks for looks at the frontends of changed slots. A slot that none of them has is left to a resync.
func (w *watcher) look(c kernel.Changes) {
	txn := w.db.ReadTxn()
	for _, slot := range c.Slots {
		if f, _, found := w.frontends.Get(txn, ByAddress(slot.Service)); found && slot.Number < len(f.Endpoints) {
			w.doubt(slot.Service)
			w.looks.Verify(f)
		} else {
			c.More = true
		}
	}
	if c.More {
		w.looks.Resync()
	}
}
