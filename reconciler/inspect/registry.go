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

	"github.com/statekeel/statekeel/internal/chain"
	"github.com/statekeel/statekeel/internal/text"
)

// Registry holds the running reconcilers and sources of a program. The zero value is empty and ready for use. Its
// methods are safe from any goroutine.
type Registry struct {
	holder
	mu      sync.Mutex
	all     []Controller // without duplicates, in the order in which they were added
	numbers map[Controller]int
	added   int
	sources []Source // without duplicates
}

// Cell provides one [Registry] to a hive. Pass it to each reconciler with reconciler.WithRegistry; the
// commands and the page of the hive read the same registry.
var Cell = cell.Module("reconciler", "Registry of the reconcilers", cell.Provide(func() *Registry { return &Registry{} }))

// Add adds a reconciler, unless it is there already. A reconciler with the option
// reconciler.WithRegistry adds itself when it starts to run, and removes itself when it stops. One
// that was added by hand and never runs stays until [Registry.Remove].
func (r *Registry) Add(i Controller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.all, i) {
		return
	}
	if r.numbers == nil {
		r.numbers = map[Controller]int{}
	}
	r.added++
	r.numbers[i] = r.added
	r.all = append(r.all, i)
	if part, is := chain.In[chain.Part](i); is && *part != nil {
		r.parts().Join(*part)
	}
}

// Remove removes a reconciler. It does nothing if the reconciler is not there.
func (r *Registry) Remove(i Controller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := slices.Index(r.all, i); at >= 0 {
		r.all = slices.Delete(r.all, at, at+1)
		delete(r.numbers, i)
		if part, is := chain.In[chain.Part](i); is && *part != nil {
			r.parts().Leave(*part)
		}
	}
}

// Number returns the number of a reconciler, by which programs that show several of one name tell them
// apart. No other one ever gets it. It is zero if the reconciler is not there.
func (r *Registry) Number(i Controller) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.numbers[i]
}

// All returns the reconcilers in the order of [ID.String], and then of the table's name.
func (r *Registry) All() []Controller {
	r.mu.Lock()
	all := slices.Clone(r.all)
	r.mu.Unlock()
	slices.SortStableFunc(all, func(a, b Controller) int {
		return cmp.Or(cmp.Compare(a.ID().String(), b.ID().String()), cmp.Compare(a.ID().Table, b.ID().Table))
	})
	return all
}

// Find returns the reconciler with the given name. The name is [ID.String]; or the reconciler's name
// alone, or its table, if that is the name of one reconciler only. The empty text names none. The error wraps
// [ErrNoReconciler] if there is none, and lists the candidates if there are several.
func (r *Registry) Find(text string) (Controller, error) {
	var exact, loose []Controller
	all := r.All()
	for _, i := range all {
		switch id := i.ID(); text {
		case "":
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

// ErrNoReconciler is returned by [Registry.Find] when no reconciler has the name.
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
