// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
)

func TestAFailedPruneIsInHealthAndMetrics(t *testing.T) {
	m := reconciler.NewUnpublishedExpVarMetrics()
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		a.put(wanted(1, "a"))
		a.awaitKind(reconciler.StatusKindDone, 1)
		assert.Nil(t, m.PruneCountVar.Get("app"))

		tg.failPrunes("no permission")
		tg.put(7, "left over")
		a.reconciler.Prune()
		a.awaitHealth("job-reconcile", "Degraded: 1 error(s) (prune: no permission)")
		assert.Equal(t, "1", m.PruneCountVar.Get("app").String())
		assert.Equal(t, "1", m.PruneTotalErrorsVar.Get("app").String())
		assert.Equal(t, "1", m.PruneCurrentErrorsVar.Get("app").String())
		assert.Equal(t, statedb.Revision(2), a.services.Revision(a.db.ReadTxn()), "a prune writes no status")

		tg.heal()
		a.reconciler.Prune()
		a.awaitHealth("job-reconcile", "OK: OK, 1 object(s)")
		assert.Equal(t, "0", m.PruneCurrentErrorsVar.Get("app").String())
		assert.Equal(t, "1=a", tg.has())
	}, reconciler.WithoutPruning(), reconciler.WithMetrics(m))
}
