// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestContextsDerivedFromACallContextNeedNoGoroutine(t *testing.T) {
	var c callContext
	c.begin(t.Context(), &scope{}, time.Hour)
	defer c.end()
	before := runtime.NumGoroutine()
	child, cancel := context.WithTimeout(c.with(t), time.Minute)
	defer cancel()
	grandchild, cancel := context.WithCancel(child)
	defer cancel()
	require.NoError(t, grandchild.Err())
	require.Equal(t, before, runtime.NumGoroutine())
}

// with first looks up a value, as clients with traces do. This must not make the timer.
func (c *callContext) with(t *testing.T) context.Context {
	require.Nil(t, c.Value(t))
	require.Nil(t, c.timed)
	return c
}
