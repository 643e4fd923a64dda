// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// crashVariable is the environment variable that tells the helper process which operation panics:
// "kind operation workers".
const crashVariable = "STATEKEEL_TEST_CRASH"

const (
	panicText  = "out of cheese"
	surviveFor = 5 * time.Minute
)

// panicking has the user code that may panic: "kind operation workers". In "commit", SetStatus panics while the table
// is locked.
var panicking = []string{
	"single update 1", "get update 4", "single update 4", "single delete 4", "single prune 4", "batches update 4", "batches delete 1",
	"rounds update 4", "commit update 1",
}

// With Config.PanicPropagation a panic of an operation ends the program. The output has its text
// and the stack of the panic. The program runs in its own process.
func TestPropagatedPanicEndsTheProgram(t *testing.T) {
	few := panicking
	if long.Times(1) == 1 {
		few = few[1:5]
	}
	for _, name := range few {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), surviveFor)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCrashingProgram$", "-test.count=1")
			cmd.Env = append(os.Environ(), crashVariable+"="+name, "GOCOVERDIR="+t.TempDir())
			output, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "the program is still alive: %s", output)
			require.Equal(t, 2, exit.ExitCode(), "%s", output)
			require.Contains(t, string(output), "panic: "+panicText)
			require.Contains(t, string(output), "reconciler_test.crash(", "the stack")
			require.NotContains(t, string(output), "fatal error")
		})
	}
}

// TestCrashingProgram is the program of TestPropagatedPanicEndsTheProgram.
func TestCrashingProgram(t *testing.T) {
	var kind, operation string
	var workers int
	if n, _ := fmt.Sscanf(os.Getenv(crashVariable), "%s %s %d", &kind, &operation, &workers); n != 3 {
		t.Skip("is run by TestPropagatedPanicEndsTheProgram")
	}
	e := newEnv(t)
	e.target.before = func(ctx context.Context, c call) {
		if c.op == operation && kind != "commit" && (c.id == 1 || operation == "prune") {
			crash()
		}
		if c.id == 2 {
			// The program ends without waiting for this operation.
			time.Sleep(time.Hour)
		}
	}
	e.target.failing("no")
	options := []reconciler.Option{
		reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithPruning(time.Hour),
	}
	cfg := e.config(options...)
	cfg.PanicPropagation = true
	if kind == "commit" {
		cfg.SetStatus = func(o *object, s reconciler.Status) *object { crash(); return o }
	}
	if kind == "get" {
		g := &getting{world: &world{target: e.target}}
		g.gives(func(context.Context, uint64) (*object, bool, error) { crash(); return nil, false, nil })
		cfg = e.config(options[0])
		cfg.Lister, cfg.Equal, cfg.PanicPropagation, e.target.before = g, func(_, _ *object) bool { return true }, true, nil
	}
	operate(kind)(e, &cfg)
	if operation == "delete" {
		e.target.failing("")
	}
	first := []uint64{1}
	if workers > 1 && operation != "prune" {
		first = []uint64{2, 1}
	}
	e.start(cfg)
	for _, id := range first {
		e.put(1, id)
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	e.remove(1)
	time.Sleep(surviveFor)
}

func crash() { panic(panicText) }

// By default a panic is an error of its object and is retried like any other error.
func TestPanicIsAnErrorThatIsRetried(t *testing.T) {
	singly(t, func(e *env) {
		e.target.deciding(func(c call) error {
			if c.id == 2 {
				crash()
			}
			return nil
		})
		start := time.Now()
		e.put(1, ids(1, 3)...)
		e.pass(time.Second)
		calls := slices.DeleteFunc(e.target.take(), func(c call) bool { return c.id != 2 })
		require.Equal(e, seconds(0, 0.1, 0.3, 0.7), since(start, calls))
		require.Contains(e, e.get(2).Status.GetError(), panicText)
		require.Contains(e, e.Logged(), "reconciler_test.crash(", "the stack")
		require.Equal(e, 1, e.notDone(ids(1, 3)...))
		e.target.failing("")
		e.pass(time.Minute)
		e.eachDone()
	})
}

// halfway is a target that panics after it has set the results of some entries of a batch.
type halfway struct{ *target }

func (h halfway) UpdateBatch(_ context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	for i := range batch {
		switch batch[i].Object.ID {
		case 1:
			batch[i].Result = errPlain
		case 2:
			batch[i].Result = reconciler.Requeue(time.Hour)
		}
	}
	crash()
}

func (h halfway) DeleteBatch(context.Context, statedb.ReadTxn, []reconciler.BatchEntry[*object]) {
	crash()
}

// Results that a batch set before its panic are kept. The entries without a result fail.
func TestPanicInABatchFailsEntriesWithoutResult(t *testing.T) {
	eachConcurrency(t, "batches", func(e *env) {
		e.put(1, ids(1, 4)...)
		e.pass(50 * time.Millisecond)
		e.status(1, reconciler.StatusKindError, "plain")
		e.status(2, reconciler.StatusKindDone, "")
		e.status(3, reconciler.StatusKindError, "panic in batch: "+panicText)
		e.status(4, reconciler.StatusKindError, "panic in batch: "+panicText)
		e.remove(ids(1, 4)...)
		e.pass(50 * time.Millisecond)
		_, message, _ := e.health.Now()
		require.Equal(e, "4 error(s)", message)
	}, func(e *env, cfg *reconciler.Config[*object]) { cfg.BatchOperations = halfway{e.target} })
}

const goexitText = "the operation called runtime.Goexit"

// exiting makes the operations for which exits returns true call runtime.Goexit, as FailNow does in a
// fake.
func (x *target) exiting(exits func(c call) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.before = func(_ context.Context, c call) {
		if exits(c) {
			x.mu.Lock()
			x.end(c)
			x.mu.Unlock()
			runtime.Goexit()
		}
	}
}

// updatesUpTo selects the updates of the objects whose IDs are at most last.
func updatesUpTo(last uint64) func(c call) bool {
	return func(c call) bool { return c.op == "update" && c.id <= last }
}

// An operation on a worker that calls runtime.Goexit fails like any other. Its worker is replaced, and
// other operations and prunes continue.
func TestGoexitOnAWorkerIsAFailure(t *testing.T) {
	withWorkers(t, []int{4}, func(e *env, _ int) {
		e.target.exiting(updatesUpTo(4))
		e.put(1, ids(1, 10)...)
		e.pass(20 * time.Millisecond)
		require.Contains(e, e.get(1).Status.GetError(), goexitText)
		_, message, _ := e.health.Now()
		require.Contains(e, message, "error(s)")
		e.loop.Prune()
		e.pass(time.Minute)
		require.Contains(e, e.target.calls(), "prune(10)")
		e.target.exiting(updatesUpTo(0))
		e.pass(2 * time.Minute)
		e.eachDone()
	}, reconciler.WithRoundLimits(1, nil), reconciler.WithoutPruning())
}

// runEnds starts a loop, calls then, and returns the result of Run, which must come within a minute.
func (e *env) runEnds(cfg reconciler.Config[*object], then func(loop *reconciler.Loop[*object])) error {
	loop, err := reconciler.New(cfg)
	require.NoError(e, err)
	ctx, cancel := context.WithCancel(e.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	synctest.Wait()
	then(loop)
	select {
	case err := <-ended:
		require.NoError(e, ctx.Err())
		return err
	case <-time.After(time.Minute):
		e.Fatal("Run has not returned after a minute")
		return nil
	}
}

var programFunctions = []string{"Clone", "GetStatus", "SetStatus", "group", "paused", "merge", "Error", "key"}

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
	_, _, _ = e.loop.Keys("", 10), e.loop.Figures(), e.loop.Operations(inspect.OperationQuery{})
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
	for skipped, failed := 0, true; failed; skipped += 1 + skipped/(2*long.Times(1)) {
		synctest.Test(t, func(t *testing.T) { failed = test(t, skipped) })
	}
}
