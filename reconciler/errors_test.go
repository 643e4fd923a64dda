// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// lengthy returns word followed by 128 KiB of runes of two bytes.
func lengthy(word string) string { return word + strings.Repeat("é", 1<<16) }

// A text that is too long is cut, and ends with the number of bytes left out. The outcome of the error
// still counts.
func TestLongErrorTextIsCut(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		kind  reconciler.StatusKind
		again []time.Duration
	}{
		"plain":       {errors.New(lengthy("no")), reconciler.StatusKindError, backoff},
		"retry after": {reconciler.RetryAfter(errors.New(lengthy("no")), 4*time.Second), reconciler.StatusKindError, seconds(0, 4, 8)},
		"blocked":     {reconciler.Blocked(lengthy("no")), reconciler.StatusKindBlocked, once},
		"wrapped":     {fmt.Errorf("no: %w", reconciler.TerminalError(errors.New(lengthy("")))), reconciler.StatusKindError, once},
	} {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(e *env) {
				e.target.deciding(func(call) error { return c.err })
				start := time.Now()
				e.put(1, 1)
				e.pass(10 * time.Second)
				require.Equal(e, c.again, since(start, e.target.take()))
				require.Equal(e, c.kind, e.kind(1))
				text := e.get(1).Status.GetError()
				require.True(e, strings.HasPrefix(text, "no"))
				require.True(e, utf8.ValidString(text))
				require.LessOrEqual(e, len(text), reconciler.MaxErrorText)
				var left int
				_, err := fmt.Sscanf(text[strings.LastIndex(text, "... ("):], "... (%d bytes left out)", &left)
				require.NoError(e, err)
				require.Equal(e, len(c.err.Error()), strings.LastIndex(text, "... (")+left)
				x := e.loop.Explain(e.Context(), "1")
				require.LessOrEqual(e, len(x.Error)+len(x.BlockedOn), reconciler.MaxErrorText)
				require.Less(e, len(e.Logged()), 20*reconciler.MaxErrorText)
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
		})
	}
}

// The reconciler keeps a bounded part of each text that the program returns in errors, reasons, panics
// and notes.
func TestMemoryOfFailuresIsBounded(t *testing.T) {
	const objects, longest, seconds = 64, 1 << 17, 8
	for _, kind := range []string{"single", "batches"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, func(e *env) {
				seed := rand.Uint64()
				e.Logf("seed %d", seed)
				rng := rand.New(rand.NewPCG(seed, 0))
				said := 0
				e.target.mu.Lock()
				e.target.before = func(ctx context.Context, c call) {
					reconciler.Note(ctx, strings.Repeat("n", rng.IntN(longest)))
				}
				e.target.mu.Unlock()
				e.target.deciding(func(c call) error {
					said++
					text := fmt.Sprint(said, strings.Repeat("x", rng.IntN(longest)))
					switch rng.IntN(4) {
					case 0:
						return reconciler.Blocked(text)
					case 1:
						return fmt.Errorf("wrapped: %w", errors.New(text))
					case 2:
						panic(text)
					}
					return errors.New(text)
				})
				before := held()
				e.put(1, ids(1, objects)...)
				for range seconds {
					e.pass(time.Second)
					e.target.take()
				}
				require.GreaterOrEqual(e, said, seconds, "a panic ends the call of a batch early")
				// Rows, classes and operations in the journal have one text each. The journal keeps
				// failures with up to 1 MiB of texts for longer. Whole texts would take several times as
				// much.
				most := uint64(objects+32+1024)*reconciler.MaxErrorText + 1<<20
				after := held()
				e.Logf("%d errors of %d bytes at most: %d bytes held, %d allowed", said, longest, after-min(before, after), most)
				require.Less(e, after, before+most)
				e.target.prompt()
				e.pass(time.Hour)
				e.eachDone()
			}, func(e *env, cfg *reconciler.Config[*object]) {
				operate(kind)(e, cfg)
				cfg.Log = nil
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = time.Second }), reconciler.WithRetry(time.Second, time.Second))
		})
	}
}

// held returns how many bytes of the heap are in use.
func held() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A short text may be a slice of a long one. Keeping the short text must not keep the long one in
// memory.
func TestKeptTextDoesNotPinTheLongOne(t *testing.T) {
	for _, kind := range []string{"error", "note", "reason"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.mu.Lock()
				e.target.before = func(ctx context.Context, c call) {
					if kind == "note" {
						reconciler.Note(ctx, (fmt.Sprint("note of ", c.id) + strings.Repeat("n", 1<<20))[:20])
					}
				}
				e.target.mu.Unlock()
				e.target.deciding(func(c call) error {
					text := (fmt.Sprintf("%030d", c.id) + strings.Repeat("n", 1<<20))[:30]
					if kind == "reason" {
						return reconciler.Blocked(text)
					} else if kind == "note" {
						return nil
					}
					return errors.New(text)
				})
				held()
				before := held()
				e.put(1, ids(1, 30)...)
				e.pass(time.Second)
				e.target.take()
				require.Less(e, held(), before+10<<20)
				e.target.deciding(nil)
				e.pass(time.Hour)
			}, func(e *env, cfg *reconciler.Config[*object]) {
				cfg.Log = nil
			}, reconciler.WithoutPruning())
		})
	}
}

// A prune that fails is retried after the backoff of objects, and logged as rarely as they are. A resync above its
// budget is no failure.
func TestPrunesThatFailAreLoggedAtABoundedRate(t *testing.T) {
	relisting(t, func(e *env, s *lister) {
		s.strays(1, 2)
		s.failing("no route")
		e.relist()
		e.pass(29 * time.Second)
		require.Equal(e, 1, strings.Count(e.Logged(), "resync failed"), e.Logged())
		s.failing("")
		e.pass(time.Minute + time.Second)
		awaits := strings.Count(e.Logged(), "resync awaits approval")
		require.NotZero(e, awaits, e.Logged())
		require.LessOrEqual(e, awaits, 3)
		require.Equal(e, 1, strings.Count(e.Logged(), "resync failed"), e.Logged())
		_, message, _ := e.health.Now()
		require.Equal(e, "a resync awaits approval", message)
	}, reconciler.WithOrphanBudget(1, 0))
}

// hostileKey is a text that does harm on a terminal and in hive's shell.
const hostileKey = "a\x1b[31m\n<<end>>\x00"

// printable requires that a text has no control characters except line ends, and that no line
// begins with the <<end>> of hostileKey.
func printable(t testing.TB, what, text string) {
	t.Helper()
	for _, r := range text {
		require.True(t, unicode.IsPrint(r) || r == '\n', "%s: %q", what, text)
	}
	require.NotContains(t, text, "\n<<end>>", what)
}

// Keys, names and errors from outside are escaped in errors, in health and in rendered texts.
func TestHostileTextsAreEscapedInErrorsAndHealth(t *testing.T) {
	for name, opts := range map[string][]reconciler.Option{
		"errors": nil, "breaker": {breaksAfter(1)},
	} {
		t.Run(name, func(t *testing.T) {
			reconcilertest.Run(t, newNames, func(e *reconcilertest.Env[*named]) {
				target, reports, registry := noNames(), &reconcilertest.Health{}, &inspect.Registry{}
				target.fails[hostileKey] = fmt.Errorf("cannot apply %s: %w", hostileKey, errors.New("refused"))
				loop := e.Start(inNames(reconciler.Config[*named]{
					Operations: target, Health: reports,
					Options: append(opts, reconciler.WithName(hostileKey), reconciler.WithRegistry(registry),
						reconciler.WithoutPruning(), reconciler.WithRetry(time.Hour, time.Hour)),
				}))
				row := wantedName(hostileKey)
				e.Insert(row)
				e.Pass(time.Second)
				_, message, wrong := reports.Scope("reconcile-" + hostileKey).Now()
				require.ErrorContains(t, wrong, "cannot apply")
				printable(t, "health", message+wrong.Error())

				unknown := "x" + hostileKey
				ctx := e.Context()
				short, stop := context.WithTimeout(ctx, time.Second)
				defer stop()
				errs := map[string]error{}
				_, errs["retry"] = loop.Retry(ctx, unknown)
				_, errs["refresh"] = loop.Refresh(ctx, unknown)
				errs["pause"] = operator.Pause(ctx, loop, unknown)
				errs["resume"] = operator.Resume(ctx, loop, unknown)
				_, errs["wait key"] = loop.WaitKey(ctx, unknown, reconciler.Applied)
				_, errs["find"] = registry.Find(unknown)
				unapplied, err := loop.WaitFor(short, reconciler.Applied, row)
				errs["wait for"] = err
				require.Len(t, unapplied.Keys, 1)
				errs["unapplied"] = unapplied.Keys[0]
				for what, err := range errs {
					require.Error(t, err, what)
					printable(t, what, err.Error())
				}
				printable(t, "explanation", loop.Explain(ctx, hostileKey).String())
				printable(t, "snapshot", loop.Snapshot(ctx).String())
			})
		})
	}
}
