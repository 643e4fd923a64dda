// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// lowWater rows are always waiting: more than one round of any contender.
const lowWater = 10_000

// flood saturates a system with fresh rows, among them one victim that fails once.
//
// The backlog never becomes empty: a target that is too far ahead of the writer waits for it. So a contender
// is saturated on machines and with writers of any speed.
type flood struct {
	sys       subject.System
	highWater uint64 // rows waiting that make the writer pause, to bound the memory of a long run

	inserted atomic.Uint64 // rows committed
	handled  atomic.Uint64 // rows other than the victim that reached the target
	least    atomic.Uint64 // waiting rows, until the victim was retried
	stopping atomic.Bool

	failedAt atomic.Int64 // nanoseconds since epoch; 0: not yet
	epoch    time.Time
	failed   subject.Counter
	retried  subject.Counter
	waited   atomic.Int64 // nanoseconds from the failure to the retry

	writer  sync.WaitGroup
	writing error // of the writer; read after it ended
}

// victim is the number of the row that fails once: the first of the first transaction.
const victim = 0

func newFlood(sys subject.System, highWater uint64) *flood {
	f := &flood{sys: sys, highWater: max(highWater, 2*lowWater), epoch: time.Now()}
	f.least.Store(f.highWater)
	sys.Targets()[0].SetRule(f.handle)
	return f
}

// start commits a full backlog, the victim first, and continues to write in the background.
func (f *flood) start() error {
	f.inserted.Store(f.highWater)
	if err := f.sys.Insert(victim, f.highWater); err != nil {
		return err
	}
	f.writer.Go(func() { f.writing = f.write() })
	return nil
}

func (f *flood) write() error {
	for !f.stopping.Load() {
		if f.waiting() >= f.highWater {
			time.Sleep(100 * time.Microsecond)
			continue
		}
		if err := f.sys.Insert(f.inserted.Load(), writeBatch); err != nil {
			f.stopping.Store(true)
			return err
		}
		f.inserted.Add(writeBatch)
	}
	return nil
}

// waiting returns the number of rows that are committed and have not reached the target. The victim always
// counts as waiting.
func (f *flood) waiting() uint64 { return f.inserted.Load() - f.handled.Load() }

// handle is the target's rule.
func (f *flood) handle(id uint64) error {
	if id == victim {
		return f.handleVictim()
	}
	f.handled.Add(1)
	for !f.stopping.Load() && f.waiting() <= lowWater {
		time.Sleep(20 * time.Microsecond)
	}
	if !f.stopping.Load() && f.retried.Load() == 0 {
		f.note(f.waiting())
	}
	return nil
}

func (f *flood) note(waiting uint64) {
	for {
		least := f.least.Load()
		if waiting >= least || f.least.CompareAndSwap(least, waiting) {
			return
		}
	}
}

func (f *flood) handleVictim() error {
	at := int64(time.Since(f.epoch))
	if f.failedAt.CompareAndSwap(0, at) {
		f.failed.Add()
		return errDown
	}
	f.waited.CompareAndSwap(0, at-f.failedAt.Load())
	f.retried.Add()
	return nil
}

// awaitRetry returns how long after its failure the victim was retried, or the limit if it was not retried
// within it.
func (f *flood) awaitRetry(ctx context.Context, limit time.Duration) (waited time.Duration, retried bool, err error) {
	if err := wait(ctx, f.failed.Reached(1), "the victim to fail"); err != nil {
		return 0, false, err
	}
	select {
	case <-f.retried.Reached(1):
		return time.Duration(f.waited.Load()), true, nil
	case <-time.After(limit):
		return limit, false, nil
	case <-ctx.Done():
		return 0, false, context.Cause(ctx)
	}
}

// stop ends the writer and waits for it. It may be called again.
func (f *flood) stop() {
	f.stopping.Store(true)
	f.writer.Wait()
}

// err returns the error that stopped the writer before stop did.
func (f *flood) err() error { return f.writing }

// leastWaiting returns the smallest backlog seen until the retry or the stop.
func (f *flood) leastWaiting() uint64 { return f.least.Load() }
