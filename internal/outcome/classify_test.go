// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package outcome_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
)

var errNo = errors.New("no")

func TestClassifyReadsTheOutcomeOfAnError(t *testing.T) {
	for _, c := range []struct {
		err      error
		deletion bool
		tries    int
		most     int
		kind     core.Kind
		text     string
	}{
		{err: nil, kind: core.Done},
		{err: errNo, kind: core.Failed, text: "no"},
		{err: outcome.RetryAfter(errNo, time.Second), kind: core.Failed, text: "no"},
		{err: fmt.Errorf("x: %w", outcome.TerminalError(errNo)), kind: core.FailedForGood, text: "x: no"},
		{err: outcome.Blocked("a device"), kind: core.BlockedOn, text: "a device"},
		{err: outcome.Requeue(time.Second), kind: core.DoneAgain},
		{err: outcome.RequeueBackoff(), kind: core.DoneAgain},
		{err: errors.Join(outcome.Requeue(0), errNo), kind: core.Failed, text: "requeued after 0s\nno"},
		{err: errNo, tries: 2, most: 3, kind: core.Failed, text: "no"},
		{err: errNo, tries: 3, most: 3, kind: core.FailedForGood, text: "given up after 3 retries: no"},
		// A deletion is never given up, and never final.
		{err: errNo, deletion: true, tries: 3, most: 3, kind: core.Failed, text: "no"},
		{err: outcome.TerminalError(errNo), deletion: true, kind: core.Failed, text: "no"},
		{err: outcome.Requeue(0), deletion: true, kind: core.Deleting, text: "still deleting"},
		{err: outcome.Blocked("a lock"), deletion: true, kind: core.BlockedOn, text: "a lock"},
	} {
		var r core.Outcome[int]
		outcome.Classify(&r, c.err, c.deletion, c.tries, c.most)
		require.Equal(t, c.kind, r.Kind, "%v", c.err)
		require.Equal(t, strings.HasPrefix(c.text, "given up"), r.GivenUp)
		if c.text != "" {
			require.Equal(t, c.text, outcome.Text(&r, c.err, c.tries))
		}
	}
}

func TestLongTextIsCutAndKeepsItsOutcome(t *testing.T) {
	long := errors.New(strings.Repeat("x", outcome.MaxText+1))
	class := func(error) string { return "disk" }
	kept := outcome.Keep(outcome.TerminalError(long), class)
	require.LessOrEqual(t, len(kept.Error()), outcome.MaxText)
	require.True(t, outcome.Is(kept, core.FailedForGood))
	require.Equal(t, "disk", kept.(*outcome.Cut).Class)
	require.Same(t, errNo, outcome.Keep(errNo, class))
	require.NoError(t, outcome.Keep(nil, class))
}

func TestClassLeavesOutNumbersAndNames(t *testing.T) {
	for text, class := range map[string]string{
		"route 10.1 of eth0: refused": "route #.# of #: refused",
		"eth0":                        "#", "meth0d": "meth#d", "": "", "after 12 s and 7 s": "after # s and # s",
	} {
		require.Equal(t, class, outcome.PlainClass(text, "eth0"))
	}
}

func TestPanicOfTheErrorMethodBecomesAText(t *testing.T) {
	var p *broken
	require.Contains(t, outcome.TextOf(p), "panic in the Error method of *outcome_test.broken")
	require.Nil(t, outcome.Of(p))
}

type broken struct{ text string }

func (b *broken) Error() string { return b.text }
func (b *broken) Unwrap() error { return errors.New(b.text) }

func TestOfSeveralDelaysTheLongestRetryAndTheShortestRequeueCount(t *testing.T) {
	retry := func(d time.Duration) error { return outcome.RetryAfter(errNo, d) }
	require.Equal(t, 2*time.Second, outcome.Of(errors.Join(retry(time.Second), retry(2*time.Second))).Delay)
	require.Equal(t, time.Second, outcome.Of(errors.Join(outcome.Requeue(2*time.Second), outcome.Requeue(time.Second))).Delay)
}
