// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"flag"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
)

// TestMain has rapid make as many checks as package long says, unless the flag -rapid.checks is set.
func TestMain(m *testing.M) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.checks" })
	if !set {
		if err := flag.Set("rapid.checks", strconv.Itoa(long.Times(80))); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// one runs a round of one operation on a key, and returns the operation.
func one(t *testing.T, c *Core[row], now time.Duration, changes ...Change[row]) *Operation[row] {
	t.Helper()
	from := listed[row](changes)
	c.Begin(now, 1, true)
	ops := c.planFrom(&from)
	require.Len(t, ops, 1)
	return &ops[0]
}

func changed(key string, revision uint64) Change[row] {
	return Change[row]{Obj: row{key: key}, Revision: revision, Since: revision, Lane: Backlog}
}

// outcomeOf returns an outcome of an operation, with a text if that failed.
func outcomeOf(op *Operation[row], k Kind, text string) Outcome[row] {
	out := Outcome[row]{Kind: k, Object: op.Obj, NewRevision: op.Revision}
	if k == Failed || k == FailedForGood {
		out.Text = &text
	}
	return out
}

// A key that waits, and whose row is written without asking for an operation, does not have that version: its
// operation says so, until an outcome brings the version up to date.
func TestOperationSaysThatItsVersionIsOutdated(t *testing.T) {
	c := small(1)
	failAt := func(now time.Duration, op *Operation[row], revision uint64) {
		out := outcomeOf(op, Failed, "no")
		out.NewRevision = revision
		c.Settle(now, op, out)
	}
	op := one(t, c, 0, changed("a", 1))
	require.False(t, op.Turn.Outdated)
	failAt(0, op, 2)

	c.ObserveSettled(row{key: "a"}, 2, RowFailed)
	op = one(t, c, time.Hour)
	require.False(t, op.Turn.Outdated, "the row is what the outcome has written")
	failAt(time.Hour, op, 2)

	c.ObserveSettled(row{key: "a"}, 3, RowFailed)
	op = one(t, c, 2*time.Hour)
	require.True(t, op.Turn.Outdated, "the row was written since")
	c.Recall(2*time.Hour, op)
	op = one(t, c, 2*time.Hour)
	require.True(t, op.Turn.Outdated, "the operation was not run")
	failAt(2*time.Hour, op, 3)

	op = one(t, c, 3*time.Hour)
	c.ObserveSettled(row{key: "a"}, 4, RowFailed)
	failAt(3*time.Hour, op, 3)
	op = one(t, c, 4*time.Hour)
	require.True(t, op.Turn.Outdated, "the row was written while the operation ran")

	c = small(1)
	op = one(t, c, 0, changed("a", 1))
	c.Refresh(0, row{key: "a"}, 1, CauseVerify, false)
	c.ObserveSettled(row{key: "a"}, 2, RowDone)
	c.Settle(0, op, outcomeOf(op, Done, ""))
	op = one(t, c, 0)
	require.Equal(t, CauseVerify, op.Turn.Cause)
	require.True(t, op.Turn.Outdated, "the row was written before the look, while the operation ran")

	c = small(1)
	c.Settle(0, one(t, c, 0, changed("a", 1)), Outcome[row]{Kind: Superseded})
	c.ObserveSettled(row{key: "a"}, 3, RowDone)
	require.True(t, one(t, c, time.Hour).Turn.Outdated, "the change was not attempted, because its row was gone")
}

// What a refresh has failed to apply again was applied before. A change was not, whatever has failed before it.
func TestOperationSaysThatItsVersionWasAppliedBefore(t *testing.T) {
	for _, records := range []bool{false, true} {
		c := small(1)
		c.Index.records = records
		fail := func(now time.Duration, op *Operation[row], repeats bool) {
			require.Equal(t, repeats, op.Turn.Repeats, "at %v", now)
			c.Settle(now, op, outcomeOf(op, Failed, "no"))
		}
		fail(0, one(t, c, 0, changed("a", 1)), false)
		op := one(t, c, time.Hour)
		require.False(t, op.Turn.Repeats)
		c.Settle(time.Hour, op, outcomeOf(op, Done, ""))

		c.Refresh(2*time.Hour, row{key: "a"}, 1, CauseRefresh, false)
		fail(2*time.Hour, one(t, c, 2*time.Hour), false) // no change brought it: it has no time since when it is wanted
		fail(3*time.Hour, one(t, c, 3*time.Hour), true)
		op = one(t, c, 4*time.Hour)
		require.True(t, op.Turn.Repeats)
		c.Settle(4*time.Hour, op, outcomeOf(op, DoneAgain, ""))
		fail(5*time.Hour, one(t, c, 5*time.Hour, changed("a", 2)), false)
		require.False(t, one(t, c, 6*time.Hour).Turn.Repeats)
	}
}

// FailureVersion changes exactly when the set of failing keys or one of their texts changes.
func TestFailureVersionChangesWithTheFailures(t *testing.T) {
	c := small(4)
	for i, step := range []struct {
		news bool
		why  string
		kind Kind
		text string
	}{
		{false, "nothing failed", Done, ""},
		{true, "a fails", Failed, "no route"},
		{false, "a fails as before", Failed, "no route"},
		{true, "a fails with another text", Failed, "no device"},
		{false, "a fails for good with the same text", FailedForGood, "no device"},
		{true, "a is blocked, and fails no longer", BlockedOn, ""},
		{false, "a is reconciled", DoneAgain, ""},
		{true, "a fails again", Failed, "no route"},
		{true, "a is reconciled", Done, ""},
		{false, "a is reconciled", Done, ""},
	} {
		now, version := time.Duration(i)*time.Minute, c.Index.figures.FailureVersion
		op := one(t, c, now, changed("a", uint64(i+1)))
		c.Settle(now, op, outcomeOf(op, step.kind, step.text))
		require.Equal(t, step.news, c.Index.figures.FailureVersion != version, step.why)
	}
}

// The operation may have read what the caller of a forced refresh saw changing. Another call does not make it count again.
func TestOutcomeOfARunningOperationDoesNotCountAfterAForcedRefresh(t *testing.T) {
	c := small(1)
	op := one(t, c, 0, changed("a", 5))
	require.True(t, c.Refresh(0, row{key: "a"}, 5, CauseRefresh, true))
	require.True(t, c.Refresh(0, row{key: "a"}, 5, CauseRefresh, false))
	c.Settle(0, op, outcomeOf(op, Done, ""))
	require.Equal(t, uint64(5), c.Index.LowWatermark())
	op = one(t, c, 0)
	c.Settle(0, op, outcomeOf(op, Done, ""))
	require.Zero(t, c.Index.LowWatermark())
}

// As one that has ended, or has not begun.
func TestRecalledLookAtATerminalKeyEndsIfItsRowIsDone(t *testing.T) {
	c := small(1)
	op := one(t, c, 0, changed("a", 1))
	c.Settle(0, op, outcomeOf(op, FailedForGood, "bad"))
	c.Refresh(time.Hour, row{key: "a"}, 2, CauseVerify, false)
	op = one(t, c, time.Hour)
	require.True(t, op.OnlyLooks())
	require.False(t, c.ObserveSettled(row{key: "a"}, 3, RowDone))
	require.True(t, c.Recall(time.Hour, op))
	_, has := c.KeyInfo("a", 0)
	require.False(t, has)
}

// No row shows an orphan as done, so one that waits needs no record.
func TestOrphanHasNoRecordUntilItFails(t *testing.T) {
	cfg := smallConfig(1)
	cfg.Records = true
	c := New(cfg)
	take := func() (kinds []Recorded) {
		c.Index.TakeRecords(math.MaxInt64, func(r Record[row]) { kinds = append(kinds, r.Kind) })
		return kinds
	}
	require.True(t, c.AddOrphan(row{key: "a"}, 5))
	require.Empty(t, take())
	op := one(t, c, 0)
	c.Settle(0, op, outcomeOf(op, Failed, "in use"))
	require.Equal(t, []Recorded{RecordedFailed}, take())
}

// Of keys that do not run when their turn comes a round takes few: the table may be large.
func TestRoundReadsAPartOfAPausedTable(t *testing.T) {
	c := small(8)
	c.SetPaused(func(row) bool { return true })
	var changes listed[row]
	for i := range uint64(maxPassedOver + 10) {
		changes = append(changes, changed(strconv.FormatUint(i, 10), i+1))
	}
	c.Begin(0, 8, false)
	require.Empty(t, c.planFrom(&changes))
	require.Len(t, changes, 10)
}

// Users write "never" as a very long delay. Added to the time, it must not overflow.
func TestLongDelayDoesNotOverflow(t *testing.T) {
	const now, never = time.Hour, time.Duration(math.MaxInt64)
	for kind, state := range map[Kind]State{Failed: Retry, DoneAgain: Requeue, BlockedOn: Blocked} {
		c := small(1)
		op := one(t, c, now, changed("a", 1))
		out := outcomeOf(op, kind, "no")
		out.Delay = never - time.Minute
		c.Settle(now, op, out)
		require.Equal(t, 1, c.Index.figures.States[state])
		due, _ := c.NextDue()
		require.Equal(t, never, due)
	}
}
