// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package filewatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"
)

// A writer that takes its time is not disturbed; one that never ends does not hide other changes for ever.
func TestFileIsNotReadWhileItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		events, changed := make(chan fsnotify.Event), make(chan struct{}, 1)
		go follow(ctx, events, nil, changed, func() {})
		write := func(d time.Duration) {
			for begin := time.Now(); time.Since(begin) < d && ctx.Err() == nil; time.Sleep(settle / 2) {
				select {
				case events <- fsnotify.Event{}:
				case <-ctx.Done():
				}
			}
		}
		<-changed // the first look
		write(4 * poll)
		require.Empty(t, changed, "in the middle")
		end := time.Now()
		<-changed
		require.Less(t, time.Since(end), 2*settle)

		begin := time.Now()
		go write(time.Hour)
		<-changed
		require.Greater(t, time.Since(begin), 4*poll)
		<-changed
		require.LessOrEqual(t, time.Since(begin), 2*(skips+1)*poll)
		cancel()
		time.Sleep(settle) // until the writer sees it
	})
}
