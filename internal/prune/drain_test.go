// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prune

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Work is held back for longer each time, and never for more than a tenth of the time.
func TestPruneHoldsWorkBackATenthOfTheTime(t *testing.T) {
	var d drain
	now := time.Hour
	for hold := minHold; hold < time.Minute; hold *= 2 {
		require.False(t, d.wait(now, false, false))
		require.True(t, d.holding)
		at, ok := d.next()
		require.True(t, ok)
		require.Equal(t, now+hold, at)
		require.False(t, d.wait(at-1, false, false))
		require.True(t, d.holding)
		require.False(t, d.wait(at, false, false))
		require.False(t, d.holding)
		again, ok := d.next()
		require.True(t, ok)
		require.Equal(t, at+9*hold, again)
		require.False(t, d.wait(again-1, false, false))
		require.False(t, d.holding)
		now = again
	}
	require.True(t, d.wait(now, true, false))
	require.Equal(t, drain{}, d)
}

func TestWorkIsNotHeldBackForAStuckOperation(t *testing.T) {
	var d drain
	d.wait(time.Hour, false, false)
	require.False(t, d.wait(time.Hour, false, true))
	require.False(t, d.holding)
	at, ok := d.next()
	require.True(t, ok)
	require.Equal(t, time.Hour+time.Minute, at)
	require.True(t, d.wait(time.Hour+1, true, false), "the stuck operation has returned")
	_, ok = d.next()
	require.False(t, ok)
}

func TestSweepOfMoreThanItsBudgetIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		budget          Budget
		orphans, listed int
		refused         string
	}{
		"no budget":                {Budget{}, 10, 10, ""},
		"at the budget":            {Budget{Objects: 3}, 3, 10, ""},
		"one too many":             {Budget{Objects: 3}, 4, 10, "the table has no row for 4 of the 10 objects in the target, more than the budget of 3 objects: "},
		"at the fraction":          {Budget{Fraction: 0.25}, 3, 12, ""},
		"above the fraction":       {Budget{Fraction: 0.25}, 3, 11, "the table has no row for 3 of the 11 objects in the target, more than the budget of 25 % of them: "},
		"both, too many objects":   {Budget{Objects: 3, Fraction: 0.9}, 4, 10, "the budget of 3 objects: "},
		"both, above the fraction": {Budget{Objects: 30, Fraction: 0.1}, 4, 10, "the budget of 10 % of them: "},
		"nothing was listed":       {Budget{Objects: 1, Fraction: 0.1}, 0, 0, ""},
	} {
		err := c.budget.check(c.orphans, c.listed)
		if c.refused == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.refused, name)
		}
	}
}
