// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"bytes"
	"log/slog"
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

// randomText returns a unique text of a random length up to about most. Long texts also differ at
// their end.
func randomText(rng *rand.Rand, most int) string {
	return strconv.FormatUint(rng.Uint64(), 36) + strings.Repeat("é", rng.IntN(most/2)) + strconv.FormatUint(rng.Uint64(), 36)
}

// randomEvent returns an event with a part that is long or has many pieces.
func randomEvent(rng *rand.Rand) (object.Object, event.Event) {
	obj := &object.Meta{Namespace: "prod", Name: strconv.FormatUint(rng.Uint64(), 36)}
	const longest = 1 << 19
	e := event.Warning("Failed", errText(strconv.FormatUint(rng.Uint64(), 36)))
	switch rng.IntN(8) {
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
		e.Annotations = map[string]string{event.SourceAnnotation: randomText(rng, longest)}
	case 6:
		e.Annotations = map[string]string{randomText(rng, longest): "", "a": randomText(rng, longest)}
	case 7:
		e.Annotations = map[string]string{}
		for i := range rng.IntN(longest / 64) {
			e.Annotations[strconv.Itoa(i)] = ""
		}
	}
	return obj, e
}

// Each pending event and each row has texts of bounded size.
func TestMemoryOfEventsIsBounded(t *testing.T) {
	const places, events = 64, 512
	// A row has its texts, and its key in the indexes.
	const most = places * 2 * (event.MaxText + 6*event.MaxName)
	for name, running := range map[string]bool{"pending": false, "in the table": true} {
		t.Run(name, func(t *testing.T) {
			inTable(t, event.TableConfig{MaxRows: places, MaxPending: places}, func(e *env) {
				if running {
					defer e.run()()
				}
				seed := rand.Uint64()
				rng := rand.New(rand.NewPCG(seed, 0))
				before := held()
				for i := range events {
					obj, occurred := randomEvent(rng)
					e.recorder.Event(obj, occurred)
					if i%places == 0 && running {
						e.written()
					}
				}
				e.written()
				after := held()
				e.Logf("seed %d: %d bytes held, %d allowed", seed, after-min(before, after), most)
				require.Less(e, after, before+most)
			})
		})
	}
}

// A throttle tracks many subjects, each with bounded names.
func TestMemoryOfThrottleIsBounded(t *testing.T) {
	const remembered, events = 64, 512
	const most = remembered * 4 * 6 * event.MaxName
	throttled, err := event.NewThrottledRecorder(event.NewNopRecorder(), event.Throttle{Remembered: remembered})
	require.NoError(t, err)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	before := held()
	for range events {
		obj, e := randomEvent(rng)
		e.Type = event.TypeWarning
		throttled.Event(obj, e)
	}
	after := held()
	t.Logf("seed %d: %d bytes held, %d allowed", seed, after-min(before, after), most)
	require.Less(t, after, before+most)
	runtime.KeepAlive(throttled)
}

// A cut text ends with the number of bytes left out. A short text is unchanged.
func TestCutTextsEndWithTheNumberOfBytesLeftOut(t *testing.T) {
	inTable(t, event.TableConfig{}, func(e *env) {
		defer e.run()()
		annotations := map[string]string{"long": strings.Repeat("é", event.MaxText), "short": "kept", event.SourceAnnotation: "tunnels"}
		for i := range 400 {
			annotations["n"+strconv.Itoa(1000+i)] = "v"
		}
		short := event.Normal("r", strings.Repeat("x", event.MaxMessage), "a", strings.Repeat("x", event.MaxText/2))
		e.recorder.Event(named("a"), short)
		e.recorder.Event(named("b"), event.Event{Reason: "r", Message: strings.Repeat("é", event.MaxText), Annotations: annotations})
		e.written()
		require.Equal(e, 402+1, len(annotations), "the caller's map is unchanged")

		rows := map[string]*event.Row{}
		for row := range e.table.All(e.db.ReadTxn()) {
			rows[row.Name] = row
		}
		require.Equal(e, short.Message, rows["a"].Message)
		require.Equal(e, short.Annotations, rows["a"].Annotations)
		cut := rows["b"]
		require.Equal(e, "tunnels", cut.Source)
		require.LessOrEqual(e, len(cut.Message), event.MaxMessage)
		require.True(e, utf8.ValidString(cut.Message))
		require.Regexp(e, `^(é)+\.\.\. \(\d+ bytes left out\)$`, cut.Message)
		require.Regexp(e, `^(é)+\.\.\. \(\d+ bytes left out\)$`, cut.Annotations["long"])
		require.Regexp(e, `^\d+ annotations$`, cut.Annotations["left out"])
		sum := 0
		for key, value := range cut.Annotations {
			sum += len(key) + len(value)
		}
		require.LessOrEqual(e, sum, event.MaxText)
	})
}

func TestLogLinesOfEventsAreBounded(t *testing.T) {
	var out bytes.Buffer
	recorder := event.NewSlogRecorder(slog.New(slog.NewTextHandler(&out, nil)))
	rng := rand.New(rand.NewPCG(1, 2))
	for range 64 {
		out.Reset()
		recorder.Event(randomEvent(rng))
		// Quoting makes four bytes of one at most, and a group repeats its name.
		require.Less(t, out.Len(), 8*(event.MaxText+6*event.MaxName))
	}
}
