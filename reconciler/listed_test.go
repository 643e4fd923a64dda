// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestListedRowInFlightIsNotShownAsNoStatus(t *testing.T) {
	var listing atomic.Bool
	inBubble(t, func(e *env) {
		e.target.failing("no")
		e.put(1, 1)
		e.pass(time.Millisecond)
		listing.Store(true)
		page := e.objects(inspect.ObjectQuery{})
		require.Equal(t, "Error", page.Objects[0].Status)
		require.Equal(t, inspect.StateUnknown, page.Objects[0].State)
		e.eachDone()
	}, func(e *env, cfg *reconciler.Config[*object]) {
		cfg.GetStatus = func(o *object) reconciler.Status {
			if o.Status.Kind == reconciler.StatusKindError && listing.Swap(false) {
				e.target.failing("")
				e.pass(time.Minute)
			}
			return o.Status
		}
	}, reconciler.WithoutPruning())
}
