// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUpdatesRunInOrderOfRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileServices(tg)
		a.put(wanted(5, "e"), wanted(1, "a"))
		a.put(wanted(3, "c"))
		a.put(wanted(5, "e"))
		a.start()
		a.awaitKind(reconciler.StatusKindDone, 1, 3, 5)

		var ids []uint64
		last := statedb.Revision(0)
		for _, at := range tg.allAttempts() {
			ids = append(ids, at.id)
			assert.Greater(t, at.rev, last, "revision of %d", at.id)
			last = at.rev
		}
		assert.Equal(t, []uint64{1, 3, 5}, ids)
		transcript(t, "rows", a.rows())
		pass(time.Minute)
		assert.Len(t, tg.allAttempts(), 3, "no operation runs while nothing changes")
	})
}

func TestUpdateSeesASnapshotThatHasTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApp(t)
		ops := &lookupOps{target: newTarget(), services: a.services}
		_, err := reconciler.Register[*service](a.params, a.services,
			(*service).Clone, (*service).SetStatus, (*service).GetStatus, ops, nil)
		require.NoError(t, err)
		a.start()

		a.put(wanted(1, "first"), wanted(2, "first"))
		a.awaitKind(reconciler.StatusKindDone, 1, 2)
		assert.Equal(t, 2, ops.found)
	})
}

// lookupOps looks up each object in the transaction that its Update gets.
type lookupOps struct {
	*target
	services statedb.Table[*service]
	found    int
}

func (ops *lookupOps) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, s *service) error {
	inTable, rev, ok := ops.services.Get(txn, serviceByID.Query(s.ID))
	if ok && rev == revision && inTable.Spec == s.Spec {
		ops.found++
	}
	return ops.target.Update(ctx, txn, revision, s)
}

func TestRowsThatAreNotPendingAreIgnored(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {

		done, unset, failed := wanted(1, "done"), wanted(2, "unset"), wanted(4, "failed")
		done.Status = reconciler.StatusDone()
		unset.Status = reconciler.Status{}
		failed.Status = reconciler.StatusError(errors.New("elsewhere"))
		a.put(done, unset, failed, wanted(3, "pending"))
		a.awaitKind(reconciler.StatusKindDone, 3)
		pass(10 * time.Second)

		assert.Equal(t, "3=pending", tg.has())
		assert.Same(t, done, a.get(1), "a Done row must not be written")
		assert.Same(t, unset, a.get(2), "a row without a status must not be written")
		assert.Same(t, failed, a.get(4), "a row with an error from elsewhere must not be written")
		transcript(t, "rows", a.rows())
	})
}

func TestAChangeDuringAnUpdateIsFollowed(t *testing.T) {
	for name, change := range map[string]func(a *app){
		"1=second": func(a *app) { a.put(wanted(1, "second")) },
		"":         func(a *app) { a.remove(1) },
	} {
		t.Run("to "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, tg := newApp(t), newTarget()
				entered, proceed := make(chan struct{}, 10), make(chan struct{})
				tg.beforeOps = func(context.Context, string, *service) {
					entered <- struct{}{}
					<-proceed
				}
				a.reconcileServices(tg)
				a.start()
				a.put(wanted(1, "first"))
				<-entered
				change(a)
				close(proceed)
				eventually(t, func() bool { return len(tg.attemptsOf(1)) == 2 }, "the change")
				pass(10 * time.Second)
				assert.Equal(t, name, tg.has())
				transcript(t, "rows", a.rows()) // the status of the update must not bring back a deleted object
				transcript(t, "1", tg.story(1))
			})
		})
	}
}

func TestDeleteThenReinsertEndsInTheTarget(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		a.put(wanted(1, "first"))
		a.awaitKind(reconciler.StatusKindDone, 1)

		// First in two transactions, then in one, of which the reconciler sees only the insert.
		a.remove(1)
		eventually(t, func() bool { return tg.has() == "" }, "the deletion")
		a.put(wanted(1, "second"))
		a.awaitKind(reconciler.StatusKindDone, 1)
		require.Equal(t, "1=second", tg.has())

		wtxn := a.db.WriteTxn(a.services)
		_, _, err := a.services.Delete(wtxn, a.get(1))
		require.NoError(t, err)
		_, _, err = a.services.Insert(wtxn, wanted(1, "third"))
		require.NoError(t, err)
		wtxn.Commit()
		eventually(t, func() bool { return a.get(1).Status.Kind == reconciler.StatusKindDone }, "the reinserted object")
		assert.Equal(t, "1=third", tg.has())
		transcript(t, "1", tg.story(1))
	})
}
