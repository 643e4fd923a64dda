// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

var programFunctions = []string{"Clone", "GetStatus", "SetStatus", "group", "paused", "merge", "ErrorClass", "Error", "key"}

// fault makes one call of one function fail.
type fault struct {
	mu       sync.Mutex
	function string
	// skipped is the number of calls that succeed before the one that fails.
	skipped int
	// test is the goroutine of the test. If here is true, only calls on this goroutine count, else only
	// calls on others.
	test   string
	here   bool
	fail   func()
	failed bool
}

func (f *fault) Error() string { f.in("Error"); return "busy" }

// in is called by each function of the program. It fails if this is the call to fail.
func (f *fault) in(function string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed || f.function != function || (goroutine() == f.test) != f.here {
		return
	}
	if function == "key" && bytes.Contains(debug.Stack(), []byte("graveyard")) {
		return // Goexit on statedb's own goroutine would keep the table locked.
	}
	if f.skipped--; f.skipped < 0 {
		f.failed = true
		f.fail()
	}
}

func (f *fault) arm(function string, skipped int, here bool, fail func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.function, f.skipped, f.test, f.here, f.fail = function, skipped, goroutine(), here, fail
}

// goroutine returns the ID of the calling goroutine.
func goroutine() string {
	var header [64]byte
	return string(bytes.Fields(header[:runtime.Stack(header[:], false)])[1])
}

// faulty starts a loop whose functions have a fault, and returns a channel with the result of its Run.
func faulty(t *testing.T, workers int) (*env, *fault, <-chan error) {
	e, f := newEnv(t), &fault{}
	own := idIndex
	own.FromObject = func(o *object) index.KeySet { f.in("key"); return idIndex.FromObject(o) }
	var err error
	e.table, err = statedb.NewTable(e.db, "faulty", own)
	require.NoError(t, err)
	cfg := e.config(reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
	cfg.SerialBy = func(o *object) string { f.in("group"); return fmt.Sprint(o.ID % 3) }
	cfg.Merge = func(current, _ *object) *object { f.in("merge"); return current }
	cfg.Clone = func(o *object) *object { f.in("Clone"); return o.Clone() }
	cfg.GetStatus = func(o *object) reconciler.Status { f.in("GetStatus"); return o.Status }
	cfg.SetStatus = func(o *object, s reconciler.Status) *object { f.in("SetStatus"); return o.SetStatus(s) }
	cfg.ErrorClass = func(error) string { f.in("ErrorClass"); return "class" }
	e.target.deciding(func(c call) error {
		if c.id == 2 || c.op == "delete" {
			return f
		}
		return nil
	})
	e.target.before = func(ctx context.Context, c call) {
		if c.id != 3 {
			return
		}
		wtxn := e.db.WriteTxn(e.table)
		defer wtxn.Abort()
		if row, _, found := e.table.Get(wtxn, idIndex.Query(c.id)); found {
			_, _, _ = e.table.Insert(wtxn, row.Clone().SetOther(reconciler.StatusDone()))
			wtxn.Commit()
			_ = reconciler.Checkpoint(ctx, row)
		}
	}
	e.loop, err = reconciler.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); synctest.Wait() })
	ended := make(chan error, 1)
	go func() { ended <- e.loop.Run(ctx) }()
	synctest.Wait()
	return e, f, ended
}

// askEverything calls the methods that take a lock of the loop or of the table.
func (e *env) askEverything() {
	ctx, cancel := context.WithTimeout(e.Context(), time.Second)
	defer cancel()
	_, _ = e.loop.Snapshot(ctx), e.loop.Explain(ctx, "2")
	_, _ = e.loop.Objects(ctx, inspect.ObjectQuery{})
	_, _, _ = e.loop.Keys("", 10), e.loop.Figures(), e.loop.Events(inspect.EventQuery{})
	_, _ = e.loop.PauseOnly("1"), e.loop.PauseOnly()
	_, _ = e.loop.Refresh(ctx, "1")
	_, _ = e.loop.Retry(ctx, "2")
	_, _ = e.loop.WaitKey(ctx, "1", reconciler.Applied)
	_, _ = e.loop.WaitAll(ctx, reconciler.Applied)
}

// live makes the loop call each function of the program.
func (e *env) live(f *fault) {
	e.put(1, ids(1, 5)...)
	e.pass(time.Second)
	e.loop.PauseObjects(func(*object) bool { f.in("paused"); return false })
	e.put(2, 1, 2)
	e.remove(4)
	e.pass(time.Minute)
	_, _ = e.loop.Refresh(e.Context())
	e.askEverything()
}

// SECURITY.md promises that locks are released if a function of the program ends its goroutine. Run
// returns an error or the loop continues, and both the table and the loop answer queries.
func TestFunctionThatEndsItsGoroutineHoldsNoLock(t *testing.T) {
	for _, workers := range []int{1, 3} {
		for _, function := range programFunctions {
			t.Run(fmt.Sprintf("%s %d", function, workers), func(t *testing.T) {
				thinned(t, func(t *testing.T, skipped int) bool {
					e, f, ended := faulty(t, workers)
					f.arm(function, skipped, false, runtime.Goexit)
					e.live(f)
					e.put(3, 9)
					e.pass(time.Minute)
					if e.kind(9) != reconciler.StatusKindDone {
						require.ErrorContains(t, <-ended, goexitText, "call %d", skipped)
					}
					return f.failed
				})
			})
		}
	}
}

// The loop continues if a function panics on the goroutine of a query, and that goroutine recovers, as
// in a web server.
func TestFunctionThatPanicsInAQueryHoldsNoLock(t *testing.T) {
	for _, function := range programFunctions {
		t.Run(function, func(t *testing.T) {
			thinned(t, func(t *testing.T, skipped int) bool {
				e, f, _ := faulty(t, 1)
				e.put(1, ids(1, 5)...)
				e.pass(time.Second)
				f.arm(function, skipped, true, crash)
				func() {
					defer func() { _ = recover() }()
					e.askEverything()
				}()
				failed := f.failed
				f.arm("", 0, true, nil)
				e.live(f)
				e.put(3, 9)
				e.pass(time.Minute)
				require.Equal(t, reconciler.StatusKindDone, e.kind(9), "call %d", skipped)
				return failed
			})
		})
	}
}

// thinned runs a test in a bubble for each of the first calls that can fail. Later it skips more and
// more calls, until there are no more.
func thinned(t *testing.T, test func(t *testing.T, skipped int) (failed bool)) {
	for skipped, failed := 0, true; failed; skipped += 1 + skipped/8 {
		synctest.Test(t, func(t *testing.T) { failed = test(t, skipped) })
	}
}
