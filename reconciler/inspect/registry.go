// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/hive/cell"

	"github.com/statekeel/statekeel/internal/text"
)

// Registry knows the reconcilers of a program that are running. The zero value is empty and
// ready for use. Its methods are safe from any goroutine.
type Registry struct {
	mu  sync.Mutex
	all []Controller
}

// Cell provides a [Registry], for reconcilers to be made reconciler.WithRegistry of it, and for those
// who look at them.
var Cell = cell.Module("reconciler", "Registry of the reconcilers", cell.Provide(func() *Registry { return &Registry{} }))

// Add adds a reconciler, as reconciler.WithRegistry does when that begins to run. One that is there
// already is not added again. A reconciler that stops leaves; [Registry.Remove] is for one that
// never ran.
func (r *Registry) Add(i Controller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.all, i) {
		r.all = append(r.all, i)
	}
}

// Remove takes a reconciler out. One that is not there is no error.
func (r *Registry) Remove(i Controller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := slices.Index(r.all, i); at >= 0 {
		r.all = slices.Delete(r.all, at, at+1)
	}
}

// All returns the reconcilers in the order of their names.
func (r *Registry) All() []Controller {
	r.mu.Lock()
	all := slices.Clone(r.all)
	r.mu.Unlock()
	slices.SortStableFunc(all, func(a, b Controller) int {
		return cmp.Or(cmp.Compare(a.ID().String(), b.ID().String()), cmp.Compare(a.ID().Table, b.ID().Table))
	})
	return all
}

// Find returns the reconciler that a person means by a text: [ID.String], or the name or
// the table alone if there is only one of it. The error is [ErrNoReconciler] or names those
// that may be meant.
func (r *Registry) Find(text string) (Controller, error) {
	var exact, loose []Controller
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

func names(all []Controller) string {
	if len(all) == 0 {
		return "none"
	}
	called := make([]string, len(all))
	for i, one := range all {
		called[i] = text.Plain(one.ID().String())
	}
	return strings.Join(called, ", ")
}
