// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// call is one operation on the target.
type call struct {
	op       string // "update", "delete", "prune" or "list"
	id       uint64
	value    int
	revision statedb.Revision
	refresh  bool
	err      error
	at       time.Time
	batch    int // number of the batch call, 0 for single operations
}

func (c call) String() string {
	s := fmt.Sprintf("%s(%d)", c.op, c.id)
	if c.refresh {
		s = fmt.Sprintf("refresh(%d)", c.id)
	}
	if c.err != nil && failed(c.err) {
		s += " fail"
	}
	return s
}

// target is a fake target. It records its content and every call. plan decides the outcome of a
// call; a nil plan lets every call succeed.
type target struct {
	mu      sync.Mutex
	state   map[uint64]int
	history []call
	plan    func(c call) error
	before  func(ctx context.Context, c call)
	mutate  func(o *object)
	batches int
	running map[uint64]bool
	pruning bool
	overlap bool // two operations on one object, or a prune and another
	most    int  // most operations at one time
	late    bool // a call started after the stop
	pruned  []uint64
}

func newTarget() *target { return &target{state: map[uint64]int{}, running: map[uint64]bool{}} }

// failing makes every call fail with the text; an empty text makes all calls succeed.
func (x *target) failing(text string) {
	if text == "" {
		x.deciding(nil)
		return
	}
	x.deciding(func(call) error { return errors.New(text) })
}

// deciding makes f decide the outcome of every call.
func (x *target) deciding(f func(call) error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.plan = f
}

func (x *target) do(ctx context.Context, c call) error {
	x.mu.Lock()
	x.begin(c)
	plan, before := x.plan, x.before
	c.at = time.Now()
	x.mu.Unlock()
	// A panic must not leave the lock or the marks of begin behind.
	defer func() {
		if r := recover(); r != nil {
			x.mu.Lock()
			x.end(c)
			c.err = fmt.Errorf("panic: %v", r)
			x.history = append(x.history, c)
			x.mu.Unlock()
			panic(r)
		}
	}()

	if before != nil {
		before(ctx, c)
	}
	if plan != nil {
		c.err = plan(c)
	}

	x.mu.Lock()
	defer x.mu.Unlock()
	x.end(c)
	x.history = append(x.history, c)
	if c.err == nil || !failed(c.err) {
		switch c.op {
		case "update":
			x.state[c.id] = c.value
		case "delete":
			delete(x.state, c.id)
		}
	}
	return c.err
}

func (x *target) begin(c call) {
	switch c.op {
	case "prune":
		x.overlap = x.overlap || len(x.running) > 0
		x.pruning = true
	case "list":
	default:
		x.overlap = x.overlap || x.pruning || x.running[c.id]
		x.running[c.id] = true
		x.most = max(x.most, len(x.running))
	}
}

func (x *target) end(c call) {
	switch c.op {
	case "prune":
		x.pruning = false
	case "list":
	default:
		delete(x.running, c.id)
	}
}

// starts records whether a call, single or batch, starts after the stop.
func (x *target) starts(ctx context.Context) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.late = x.late || ctx.Err() != nil
}

// failed reports whether the error of an operation means that it was not done.
func failed(err error) bool { return !strings.HasPrefix(err.Error(), "requeued") }

func (x *target) Update(ctx context.Context, _ statedb.ReadTxn, rev statedb.Revision, o *object) error {
	x.starts(ctx)
	err := x.do(ctx, call{
		op: "update", id: o.ID, value: o.Value, revision: rev,
		refresh: o.Status.Kind == reconciler.StatusKindRefreshing,
	})
	if x.mutate != nil {
		x.mutate(o)
	}
	return err
}

func (x *target) Delete(ctx context.Context, _ statedb.ReadTxn, rev statedb.Revision, o *object) error {
	x.starts(ctx)
	return x.do(ctx, call{op: "delete", id: o.ID, revision: rev})
}

func (x *target) Prune(ctx context.Context, _ statedb.ReadTxn, objects iter.Seq2[*object, statedb.Revision]) error {
	x.starts(ctx)
	wanted := map[uint64]bool{}
	for o := range objects {
		wanted[o.ID] = true
	}
	if err := x.do(ctx, call{op: "prune", id: uint64(len(wanted))}); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for id := range x.state {
		if !wanted[id] {
			delete(x.state, id)
			x.pruned = append(x.pruned, id)
		}
	}
	return nil
}

// calls returns the history so far in short form, and clears it.
func (x *target) calls() []string {
	var out []string
	for _, c := range x.take() {
		out = append(out, c.String())
	}
	return out
}

// take returns the history so far and clears it.
func (x *target) take() []call {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := x.history
	x.history = nil
	return h
}

// holds returns a copy of the target's content.
func (x *target) holds() map[uint64]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.state)
}

// batchTarget is a target with batch operations.
type batchTarget struct{ *target }

func (b batchTarget) next(ctx context.Context) int {
	b.starts(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.batches++
	return b.batches
}

func (b batchTarget) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	number := b.next(ctx)
	for i, e := range batch {
		batch[i].Result = b.do(ctx, call{
			op: "update", id: e.Object.ID, value: e.Object.Value, revision: e.Revision, batch: number,
			refresh: e.Object.Status.Kind == reconciler.StatusKindRefreshing,
		})
	}
}

func (b batchTarget) DeleteBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	number := b.next(ctx)
	for i, e := range batch {
		batch[i].Result = b.do(ctx, call{op: "delete", id: e.Object.ID, revision: e.Revision, batch: number})
	}
}

// roundTarget is a target with round operations. It runs a round in the order of the revisions.
type roundTarget struct{ *target }

func (r roundTarget) ProcessRound(ctx context.Context, _ statedb.ReadTxn, deletes, updates []reconciler.BatchEntry[*object]) {
	r.starts(ctx)
	r.mu.Lock()
	r.batches++
	number := r.batches
	r.mu.Unlock()
	var todo []func()
	revisions := map[int]statedb.Revision{}
	add := func(op string, e *reconciler.BatchEntry[*object]) {
		revisions[len(todo)] = e.Revision
		todo = append(todo, func() {
			e.Result = r.do(ctx, call{op: op, id: e.Object.ID, value: e.Object.Value, revision: e.Revision, batch: number})
		})
	}
	for i := range deletes {
		add("delete", &deletes[i])
	}
	for i := range updates {
		add("update", &updates[i])
	}
	for _, i := range slices.SortedFunc(maps.Keys(revisions), func(a, b int) int {
		return int(revisions[a]) - int(revisions[b])
	}) {
		todo[i]()
	}
}
