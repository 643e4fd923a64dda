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
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// long returns word followed by a mebibyte of runes of two bytes.
func long(word string) string { return word + strings.Repeat("é", 1<<19) }

// A text that is too long is cut, and ends with the number of bytes left out. The outcome of the error
// still counts.
func TestLongErrorTextIsCut(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		kind  reconciler.StatusKind
		again []time.Duration
	}{
		"plain":       {errors.New(long("no")), reconciler.StatusKindError, backoff},
		"terminal":    {reconciler.TerminalError(errors.New(long("no"))), reconciler.StatusKindError, once},
		"retry after": {reconciler.RetryAfter(errors.New(long("no")), 4*time.Second), reconciler.StatusKindError, seconds(0, 4, 8)},
		"blocked":     {reconciler.Blocked(long("no")), reconciler.StatusKindBlocked, once},
		"wrapped":     {fmt.Errorf("no: %w", reconciler.TerminalError(errors.New(long("")))), reconciler.StatusKindError, once},
	} {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(e *env) {
				e.target.deciding(func(call) error { return c.err })
				start := time.Now()
				e.put(1, 1)
				e.pass(10 * time.Second)
				require.Equal(e, c.again, since(start, e.target.take()))
				s := e.get(1).Status
				require.Equal(e, c.kind, s.Kind)
				text := s.GetError()
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
	const objects, longest, seconds = 64, 1 << 18, 20
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
				// failures with up to 1 MiB of texts for longer. Whole texts would take eight times as
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

// Errors that differ only in their object have one class. Errors that wrap the same error in different
// texts have different classes.
func TestDefaultClassesDistinguishProblems(t *testing.T) {
	exit := errors.New("exit status 1")
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			if c.id%2 == 0 {
				return fmt.Errorf("nft: %d: %w", c.id, exit)
			}
			return fmt.Errorf("ip route: %w", exit)
		})
		e.put(1, ids(1, 10)...)
		e.pass(10 * time.Millisecond)
		got := map[string]uint64{}
		for _, c := range e.loop.Snapshot(e.Context()).Errors {
			got[c.Class] = c.Count
		}
		require.Equal(e, map[string]uint64{"nft: #: exit status #": 5, "ip route: exit status #": 5}, got)
		require.Equal(e, 2, strings.Count(e.Logged(), "operation failed"))
	}, nil, reconciler.WithRetry(time.Hour, time.Hour))
}
