// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"fmt"
	"reflect"
)

// moveTo brings the target from wherever it may be to a state. changed: the state is not
// what the annotation says.
func (r *BaseStatefulReconciler[T, State, Item]) moveTo(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item], p *previous[State], to State, changed bool) error {
	observer, observes := impl.(StateObserver[T, State])
	if !observes && !changed && len(p.others) == 0 {
		return nil
	}
	calls, err := r.plan(ctx, resource, impl, observer, p, to)
	if err != nil {
		return err
	}
	for i := range calls {
		p.trace.begin(to)
		if err := impl.ApplyOperations(ctx, resource, calls[i]); err != nil {
			return err
		}
	}
	return nil
}

// plan returns the operations that lead to a state, one call after the other: those that
// clean up old contexts, and then what is left.
func (r *BaseStatefulReconciler[T, State, Item]) plan(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item], observer StateObserver[T, State], p *previous[State], to State) ([]StateChangeOperations[State, Item], error) {
	var observed StateChangeOperations[State, Item]
	if observer != nil {
		state, err := observer.ObserveState(ctx, resource)
		if err != nil {
			return nil, fmt.Errorf("observe the state: %w", err)
		}
		if observed, err = r.compare(impl, state, to); err != nil {
			return nil, err
		}
	}
	first, err := r.compare(impl, p.state, to)
	if err != nil {
		return nil, err
	}
	if observer == nil && len(p.others) == 0 {
		if first.IsEmpty() {
			return nil, nil
		}
		return []StateChangeOperations[State, Item]{first}, nil
	}
	c := collector[State, Item]{joined: newJoined[Item](), observed: observer != nil}
	c.collect(first)
	for _, state := range p.others {
		ops, err := r.compare(impl, state, to)
		if err != nil {
			return nil, err
		}
		c.collect(ops)
	}
	c.observed = false
	c.collect(observed)
	return c.calls(), nil
}

func (r *BaseStatefulReconciler[T, State, Item]) compare(impl StatefulReconciler[T, State, Item], from, to State) (StateChangeOperations[State, Item], error) {
	if reflect.DeepEqual(from, to) {
		return StateChangeOperations[State, Item]{}, nil
	}
	ops, err := impl.CompareStates(from, to)
	if err != nil {
		return ops, fmt.Errorf("compare the states: %w", err)
	}
	return ops, nil
}

// collector makes calls of what the comparisons with several states came to.
type collector[State, Item any] struct {
	joined[Item]
	contexts []StateChangeOperations[State, Item]
	// observed: what is there is known, and only what was left behind is of interest.
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
