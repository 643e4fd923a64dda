// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest_test

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/edge"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// failing checks operations in a process of its own, because what they leave behind would be found in the other tests. It
// returns what the test said, which has failed.
func failing(t *testing.T, operations func(s *store) reconciler.Operations[*entry]) string {
	t.Helper()
	return failingIn(t, func() { reconcilertest.Check(t, subject(operations)) })
}

// failingIn runs a check in a process of its own.
func failingIn(t *testing.T, check func()) string {
	t.Helper()
	if os.Getenv("STATEKEEL_FAILING") != "" {
		check()
		t.SkipNow() // the parent wants a failure of Check
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), "STATEKEEL_FAILING=1")
	said, err := c.CombinedOutput()
	require.Error(t, err)
	return string(said)
}

// deaf waits for an answer that never comes when there are three values, and does not heed its context.
type deaf struct{ healthy }

func (d deaf) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	if len(e.Values) == 3 {
		<-make(chan struct{})
	}
	return d.healthy.Update(ctx, txn, revision, e)
}

func TestAnOperationThatNeverReturnsIsFound(t *testing.T) {
	said := failing(t, func(s *store) reconciler.Operations[*entry] { return deaf{healthy{s}} })
	require.Contains(t, said, "an operation misbehaves")
	require.Contains(t, said, "update b does not heed its context")
}

// slow goes on for half a minute after the end of its context, and then returns.
type slow struct{ healthy }

func (s slow) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	err := s.healthy.Update(ctx, txn, revision, e)
	if ctx.Err() != nil {
		time.Sleep(30 * time.Second)
	}
	return err
}

func TestAnOperationThatIsLateAfterItsContextIsFound(t *testing.T) {
	s := subject(func(s *store) reconciler.Operations[*entry] { return slow{healthy{s}} })
	failure := check.Expect(t, "", func() { reconcilertest.Check(t, s) })
	require.NotNil(t, failure)
	require.Contains(t, failure.Text, "does not heed its context")
}

// littering leaves a goroutine behind.
type littering struct{ healthy }

func (l littering) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	go func() { <-make(chan struct{}) }()
	return l.healthy.Delete(ctx, txn, revision, e)
}

func TestAGoroutineThatOutlivesTheStopIsFound(t *testing.T) {
	said := failing(t, func(s *store) reconciler.Operations[*entry] { return littering{healthy{s}} })
	require.Contains(t, said, "goroutines outlive the stop")
	require.Contains(t, said, "littering.Delete")
}

// locking holds a lock of the target around its steps.
type locking struct {
	healthy
	mu *sync.Mutex
}

func (l locking) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return edge.Do(ctx, "set", func() error {
		l.store.mu.Lock()
		defer l.store.mu.Unlock()
		l.data[e.Key] = ""
		return nil
	})
}

// A lock around a step holds up virtual time: the watchdog ends the test, and says which calls have not returned.
func TestALockAroundAStepEndsTheTest(t *testing.T) {
	var mu sync.Mutex
	said := failing(t, func(s *store) reconciler.Operations[*entry] { return locking{healthy{s}, &mu} })
	require.Contains(t, said, "Something waits for a mutex that a step holds")
	require.Contains(t, said, `At these the program was killed: ["update a, set"]`)
}
