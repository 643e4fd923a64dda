// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pace_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/pace"
)

func TestAlarmDeliversAtTheLastSetTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		now := func() time.Duration { return time.Since(started) }
		var a pace.Alarm
		a.Stop()
		// expect sets the alarm to a time and waits for it.
		expect := func(at time.Duration) {
			t.Helper()
			<-a.Set(at, now())
			a.Rang()
			require.Equal(t, at, now())
		}
		a.Set(2*time.Second, now())
		expect(time.Second)
		expect(3 * time.Second)
		<-a.Set(now(), now())
		a.Rang()
		require.Equal(t, 3*time.Second, now(), "at once")

		ch := a.Set(4*time.Second, now())
		a.Stop()
		time.Sleep(time.Minute)
		require.Empty(t, ch)
		expect(now() + time.Second)

		at := now() + time.Second
		ch = a.Set(at, now())
		time.Sleep(time.Minute)
		require.Equal(t, ch, a.Set(at, now()), "setting the same time again does not delay it")
		<-ch
		a.Rang()
		require.Zero(t, testing.AllocsPerRun(10, func() { a.Set(now()+time.Hour, now()) }))
		a.Stop()
	})
}
