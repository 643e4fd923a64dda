// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// The overview has the errors of all reconcilers and cuts them. The page of one reconciler has them in full.
func TestOverviewCutsLongTexts(t *testing.T) {
	f := full()
	f.Shown.PruneFailure = large
	f.Shown.Errors = nil
	for i := range 32 {
		f.Shown.Breaker = large
		f.Shown.Errors = append(f.Shown.Errors, inspect.ErrorClass{Class: fmt.Sprint(i), Key: "k", Example: large})
	}
	s := serve(t, nil, f)
	require.Less(t, len(s.json("")), 1<<17)
	require.Greater(t, len(s.json("show?reconciler=agent/v4")), 32*len(large))
}
