// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"testing"
	"time"

	"github.com/statekeel/statekeel/reconciler/managed"
)

func TestOrphanOfAPersonSurvivesAPlainInsert(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.edit(func(b *bucket) { managed.SetDeletionPolicy(b, managed.DeletionOrphan) })
		e.insertLiteral(2)
		e.remove()
		pass(time.Minute)
		e.gone()
		e.holds(2)
	}, nil)
}

func TestPauseOfAPersonSurvivesAPlainInsert(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.edit(func(b *bucket) { managed.SetPaused(b, true) })
		e.insertLiteral(2)
		pass(time.Minute)
		e.holds(1)
		e.is(managed.ReasonReconcilePaused, "")
		e.edit(func(b *bucket) { managed.SetPaused(b, false) })
		pass(time.Minute)
		e.holds(2)
	}, nil)
}
