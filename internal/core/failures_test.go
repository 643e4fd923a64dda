// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failures returns the errors of the failing keys, in the order of Since.
func failures(c *Core[row]) (texts []string) {
	c.Index.Unreconciled(0, func(u KeyInfo[row]) bool {
		if u.Failure != "" {
			texts = append(texts, u.Failure)
		}
		return true
	})
	return texts
}

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
		require.Equal(t, news, c.Index.figures.FailureVersion != version, why)
		version = c.Index.figures.FailureVersion
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
	version := c.Index.figures.FailureVersion

	c.Begin(time.Millisecond, 4, false)
	c.see(row{key: "a"}, 3, false, Backlog)
	c.see(row{key: "b"}, 4, true, Deletion)
	items = c.Plan()
	require.Equal(t, []string{"b"}, planned(items))
	c.Recall(c.round.now, &items[0])
	check(t, c)
	require.Equal(t, 2, c.Index.figures.Failing)
	require.Equal(t, version, c.Index.figures.FailureVersion)
}

// Keys that are not visited cost nothing.
func TestListingTheFirstKeysIsCheap(t *testing.T) {
	p := plant{Core: newThingCore(100)}
	p.rounds(newThings("blocked", 10_000), as(BlockedOn))
	const visited = 1000
	look := func() {
		n := 0
		p.Index.Unreconciled(0, func(KeyInfo[*thing]) bool { n++; return n < visited })
		require.Equal(t, visited, n)
	}
	require.Less(t, testing.AllocsPerRun(1, look), 5.0*visited)
}

func TestStatesHaveNames(t *testing.T) {
	names := map[string]bool{}
	for s := range NumStates {
		require.Regexp(t, "^[a-z]+( [a-z]+)*$", s.String())
		names[s.String()] = true
	}
	require.Len(t, names, int(NumStates))
}
