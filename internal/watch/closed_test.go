// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package watch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnyClosedFindsOneClosedChannel(t *testing.T) {
	open := make(chan struct{})
	require.False(t, AnyClosed(nil))
	require.False(t, AnyClosed([]<-chan struct{}{nil, open}))
	require.True(t, AnyClosed([]<-chan struct{}{nil, open, Closed}))
}
