// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package check

import (
	"strings"
	"sync"
	"testing"
)

// expectations are the tests that want a failure.
var expectations struct {
	sync.Mutex
	by map[testing.TB]*expectation
}

type expectation struct {
	without string
	failure *Failure
}

// Expect lets f check in t, and returns the failure that was found in place of a failure of the test; nil if none was.
// It is for tests of the kit. without leaves out a check, a kind of fault, a kind of way, or [Pairs], by its name; several
// are separated by "; ", empty leaves out none.
func Expect(t testing.TB, without string, f func()) *Failure {
	e := &expectation{without: without}
	expectations.Lock()
	if expectations.by == nil {
		expectations.by = map[testing.TB]*expectation{}
	}
	expectations.by[t] = e
	expectations.Unlock()
	defer func() {
		expectations.Lock()
		delete(expectations.by, t)
		expectations.Unlock()
	}()
	f()
	return e.failure
}

func expected(t testing.TB) *expectation {
	expectations.Lock()
	defer expectations.Unlock()
	return expectations.by[t]
}

// Left returns what a test of the kit leaves out.
func Left(t testing.TB) []string {
	if e := expected(t); e != nil && e.without != "" {
		return strings.Split(e.without, "; ")
	}
	return nil
}

// Expected reports whether a test wants the failure.
func Expected(t testing.TB, failure *Failure) bool {
	e := expected(t)
	if e != nil {
		e.failure = failure
	}
	return e != nil
}
