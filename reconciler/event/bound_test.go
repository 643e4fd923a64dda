// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"math/bits"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

// held returns the number of heap bytes in use.
func held() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// randomText returns a unique text of a random length up to about most. It is a piece of a long text, such as a line
// of a command's output, which must not stay in memory.
func randomText(rng *rand.Rand, most int) string {
	whole := strconv.FormatUint(rng.Uint64(), 36) + strings.Repeat("é", most/2)
	return whole[:13+2*(1<<rng.IntN(bits.Len(uint(most))-2))]
}

// randomEvent returns an event with a part that is long or has many pieces.
func randomEvent(rng *rand.Rand) (object.Object, event.Event) {
	obj := &object.Meta{Namespace: "prod", Name: strconv.FormatUint(rng.Uint64(), 36)}
	const longest = 1 << 18
	e := event.Warning("Failed", errText(strconv.FormatUint(rng.Uint64(), 36)))
	switch rng.IntN(6) {
	case 0:
		e.Message = randomText(rng, longest)
	case 1:
		e.Type = event.Type(randomText(rng, longest))
	case 2:
		e.Reason = event.Reason(randomText(rng, longest))
	case 3:
		obj.Name = randomText(rng, longest)
	case 4:
		obj.Namespace = randomText(rng, longest)
	case 5:
		e.Source = randomText(rng, longest)
	}
	return obj, e
}

// Each pending event and each row has texts of bounded size.
func TestMemoryIsBounded(t *testing.T) {
	const events = 3000
	// A row has its texts, and its key in the indexes.
	const most = 1024 * 2 * 6 * event.MaxText
	for name, running := range map[string]bool{"pending": false, "in the table": true} {
		t.Run(name, func(t *testing.T) {
			inTable(t, func(e *env) {
				if running {
					defer e.run()()
				}
				seed := rand.Uint64()
				rng := rand.New(rand.NewPCG(seed, 0))
				before := held()
				for i := range events {
					e.recorder.Event(randomEvent(rng))
					if i%500 == 0 && running {
						e.written()
					}
				}
				e.written()
				after := held()
				e.Logf("seed %d: %d bytes held, %d allowed", seed, after-min(before, after), most)
				require.Less(e, after, before+most)
				runtime.KeepAlive(e.recorder)
			})
		})
	}
}

func TestCutTextsEndWithTheNumberOfBytesLeftOut(t *testing.T) {
	inTable(t, func(e *env) {
		defer e.run()()
		short := event.Normal("r", strings.Repeat("x", event.MaxText))
		e.recorder.Event(named("a"), short)
		e.recorder.Event(named("b"), event.Event{Reason: "r", Message: strings.Repeat("é", event.MaxText)})
		e.written()
		rows := map[string]*event.Row{}
		for row := range e.table.All(e.db.ReadTxn()) {
			rows[row.Name] = row
		}
		require.Equal(e, short.Message, rows["a"].Message)
		cut := rows["b"]
		require.LessOrEqual(e, len(cut.Message), event.MaxText)
		require.True(e, utf8.ValidString(cut.Message))
		require.Regexp(e, `^(é)+\.\.\. \(\d+ bytes left out\)$`, cut.Message)
	})
}
