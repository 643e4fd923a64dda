// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package signal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/signal"
)

func TestSignalsThatWereSentTogetherAreReceivedOnce(t *testing.T) {
	s := signal.New()
	require.Empty(t, s)
	for range 2 {
		for range 3 {
			s.Send()
		}
		require.Len(t, s, 1)
		<-s
		require.Empty(t, s)
	}
	signal.Signal(nil).Send()
}
