// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest

import (
	"context"
	"sync"
	"testing"

	"github.com/cilium/statedb"
)

// NewDB returns a database that has been started, and is stopped when the test ends.
func NewDB(t testing.TB, opts ...statedb.Option) *statedb.DB {
	t.Helper()
	db := statedb.New(opts...)
	if err := db.Start(); err != nil {
		t.Fatalf("starting the database: %s", err)
	}
	t.Cleanup(func() {
		if err := db.Stop(); err != nil {
			t.Errorf("stopping the database: %s", err)
		}
	})
	return db
}

// Go runs a function, such as the Run method of a reconciler or a trigger, in a goroutine. The
// context of the function ends when the test ends or stop is called. stop waits until the function
// has returned; the test fails if it returned an error. Further calls of stop do nothing.
func Go(t testing.TB, run func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("running until the stop: %s", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
