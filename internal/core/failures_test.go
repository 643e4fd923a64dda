// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FailureVersion changes exactly when the set of failing keys or one of their texts changes.
func TestFailureVersionChangesWithTheFailures(t *testing.T) {
	c := small(4)
	now := time.Duration(0)
	version := uint64(0)
	step := func(news bool, why string, kind Kind, text string) {
		t.Helper()
		now += time.Minute
		begin(c, now, uint64(now), "a")
		items := c.Plan()
		out := failed(&items[0], text)
		out.Kind = kind
		if kind != Failed && kind != FailedForGood {
			out.Text = nil
		}
		c.Settle(now, &items[0], out)
		check(t, c)
		require.Equal(t, news, c.FailureVersion() != version, why)
		version = c.FailureVersion()
	}
	step(false, "nothing failed", Done, "")
	step(true, "a fails", Failed, "no route")
	step(false, "a fails as before", Failed, "no route")
	step(true, "a fails with another text", Failed, "no device")
	step(false, "a fails for good with the same text", FailedForGood, "no device")
	step(true, "a is blocked, and fails no longer", BlockedOn, "")
	step(false, "a is reconciled", DoneAgain, "")
	step(true, "a fails again", Failed, "no route")
	step(true, "a is reconciled", Done, "")
	step(false, "a is reconciled", Done, "")
}

// A change does not end a failure: a key fails until an attempt succeeds.
func TestChangeDoesNotHideAFailure(t *testing.T) {
	c := small(4)
	begin(c, 0, 1, "a", "b")
	items := c.Plan()
	for i := range items {
		c.Settle(0, &items[i], failed(&items[i], "no route"))
	}
	version := c.FailureVersion()

	c.Begin(time.Millisecond, 4, false)
	c.see(row{key: "a"}, 3, false, Backlog)
	c.see(row{key: "b"}, 4, true, Deletion)
	items = c.Plan()
	require.Equal(t, []string{"b"}, planned(items))
	c.Recall(c.round.now, &items[0])
	check(t, c)
	require.Equal(t, 2, c.NumFailing())
	require.Equal(t, version, c.FailureVersion())
}

// Failures visits a bounded number of keys, so that it is cheap while many keys wait for something
// else. It may miss failures behind those.
func TestFailuresVisitsABoundedNumberOfKeys(t *testing.T) {
	p := plant{Core: newThingCore(100)}
	look := func() (told int) {
		p.Failures(func(string) bool { told++; return true })
		return told
	}
	p.rounds(newThings("blocked", failuresSeen-1), as(BlockedOn))
	p.rounds(newThings("failing", 1), parks)
	require.Equal(t, 1, look())

	p = plant{Core: newThingCore(100)}
	p.rounds(newThings("blocked", 10*failuresSeen), as(BlockedOn))
	p.rounds(newThings("failing", 1), parks)
	require.Zero(t, look())
	require.Less(t, testing.AllocsPerRun(1, func() { look() }), 5.0*failuresSeen)
}

func TestStatesHaveNames(t *testing.T) {
	names := map[string]bool{}
	for s := range NumStates {
		require.Regexp(t, "^[a-z]+( [a-z]+)*$", s.String())
		names[s.String()] = true
	}
	require.Len(t, names, int(NumStates))
}
