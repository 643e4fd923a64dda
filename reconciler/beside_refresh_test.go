// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

func TestRefreshInAnOperationReturnsAnErrorAtOnce(t *testing.T) {
	inBubble(t, func(e *env) {
		e.writeRows(1, 1)
		synctest.Wait()
		e.writeRows(2, 2)
		synctest.Wait()
		require.Equal(e, reconciler.StatusKindError, e.told(2).Kind)
		require.Contains(e, e.told(2).GetError(), reconciler.ErrInOperation.Error())
		require.Equal(e, reconciler.StatusKindDone, e.told(1).Kind)
	}, func(e *env, cfg *reconciler.Config[*object]) {
		beside(e, cfg)
		cfg.Operations = refreshing{e.target, e}
	})
}

// refreshing refreshes object 1 in the update of object 2.
type refreshing struct {
	*target
	e *env
}

func (r refreshing) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, o *object) error {
	if o.ID == 2 {
		if _, err := r.e.loop.Refresh(ctx, "1"); err != nil {
			return reconciler.TerminalError(err)
		}
	}
	return r.target.Update(ctx, txn, revision, o)
}
