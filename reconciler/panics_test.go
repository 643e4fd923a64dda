// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// crashVariable is the environment variable that tells the helper process which operation panics:
// "kind operation workers".
const crashVariable = "STATEKEEL_TEST_CRASH"

const (
	panicText  = "out of cheese"
	surviveFor = 30 * time.Second
)

// panicking lists the user code that may panic, by the kind of the operations.
var panicking = map[string][]string{
	"single":  {"update", "delete", "prune"},
	"batches": {"update", "delete", "prune"},
	"rounds":  {"update", "delete", "prune"},
	"class":   {"update"},
	// SetStatus panics while the table is locked.
	"commit": {"update"},
}

// With Config.PanicPropagation a panic of an operation ends the program. The output has its text
// and the stack of the panic. The program runs in its own process.
func TestPropagatedPanicEndsTheProgram(t *testing.T) {
	for kind, operations := range panicking {
		for _, operation := range operations {
			for _, workers := range []int{1, 4} {
				name := fmt.Sprintf("%s %s %d", kind, operation, workers)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					ctx, cancel := context.WithTimeout(t.Context(), surviveFor)
					defer cancel()
					cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCrashingProgram$", "-test.count=1")
					cmd.Env = append(os.Environ(), crashVariable+"="+name, "GOCOVERDIR="+t.TempDir())
					var output bytes.Buffer
					cmd.Stdout, cmd.Stderr = &output, &output
					err := cmd.Run()

					var exit *exec.ExitError
					require.ErrorAs(t, err, &exit, "the program is still alive: %s", &output)
					require.Equal(t, 2, exit.ExitCode(), "%s", &output)
					require.Contains(t, output.String(), "panic: "+panicText)
					require.Contains(t, output.String(), "reconciler_test.crash(", "the stack")
					require.NotContains(t, output.String(), "fatal error")
				})
			}
		}
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
		if c.op == operation && kind != "class" && kind != "commit" && (c.id == 1 || operation == "prune") {
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
	if kind == "class" {
		cfg.ErrorClass = func(error) string { crash(); return "" }
	}
	if kind == "commit" {
		cfg.SetStatus = func(o *object, s reconciler.Status) *object { crash(); return o }
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
		at := map[uint64][]call{}
		for _, c := range e.target.take() {
			at[c.id] = append(at[c.id], c)
		}
		require.Equal(e, seconds(0, 0.1, 0.3, 0.7), since(start, at[2]))
		require.Contains(e, e.get(2).Status.GetError(), panicText)
		require.Contains(e, e.Logged(), "reconciler_test.crash(", "the stack")
		for _, id := range []uint64{1, 3} {
			require.Equal(e, reconciler.StatusKindDone, e.kind(id), "object %d", id)
		}
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

func TestPanicInAPruneIsItsError(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(call) error { crash(); return nil })
		e.loop.Prune()
		synctest.Wait()
		_, _, err := e.health.Now()
		require.EqualError(e, err, "prune: panic in prune: "+panicText)
		e.target.failing("")
		e.pass(time.Second)
		level, _, _ := e.health.Now()
		require.Equal(e, cell.StatusOK, level)
	}, nil)
}
