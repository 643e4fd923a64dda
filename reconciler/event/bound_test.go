// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"bytes"
	"fmt"
	"log/slog"
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

// Each pending event, each row, each subject of a throttle and each recorder has texts of bounded size.
func TestMemoryIsBounded(t *testing.T) {
	const places, events = 64, 256
	// A row has its texts, and its key in the indexes.
	const most = places * 2 * (event.MaxText + 6*event.MaxName)
	throttled, err := event.NewThrottledRecorder(event.NewNopRecorder(), event.Throttle{Remembered: places})
	require.NoError(t, err)
	deriving := func(from event.Recorder) func(e *env) event.Recorder {
		return func(*env) event.Recorder { return &derived{from: from, made: make([]event.Recorder, places)} }
	}
	for name, c := range map[string]struct {
		running  bool
		recorder func(e *env) event.Recorder
	}{
		"pending":               {false, func(e *env) event.Recorder { return e.recorder }},
		"in the table":          {true, func(e *env) event.Recorder { return e.recorder }},
		"throttled":             {false, func(*env) event.Recorder { return throttled }},
		"annotated and logged":  {false, deriving(event.NewSlogRecorder(slog.New(slog.DiscardHandler)))},
		"annotated and limited": {false, deriving(throttled)},
	} {
		t.Run(name, func(t *testing.T) {
			inTable(t, event.TableConfig{MaxRows: places, MaxPending: places}, func(e *env) {
				if c.running {
					defer e.run()()
				}
				seed := rand.Uint64()
				rng := rand.New(rand.NewPCG(seed, 0))
				recorder := c.recorder(e)
				before := held()
				for i := range events {
					recorder.Event(randomEvent(rng))
					if i%places == 0 && c.running {
						e.written()
					}
				}
				e.written()
				after := held()
				e.Logf("seed %d: %d bytes held, %d allowed", seed, after-min(before, after), most)
				require.Less(e, after, before+most)
				runtime.KeepAlive(recorder)
			})
		})
	}
}

// derived makes a recorder with the annotations of each event, and keeps the latest ones: a program may make a recorder
// for each object.
type derived struct {
	from event.Recorder
	made []event.Recorder
	next int
}

func (d *derived) Event(_ object.Object, e event.Event) {
	var annotations []string
	for key, value := range e.Annotations {
		annotations = append(annotations, key, value)
	}
	d.made[d.next%len(d.made)] = d.from.WithAnnotations(annotations...)
	d.next++
}

func (d *derived) WithAnnotations(...string) event.Recorder { return d }

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

func TestLeftOutAnnotationsAreCountedOverAllCalls(t *testing.T) {
	inTable(t, event.TableConfig{}, func(e *env) {
		const each = 40
		var recorder event.Recorder = e.recorder
		for call := range 3 {
			var annotations []string
			for i := range each {
				annotations = append(annotations, fmt.Sprintf("%d-%02d", call, i), strings.Repeat("x", 1000))
			}
			recorder = recorder.WithAnnotations(annotations...)
		}
		defer e.run()()
		recorder.Event(&object.Meta{Name: "a"}, event.Normal("Done", "", "last", strings.Repeat("y", 1000)))
		e.written()
		var row *event.Row
		for row = range e.table.All(e.db.ReadTxn()) {
		}
		left, _ := strconv.Atoi(strings.Fields(row.Annotations["left out"])[0])
		require.Equal(e, 3*each+1, len(row.Annotations)-1+left, row.Annotations["left out"])
	})
}
