// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package outcome

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/core"
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
		{err: RetryAfter(errNo, time.Second), kind: core.Failed, text: "no"},
		{err: fmt.Errorf("x: %w", TerminalError(errNo)), kind: core.FailedForGood, text: "x: no"},
		{err: Blocked("a device"), kind: core.BlockedOn, text: "a device"},
		{err: Requeue(time.Second), kind: core.DoneAgain},
		{err: RequeueBackoff(), kind: core.DoneAgain},
		{err: errors.Join(Requeue(0), errNo), kind: core.Failed, text: "requeued after 0s\nno"},
		{err: errNo, tries: 2, most: 3, kind: core.Failed, text: "no"},
		{err: errNo, tries: 3, most: 3, kind: core.FailedForGood, text: "given up after 3 retries: no"},
		// A deletion is never given up, and never final.
		{err: errNo, deletion: true, tries: 3, most: 3, kind: core.Failed, text: "no"},
		{err: TerminalError(errNo), deletion: true, kind: core.Failed, text: "no"},
		{err: Requeue(0), deletion: true, kind: core.Deleting, text: "still deleting"},
		{err: Blocked("a lock"), deletion: true, kind: core.BlockedOn, text: "a lock"},
	} {
		var r core.Outcome[int]
		Classify(&r, c.err, c.deletion, c.tries, c.most)
		require.Equal(t, c.kind, r.Kind, "%v", c.err)
		require.Equal(t, strings.HasPrefix(c.text, "given up"), r.GivenUp)
		if c.text != "" {
			require.Equal(t, c.text, Text(&r, c.err, c.tries))
		}
	}
}

func TestLongTextIsCutAndKeepsItsOutcome(t *testing.T) {
	long := errors.New(strings.Repeat("x", MaxText+1))
	kept := Keep(TerminalError(long))
	require.LessOrEqual(t, len(kept.Error()), MaxText)
	require.True(t, Is(kept, core.FailedForGood))
	require.Same(t, errNo, Keep(errNo))
	require.NoError(t, Keep(nil))
}

func TestClassLeavesOutNumbersAndNames(t *testing.T) {
	for text, class := range map[string]string{
		"route 10.1 of eth0: refused": "route #.# of #: refused",
		"eth0":                        "#", "meth0d": "meth#d", "": "", "after 12 s and 7 s": "after # s and # s",
	} {
		require.Equal(t, class, plainClass(text, "eth0"))
	}
}

func TestPanicOfTheErrorMethodBecomesAText(t *testing.T) {
	var p *broken
	require.Contains(t, TextOf(p), "panic in the Error method of *outcome.broken")
	require.Nil(t, Of(p))
}

// Package fmt panics with the value of the second panic.
func TestValueThatPanicsWithItselfHasAText(t *testing.T) {
	require.Equal(t, "a outcome.worse, whose text panics", TextOfAny(worse{}))
	require.Equal(t, "panic in the Error method of outcome.worse: a outcome.worse, whose text panics", TextOf(worse{}))
}

type worse struct{}

func (w worse) Error() string { panic(w) }

type broken struct{ text string }

func (b *broken) Error() string { return b.text }
func (b *broken) Unwrap() error { return errors.New(b.text) }

func TestOfSeveralDelaysTheLongestRetryAndTheShortestRequeueCount(t *testing.T) {
	retry := func(d time.Duration) error { return RetryAfter(errNo, d) }
	require.Equal(t, 2*time.Second, Of(errors.Join(retry(time.Second), retry(2*time.Second))).Delay)
	require.Equal(t, time.Second, Of(errors.Join(Requeue(2*time.Second), Requeue(time.Second))).Delay)
}

// FuzzSearchOfAnErrorAgreesWithItsModel builds errors that wrap, join and share other errors or
// themselves, and searches them. The search ends after maxNodes visits. Up to that number it finds
// what the model finds.
func FuzzSearchOfAnErrorAgreesWithItsModel(f *testing.F) {
	f.Fuzz(func(t *testing.T, program []byte) {
		b := &errorBuilder{program: program}
		err := b.build()
		got, looks := Of(err), b.looks
		require.LessOrEqual(t, looks, 2*maxNodes, "calls of Unwrap")
		require.Equal(t, Is(err, core.BlockedOn), got != nil && got.Kind == core.BlockedOn)
		require.Equal(t, Is(err, core.FailedForGood), got != nil && got.Kind == core.FailedForGood)

		left := maxNodes
		var m outcomeModel
		if !m.walk(err, &left) {
			return
		}
		m.compare(t, got)
	})
}

// outcomeModel counts the outcomes in an error, without their order.
type outcomeModel struct {
	ordinary, terminal int
	retries, requeues  []time.Duration
	blocked            int
	watch              []<-chan struct{}
}

// walk counts the outcomes in an error. It returns false if the error has more nodes than the search
// visits.
func (m *outcomeModel) walk(err error, left *int) bool {
	if *left--; *left < 0 {
		return false
	}
	if d, is := err.(*Directive); is {
		m.count(d)
		return true
	}
	var inner []error
	switch err := err.(type) {
	case *fuzzedError:
		inner = err.inner
		if err.panics {
			inner = nil
		}
	case interface{ Unwrap() []error }:
		inner = err.Unwrap()
	default:
		inner = []error{errors.Unwrap(err)}
	}
	leaf := true
	for _, e := range inner {
		if e == nil {
			continue
		}
		leaf = false
		if !m.walk(e, left) {
			return false
		}
	}
	if leaf {
		m.ordinary++
	}
	return true
}

func (m *outcomeModel) count(d *Directive) {
	switch {
	case d.Kind == core.FailedForGood:
		m.terminal++
	case d.Kind == core.BlockedOn:
		m.blocked++
		m.watch = append(m.watch, d.Watch...)
	case d.Kind == core.DoneAgain && d.Backoff:
	case d.Kind == core.DoneAgain:
		m.requeues = append(m.requeues, d.Delay)
	default:
		m.retries = append(m.retries, d.Delay)
	}
}

// compare requires that got has the highest rank, and the delay or the channels of all outcomes of
// that rank.
func (m *outcomeModel) compare(t *testing.T, got *Directive) {
	switch {
	case len(m.retries) > 0:
		require.Equal(t, core.Failed, got.Kind)
		require.Equal(t, slices.Max(m.retries), got.Delay)
	case m.blocked > 0:
		require.Equal(t, core.BlockedOn, got.Kind)
		require.Equal(t, m.watch, got.Watch)
	case m.terminal > 0:
		require.Equal(t, core.FailedForGood, got.Kind)
	case m.ordinary > 0:
		require.Nil(t, got)
	case len(m.requeues) > 0:
		require.Equal(t, core.DoneAgain, got.Kind)
		require.False(t, got.Backoff)
		require.Equal(t, slices.Min(m.requeues), got.Delay)
	default:
		require.Equal(t, core.DoneAgain, got.Kind)
		require.True(t, got.Backoff)
	}
}

// fuzzedError wraps some errors, which may be nil or itself. It counts the calls of Unwrap.
type fuzzedError struct {
	inner  []error
	panics bool
	looks  *int
}

func (*fuzzedError) Error() string { return "made up" }
func (e *fuzzedError) Unwrap() []error {
	*e.looks++
	if e.panics {
		panic("no inner errors")
	}
	return e.inner
}

// oneError wraps one error.
type oneError struct {
	inner error
	looks *int
}

func (*oneError) Error() string   { return "made up" }
func (e *oneError) Unwrap() error { *e.looks++; return e.inner }

// errorBuilder builds an error from a program for a stack machine, which pushes errors and wraps
// those on top.
type errorBuilder struct {
	program []byte
	stack   []error
	looks   int
}

func (b *errorBuilder) next() int {
	if len(b.program) == 0 {
		return 0
	}
	n := int(b.program[0])
	b.program = b.program[1:]
	return n
}

// pop returns the top of the stack, or an ordinary error.
func (b *errorBuilder) pop() error {
	if len(b.stack) == 0 {
		return errors.New("plain")
	}
	err := b.stack[len(b.stack)-1]
	b.stack = b.stack[:len(b.stack)-1]
	return err
}

func (b *errorBuilder) build() error {
	var loops []*fuzzedError
	for len(b.program) > 0 {
		var made error
		switch n := b.next(); n % 16 {
		case 0:
			made = errors.New("plain")
		case 1:
			made = RetryAfter(b.pop(), time.Duration(b.next()-1)*time.Second)
		case 2:
			made = TerminalError(b.pop())
		case 3:
			made = Requeue(time.Duration(b.next()-1) * time.Second)
		case 4:
			made = RequeueBackoff()
		case 5:
			made = Blocked("reason", make(chan struct{}), nil)
		case 6:
			made = fmt.Errorf("wrapped: %w", b.pop())
		case 7:
			made = errors.Join(b.pop(), nil, b.pop())
		case 8:
			// The same error in two places: a few of these make an exponential number of ways.
			shared := b.pop()
			made = &fuzzedError{inner: []error{shared, nil, shared}, looks: &b.looks}
		case 9:
			made = &fuzzedError{panics: true, inner: []error{b.pop()}, looks: &b.looks}
		case 10:
			// It will wrap the result of the program, and so itself.
			loop := &fuzzedError{inner: []error{b.pop()}, looks: &b.looks}
			loops, made = append(loops, loop), loop
		case 11, 12:
			made = &oneError{inner: b.pop(), looks: &b.looks}
		case 13, 14:
			wide := &fuzzedError{looks: &b.looks}
			for range b.next() {
				wide.inner = append(wide.inner, b.stack...)
			}
			b.stack, made = nil, wide
		case 15:
			made = fmt.Errorf("%w and %w", b.pop(), b.pop())
		}
		b.stack = append(b.stack, made)
	}
	err := b.pop()
	for _, loop := range loops {
		loop.inner = append(loop.inner, err)
	}
	return err
}
