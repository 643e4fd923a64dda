// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest

import (
	"context"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/reconciler"
)

// Call is one call of an operation of a [Target].
type Call[Obj any] struct {
	// Op is "update", "refresh", "delete" or "prune". A refresh is an update of an object whose
	// status is Refreshing.
	Op string
	// Key is the key of the object; empty for a prune.
	Key string
	// Object is the object that the operation was called with, the zero value for a prune. Its status
	// is changed by the reconciler after the operation has returned.
	Object Obj
	// Revision is the revision of the object or of its deletion, 0 for a prune.
	Revision statedb.Revision
	// At is when the call began.
	At time.Time
	// Err is what the operation returned; nil while it runs.
	Err error
}

// String returns the operation and the key, such as "update(motd)", and the error if it failed:
// "update(motd): disk full".
func (c Call[Obj]) String() string {
	s := c.Op + "(" + c.Key + ")"
	if !applied(c.Err) {
		s += ": " + c.Err.Error()
	}
	return s
}

// Target is a fake target. Its operations store the objects that they are called with, record the
// calls, and return the errors that the test plans. Safe from any goroutine.
type Target[Obj any] struct {
	key       func(Obj) string
	getStatus func(Obj) reconciler.Status

	mu      sync.Mutex
	objects map[string]Obj
	calls   []Call[Obj]
	planned map[string][]error // by key
	decide  func(ctx context.Context, c Call[Obj]) error
}

// NewTarget returns an empty target. key returns the key of an object as text, getStatus is the
// GetStatus of the reconciler's configuration. It is nil if the rows carry no status: then no update
// is recorded as a refresh.
func NewTarget[Obj any](key func(Obj) string, getStatus func(Obj) reconciler.Status) *Target[Obj] {
	return &Target[Obj]{key: key, getStatus: getStatus, objects: map[string]Obj{}, planned: map[string][]error{}}
}

// Fail plans the results of the next calls for a key, one error for each call; nil means success.
// They come after those that were planned for the key before. The empty key plans prunes.
func (x *Target[Obj]) Fail(key string, errs ...error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.planned[key] = append(x.planned[key], errs...)
}

// Decide sets the function that decides the result of each call for which nothing is planned; nil,
// the default, means success. The operation calls it with its context; it may block. A call in which
// it panics is not recorded.
func (x *Target[Obj]) Decide(decide func(ctx context.Context, c Call[Obj]) error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.decide = decide
}

// Objects returns a copy of what the target holds, by key.
func (x *Target[Obj]) Objects() map[string]Obj {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.objects)
}

// Take returns the calls that have ended since the last Take, in the order in which they ended.
func (x *Target[Obj]) Take() []Call[Obj] {
	x.mu.Lock()
	defer x.mu.Unlock()
	calls := x.calls
	x.calls = nil
	return calls
}

// Calls returns the calls of [Target.Take] as texts.
func (x *Target[Obj]) Calls() []string {
	var texts []string
	for _, c := range x.Take() {
		texts = append(texts, c.String())
	}
	return texts
}

// Update implements [reconciler.ObjectOperations].
func (x *Target[Obj]) Update(ctx context.Context, _ statedb.ReadTxn, revision statedb.Revision, obj Obj) error {
	op := "update"
	if x.getStatus != nil && x.getStatus(obj).Kind == reconciler.StatusKindRefreshing {
		op = "refresh"
	}
	key := x.key(obj)
	return x.do(ctx, Call[Obj]{Op: op, Key: key, Object: obj, Revision: revision}, func() { x.objects[key] = obj })
}

// Delete implements [reconciler.ObjectOperations].
func (x *Target[Obj]) Delete(ctx context.Context, _ statedb.ReadTxn, revision statedb.Revision, obj Obj) error {
	key := x.key(obj)
	return x.do(ctx, Call[Obj]{Op: "delete", Key: key, Object: obj, Revision: revision}, func() { delete(x.objects, key) })
}

// Prune implements [reconciler.ObjectOperations].
func (x *Target[Obj]) Prune(ctx context.Context, _ statedb.ReadTxn, objects iter.Seq2[Obj, statedb.Revision]) error {
	wanted := map[string]bool{}
	for obj := range objects {
		wanted[x.key(obj)] = true
	}
	return x.do(ctx, Call[Obj]{Op: "prune"}, func() {
		maps.DeleteFunc(x.objects, func(key string, _ Obj) bool { return !wanted[key] })
	})
}

// do carries out a call; change changes the objects if it succeeds.
func (x *Target[Obj]) do(ctx context.Context, c Call[Obj], change func()) error {
	c.At = time.Now()
	c.Err = x.next(ctx, c)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls = append(x.calls, c)
	if applied(c.Err) {
		change()
	}
	return c.Err
}

// next decides the result of a call.
func (x *Target[Obj]) next(ctx context.Context, c Call[Obj]) error {
	x.mu.Lock()
	if planned := x.planned[c.Key]; len(planned) > 0 {
		x.planned[c.Key] = planned[1:]
		x.mu.Unlock()
		return planned[0]
	}
	decide := x.decide
	x.mu.Unlock()
	if decide == nil {
		return nil
	}
	return decide(ctx, c)
}

// applied reports whether the error of an operation means that it was carried out.
func applied(err error) bool {
	if err == nil {
		return true
	}
	next := outcome.Of(err)
	return next != nil && next.Kind == core.DoneAgain
}
