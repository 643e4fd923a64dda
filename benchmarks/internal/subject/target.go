// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import "sync/atomic"

// Target is the external system that a contender reconciles into. It only counts, so that a benchmark
// measures the contender; a rule can make it fail or wait. All methods may be called from any goroutine.
type Target struct {
	// Updates counts the rows passed to Update, failed or not.
	Updates Counter
	// Deletes counts the rows passed to Delete, in the same way.
	Deletes Counter
	// Prunes counts the calls of Prune, which do nothing.
	Prunes     Counter
	rule       atomic.Pointer[func(id uint64) error]
	deleteRule atomic.Pointer[func(id uint64) error]
}

// SetRule sets the rule that decides the outcome of every later Update. It runs after the call was counted,
// on the contender's goroutine. nil makes the target succeed again.
func (t *Target) SetRule(rule func(id uint64) error) { store(&t.rule, rule) }

// SetDeleteRule is SetRule for every later Delete.
func (t *Target) SetDeleteRule(rule func(id uint64) error) { store(&t.deleteRule, rule) }

func store(in *atomic.Pointer[func(id uint64) error], rule func(id uint64) error) {
	if rule == nil {
		in.Store(nil)
		return
	}
	in.Store(&rule)
}

// Update updates one row.
func (t *Target) Update(id uint64) error {
	t.Updates.Add()
	return ask(&t.rule, id)
}

// Delete deletes one row.
func (t *Target) Delete(id uint64) error {
	t.Deletes.Add()
	return ask(&t.deleteRule, id)
}

// ask returns the outcome that the rule decides for a row; without a rule it is success.
func ask(in *atomic.Pointer[func(id uint64) error], id uint64) error {
	if rule := in.Load(); rule != nil {
		return (*rule)(id)
	}
	return nil
}
