// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
)

// object is a row that is reconciled; Note names its port. Other is the status of another
// reconciler.
type object struct {
	ID            uint64
	Note          string
	Status, Other reconciler.Status
}

func (o *object) Clone() *object                        { c := *o; return &c }
func (o *object) SetStatus(s reconciler.Status) *object { o.Status = s; return o }
func (o *object) GetStatus() reconciler.Status          { return o.Status }
func (o *object) SetOther(s reconciler.Status) *object  { o.Other = s; return o }

func (o *object) TableHeader() []string { return []string{"ID", "Status"} }
func (o *object) TableRow() []string {
	return []string{strconv.FormatUint(o.ID, 10), o.Status.String()}
}

var idIndex = statedb.Index[*object, uint64]{
	Name:       "id",
	FromObject: func(o *object) index.KeySet { return index.NewKeySet(index.Uint64(o.ID)) },
	FromKey:    index.Uint64,
	FromString: index.Uint64String,
	Unique:     true,
}

func ids(from, to uint64) []uint64 {
	var out []uint64
	for id := from; id <= to; id++ {
		out = append(out, id)
	}
	return out
}

// call is one operation that the target was asked for.
type call struct {
	op      string // "update" or "delete"
	id      uint64
	value   int
	refresh bool
	at      time.Time
}

func (c call) String() string {
	if c.refresh {
		return fmt.Sprintf("refresh(%d)", c.id)
	}
	return fmt.Sprintf("%s(%d)", c.op, c.id)
}

// noPort is the value held for an object whose port does not exist.
const noPort = -1

// target holds for each object the value that its port had when it was updated.
type target struct {
	ports  statedb.Table[*port] // none: every port is missing
	before func(ctx context.Context, c call)

	mu      sync.Mutex
	state   map[uint64]int
	history []call
	plan    func(c call) error
	running map[uint64]bool
	overlap bool // two operations ran on one object
}

func newTarget() *target { return &target{state: map[uint64]int{}, running: map[uint64]bool{}} }

// failing makes every call fail with the text.
func (x *target) failing(text string) { x.deciding(func(call) error { return errors.New(text) }) }

// deciding makes f decide the outcome of every call.
func (x *target) deciding(f func(call) error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.plan = f
}

func (x *target) do(ctx context.Context, c call) error {
	x.mu.Lock()
	x.overlap = x.overlap || x.running[c.id]
	x.running[c.id] = true
	plan := x.plan
	c.at = time.Now()
	x.mu.Unlock()

	if x.before != nil {
		x.before(ctx, c)
	}
	var err error
	if plan != nil {
		err = plan(c)
	}

	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.running, c.id)
	x.history = append(x.history, c)
	switch {
	case err != nil && !strings.HasPrefix(err.Error(), "requeued"):
	case c.op == "update":
		x.state[c.id] = c.value
	default:
		delete(x.state, c.id)
	}
	return err
}

func (x *target) Update(ctx context.Context, txn statedb.ReadTxn, _ statedb.Revision, o *object) error {
	value := noPort
	if x.ports != nil {
		if p, _, found := x.ports.Get(txn, portIndex.Query(o.Note)); found {
			value = p.Value
		}
	}
	return x.do(ctx, call{op: "update", id: o.ID, value: value, refresh: o.Status.Kind == reconciler.StatusKindRefreshing})
}

func (x *target) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, o *object) error {
	return x.do(ctx, call{op: "delete", id: o.ID})
}

func (x *target) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*object, statedb.Revision]) error {
	return nil
}

// calls returns the history so far in short form, and forgets it.
func (x *target) calls() []string {
	var out []string
	for _, c := range x.take() {
		out = append(out, c.String())
	}
	return out
}

// take returns the history so far and forgets it.
func (x *target) take() []call {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := x.history
	x.history = nil
	return h
}

// holds returns what the target has.
func (x *target) holds() map[uint64]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.state)
}

// health remembers what the trigger told it. Others get one of their own.
type health struct {
	mu      sync.Mutex
	level   cell.Level
	message string
	err     error
	told    []string
}

func (h *health) set(level cell.Level, message string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.level, h.message, h.err = level, message, err
	h.told = append(h.told, string(level)+" "+message)
}

func (h *health) OK(message string)                  { h.set(cell.StatusOK, message, nil) }
func (h *health) Stopped(message string)             { h.set(cell.StatusStopped, message, nil) }
func (h *health) Degraded(message string, err error) { h.set(cell.StatusDegraded, message, err) }
func (h *health) Close()                             {}

func (h *health) now() (cell.Level, string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.level, h.message, h.err
}

func (h *health) history() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.told)
}
