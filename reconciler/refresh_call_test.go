// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// In a bubble no time goes by while a refresh is called for, made, and looked at again.
func TestRefreshOfAllEndsWhereTimeStandsStill(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2)
		e.pass(0)
		require.Equal(e, []string{"update(1)", "update(2)"}, e.target.calls())
		for range 2 {
			_, err := e.loop.Refresh(e.Context())
			require.NoError(e, err)
			e.pass(0)
			require.Equal(e, []string{"refresh(1)", "refresh(2)"}, e.target.calls())
		}
		e.pass(time.Minute)
		require.Empty(e, e.target.calls())
	}, nil)
}
