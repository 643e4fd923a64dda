// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package problems_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/problems"
)

var epoch = time.Unix(1000, 0)

func TestAKeyHasItsLatestErrorSinceItsFirst(t *testing.T) {
	s := problems.New()
	require.NoError(t, problems.Joined(&s))
	require.True(t, s.Keep("a", errors.New("x"), epoch))
	version := s.Version()
	require.False(t, s.Keep("a", errors.New("x"), epoch.Add(time.Second)), "the same text is no news")
	require.Equal(t, version, s.Version())
	require.True(t, s.Keep("a", errors.New("y"), epoch.Add(time.Minute)))
	require.NotEqual(t, version, s.Version())
	require.Equal(t, &problems.Problem{Key: "a", Err: errors.New("y"), Since: epoch}, s.Of("a"))
	require.Equal(t, []string{"a"}, slices.Collect(s.Keys()))

	s.Forget("b")
	require.Equal(t, 1, s.Len())
	version = s.Version()
	s.Forget("a")
	require.NotEqual(t, version, s.Version())
	require.Zero(t, s.Len())
	require.Nil(t, s.Of("a"))
	require.NoError(t, problems.Joined(&s))
}

func TestTheOldestErrorsAreNamedAndTheOthersCounted(t *testing.T) {
	first, second := problems.New(), problems.New()
	for i := range 8 {
		first.Keep(fmt.Sprint("a", i), fmt.Errorf("first %d", i), epoch)
	}
	for i := range 5 {
		second.Keep(fmt.Sprint("b", i), fmt.Errorf("second %d", i), epoch)
	}
	first.Keep("a0", errors.New("first 0 again"), epoch) // it stays the oldest
	require.EqualError(t, problems.Joined(&first, &second), "first 0 again\nfirst 1\nfirst 2\nfirst 3\nfirst 4\nfirst 5\nfirst 6\nfirst 7\n"+
		"second 0\nsecond 1\n3 further errors omitted")
	first.Forget("a0")
	require.Equal(t, "a1", first.First(1)[0].Key)
}
