// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/example/internal/recheck"
	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/reconciler"
)

// watcher has what other programs change in the kernel repaired at once.
type watcher struct {
	target Target
	// doubt notes that a service was changed.
	doubt     func(kernel.Service)
	db        *statedb.DB
	frontends statedb.Table[*Frontend]
	loop      *reconciler.Loop[*Frontend]
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
	looks := recheck.New[*Frontend](w.loop)
	var done sync.WaitGroup
	defer done.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done.Go(func() { looks.Run(ctx) })
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
		w.look(looks, c)
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
}

// look asks for looks at the frontends of changed slots. A slot that none of them has is left to a resync.
func (w *watcher) look(looks *recheck.Queue[*Frontend], c kernel.Changes) {
	if c.More {
		looks.Resync()
		return
	}
	txn := w.db.ReadTxn()
	for _, slot := range c.Slots {
		if f, _, found := w.frontends.Get(txn, ByAddress(slot.Service)); found && slot.Number < len(f.Endpoints) {
			w.doubt(slot.Service)
			looks.Verify(f)
		} else {
			looks.Resync()
		}
	}
}
