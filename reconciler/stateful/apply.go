// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"fmt"
	"reflect"

	"github.com/statekeel/statekeel/reconciler"
)

// moveTo brings the target from any of its possible states to the state that is tried. changed
// reports whether that differs from the annotation.
func (r *BaseStatefulReconciler[T, State, Item]) moveTo(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item], p *previous[State], changed bool) error {
	observer, observes := impl.(StateObserver[T, State])
	if !observes && len(p.others) == 0 {
		if !changed {
			return nil
		}
		ops, err := impl.CompareStates(*p.state, p.trace.trying)
		if err != nil {
			return fmt.Errorf("compare the states: %w", err)
		}
		return apply(ctx, resource, impl, p, ops)
	}
	calls, err := plan(ctx, resource, impl, observer, p)
	for i := 0; i < len(calls) && err == nil; i++ {
		err = apply(ctx, resource, impl, p, calls[i])
	}
	return err
}

// startOver removes everything that the target may have of a resource, so that the tried states can
// be forgotten. This includes wanted items: the target may have another version of them, and adding
// an item need not replace that.
func (r *BaseStatefulReconciler[T, State, Item]) startOver(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item], p *previous[State]) error {
	var nothing State
	reconciler.Note(ctx, fmt.Sprintf("starting over: %d states were tried in vain", len(p.trace.troubles.tried)))
	p.trace.trying = nothing
	if err := r.moveTo(ctx, resource, impl, p, true); err != nil {
		return fmt.Errorf("remove everything, to start over: %w", err)
	}
	p.trace.emptied()
	p.others = p.trace.troubles.tried
	return nil
}

func apply[T StatefulResource, State, Item any](ctx context.Context, resource T, impl StatefulReconciler[T, State, Item], p *previous[State], ops StateChangeOperations[State, Item]) error {
	if ops.IsEmpty() {
		return nil
	}
	// Set before the call, so that it holds after a panic too.
	p.trace.begun = true
	return impl.ApplyOperations(ctx, resource, ops)
}

// plan returns the operations that lead from all possible states to the state that is tried. There
// is one call for each old context that has to be cleaned up, and then one for the rest.
func plan[T StatefulResource, State, Item any](ctx context.Context, resource T, impl StatefulReconciler[T, State, Item], observer StateObserver[T, State], p *previous[State]) ([]StateChangeOperations[State, Item], error) {
	c := collector[State, Item]{joined: newJoined[Item](), observed: observer != nil}
	for _, from := range append([]State{*p.state}, p.others...) {
		if err := compare(impl, from, p.trace.trying, &c); err != nil {
			return nil, err
		}
	}
	if observer != nil {
		observed, err := observer.ObserveState(ctx, resource)
		if err != nil {
			return nil, fmt.Errorf("observe the state: %w", err)
		}
		c.observed = false
		if err := compare(impl, observed, p.trace.trying, &c); err != nil {
			return nil, err
		}
	}
	return c.calls(), nil
}

func compare[T StatefulResource, State, Item any](impl StatefulReconciler[T, State, Item], from, to State, c *collector[State, Item]) error {
	if reflect.DeepEqual(&from, &to) {
		return nil
	}
	ops, err := impl.CompareStates(from, to)
	if err != nil {
		return fmt.Errorf("compare the states: %w", err)
	}
	c.collect(ops)
	return nil
}

// collector combines the results of several comparisons into calls.
type collector[State, Item any] struct {
	joined[Item]
	contexts []StateChangeOperations[State, Item]
	// observed: the target is observed as well, so only items to remove are collected.
	observed bool
}

func (c *collector[State, Item]) collect(ops StateChangeOperations[State, Item]) {
	if ops.ContextChanged {
		c.contexts = append(c.contexts, ops)
		return
	}
	c.remove.addAll(ops.ItemsToRemove)
	if !c.observed {
		c.add.addAll(ops.ItemsToAdd)
		c.update.addAll(ops.ItemsToUpdate)
	}
}

func (c *collector[State, Item]) calls() []StateChangeOperations[State, Item] {
	rest := StateChangeOperations[State, Item]{
		ItemsToAdd: c.toAdd(), ItemsToRemove: c.remove.items, ItemsToUpdate: c.update.items,
	}
	if rest.IsEmpty() {
		return c.contexts
	}
	return append(c.contexts, rest)
}
