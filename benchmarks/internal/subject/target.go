// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import "sync/atomic"

// Target is the outside system a contender reconciles into. It does nothing but count, so
// that what a benchmark measures is the contender; a rule can make it fail or wait.
// All methods may be called from any goroutine.
type Target struct {
	// Updates counts the rows handed to Update, one by one or in a batch, failed or not.
	Updates Counter
	// Deletes counts the rows handed to Delete, in the same way.
	Deletes Counter
	// Batches counts calls that carried updates of several rows at once.
	Batches Counter

	batchRule  atomic.Pointer[func()]
	rule       atomic.Pointer[func(id uint64) error]
	deleteRule atomic.Pointer[func(id uint64) error]
}

// SetRule makes every later Update ask rule for its outcome. It runs after the call was
// counted, on the contender's goroutine; nil makes the target succeed again.
func (t *Target) SetRule(rule func(id uint64) error) { store(&t.rule, rule) }

// SetBatchRule makes every later call that carries updates of several rows call rule before
// the first of them, after the call was counted; nil is no such rule.
func (t *Target) SetBatchRule(rule func()) {
	if rule == nil {
		t.batchRule.Store(nil)
		return
	}
	t.batchRule.Store(&rule)
}

// SetDeleteRule is SetRule for every later Delete.
func (t *Target) SetDeleteRule(rule func(id uint64) error) { store(&t.deleteRule, rule) }

func store(in *atomic.Pointer[func(id uint64) error], rule func(id uint64) error) {
	if rule == nil {
		in.Store(nil)
		return
	}
	in.Store(&rule)
}

// UpdateBatch begins a call that carries updates of several rows: [Target.Update] follows for
// each of them.
func (t *Target) UpdateBatch() {
	t.Batches.Add()
	if rule := t.batchRule.Load(); rule != nil {
		(*rule)()
	}
}

// Update is one row updated.
func (t *Target) Update(id uint64) error {
	t.Updates.Add()
	return ask(&t.rule, id)
}

// Delete is one row deleted.
func (t *Target) Delete(id uint64) error {
	t.Deletes.Add()
	return ask(&t.deleteRule, id)
}

// ask returns what the rule says of a row; without a rule the target succeeds.
func ask(in *atomic.Pointer[func(id uint64) error], id uint64) error {
	if rule := in.Load(); rule != nil {
		return (*rule)(id)
	}
	return nil
}
