// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/hive/cell"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/metrics"
)

// Inspector is a reconciler to those who look at it without knowing the type of its
// objects: commands, pages, collectors. [Loop] implements it. Objects are known by the
// text of their key, as [Explanation].Key has it. All methods are safe from any goroutine;
// those that only tell do not wait for an operation for longer than 100 ms.
type Inspector interface {
	// ID says which reconciler it is.
	ID() ID

	// Explain says why an object is, or is not, reconciled.
	Explain(ctx context.Context, key string) Explanation
	// Snapshot says how the reconciler does as a whole.
	Snapshot(ctx context.Context) Snapshot
	// Objects lists objects, a page at a time.
	Objects(ctx context.Context, q ObjectQuery) ObjectPage
	// Keys returns the texts of up to limit keys that begin with a prefix, for those who
	// complete what a person types. It may miss some of a large table.
	Keys(prefix string, limit int) []string
	// Events returns what the journal has of operations.
	Events(q EventQuery) []Event
	// Journal returns the latest rounds.
	Journal() []Round
	// Timeline returns how the reconciler stood in the last minutes.
	Timeline() []Sample

	metrics.Source

	// WaitAll is [Loop.Wait] for all that is in the table now.
	WaitAll(ctx context.Context, m Milestone) (Owed, error)
	// WaitKey is [Loop.WaitFor] for one object, which need not exist any more.
	WaitKey(ctx context.Context, key string, m Milestone) (Owed, error)

	// Retry makes what waits for a retry, a requeue, a release or a change be due now,
	// objects that failed for good among them: those with the given keys, or all, if
	// there are none. It returns how many that were.
	Retry(ctx context.Context, keys ...string) (int, error)
	// Refresh marks objects that are Done for a refresh: those with the given keys, or
	// all, if there are none. It returns how many that were; all are marked in time, and
	// not counted.
	Refresh(ctx context.Context, keys ...string) (int, error)
	// Prune asks for a prune now.
	Prune()
	// ApproveSweep lets one sweep delete beyond its budget, now. It returns false, and does
	// nothing, if the last sweep did not stop at its budget.
	ApproveSweep() bool
	// Pause and Resume are for the reconciler as a whole. PauseKeys and ResumeKeys are for
	// single objects; Resume ends these pauses, too.
	Pause()
	Resume()
	PauseKeys(keys ...string) (int, error)
	ResumeKeys(keys ...string) (int, error)
}

// ID names a reconciler.
type ID struct {
	// Module and Name are those of [Config].ModuleID and [WithName]; either may be empty.
	Module string `json:"module"`
	Name   string `json:"name"`
	// Table is the name of the table that it reconciles.
	Table string `json:"table"`
}

// String returns the module and the name, which metrics know the reconciler by; the table,
// if both are empty.
func (id ID) String() string {
	switch {
	case id.Module == "" && id.Name == "":
		return id.Table
	case id.Name == "":
		return id.Module
	case id.Module == "":
		return id.Name
	}
	return id.Module + "/" + id.Name
}

// called returns what logs and errors call the reconciler: its name, or else what [ID.String]
// returns.
func (id ID) called() string {
	if id.Name != "" {
		return id.Name
	}
	return id.String()
}

// Registry knows the reconcilers of a program that are running. The zero value is empty and
// ready for use. Its methods are safe from any goroutine.
type Registry struct {
	mu  sync.Mutex
	all []Inspector
}

// Cell provides a [Registry], for reconcilers to be made [WithRegistry] of it, and for those
// who look at them.
var Cell = cell.Module("reconciler", "Registry of the reconcilers", cell.Provide(func() *Registry { return &Registry{} }))

// Add adds a reconciler, as [WithRegistry] does when that begins to run. One that is there
// already is not added again. A reconciler that stops leaves; [Registry.Remove] is for one that
// never ran.
func (r *Registry) Add(i Inspector) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.all, i) {
		r.all = append(r.all, i)
	}
}

// Remove takes a reconciler out. One that is not there is no error.
func (r *Registry) Remove(i Inspector) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := slices.Index(r.all, i); at >= 0 {
		r.all = slices.Delete(r.all, at, at+1)
	}
}

// WithRegistry adds the reconciler to a registry, where commands and pages find it, for as long
// as it runs. nil, the default, means none. Reconcilers of one table in a registry find out
// whether they share a status field: at the first row that it reads each sets a status on a clone,
// and calls the GetStatus of the others with that. Those that do are Degraded while both run.
func WithRegistry(r *Registry) Option {
	return func(o *options) { o.registry = r }
}

// All returns the reconcilers in the order of their names.
func (r *Registry) All() []Inspector {
	r.mu.Lock()
	all := slices.Clone(r.all)
	r.mu.Unlock()
	slices.SortStableFunc(all, func(a, b Inspector) int {
		return cmp.Or(cmp.Compare(a.ID().String(), b.ID().String()), cmp.Compare(a.ID().Table, b.ID().Table))
	})
	return all
}

// Find returns the reconciler that a person means by a text: [ID.String], or the name or
// the table alone if there is only one of it. The error is [ErrNoReconciler] or names those
// that may be meant.
func (r *Registry) Find(text string) (Inspector, error) {
	var exact, loose []Inspector
	all := r.All()
	for _, i := range all {
		switch id := i.ID(); text {
		case id.String():
			exact = append(exact, i)
		case id.Name, id.Table:
			loose = append(loose, i)
		}
	}
	found := exact
	if len(found) == 0 {
		found = loose
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("%w %q, there are: %s", ErrNoReconciler, text, names(all))
	}
	return nil, fmt.Errorf("%q may mean any of several reconcilers: %s", text, names(found))
}

// ErrNoReconciler is that there is none with a name.
var ErrNoReconciler = errors.New("no reconciler")

func names(all []Inspector) string {
	if len(all) == 0 {
		return "none"
	}
	called := make([]string, len(all))
	for i, one := range all {
		called[i] = text.Plain(one.ID().String())
	}
	return strings.Join(called, ", ")
}
