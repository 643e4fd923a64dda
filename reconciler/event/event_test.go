// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is an object by embedding Meta.
type row struct{ object.Meta }

func named(name string) *row { return &row{object.Meta{Namespace: "prod", Name: name}} }

// recorded is one event of a memory.
type recorded struct {
	object string
	event  event.Event
}

// memory is a recorder that keeps its events. Recorders derived from it share them.
type memory struct {
	all         *[]recorded
	mu          *sync.Mutex
	annotations []string
}

func newMemory() *memory { return &memory{all: new([]recorded), mu: new(sync.Mutex)} }

func (m *memory) Event(obj object.Object, e event.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := 0; i < len(m.annotations); i += 2 {
		e.Message += " " + m.annotations[i] + "=" + m.annotations[i+1]
	}
	*m.all = append(*m.all, recorded{object.KeyOf(obj).String(), e})
}

func (m *memory) WithAnnotations(keysAndValues ...string) event.Recorder {
	return &memory{m.all, m.mu, append(m.annotations[:len(m.annotations):len(m.annotations)], keysAndValues...)}
}

// take returns the events since the last take.
func (m *memory) take() []recorded {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := *m.all
	*m.all = nil
	return all
}

func TestNormalAndWarningMakeEvents(t *testing.T) {
	seven := map[string]string{"id": "7", "left": ""}
	for _, c := range []struct{ got, want event.Event }{
		{event.Normal("Created", "made it"), event.Event{Type: event.TypeNormal, Reason: "Created", Message: "made it"}},
		{
			// A last key without a value gets the empty value.
			event.Normal("Created", "made it", "id", "7", "left"),
			event.Event{Type: event.TypeNormal, Reason: "Created", Message: "made it", Annotations: seven},
		},
		{
			event.Warning("CannotCreate", errRefused, "id", "7", "left", ""),
			event.Event{Type: event.TypeWarning, Reason: "CannotCreate", Message: "refused", Annotations: seven},
		},
		{event.Warning("Odd", nil), event.Event{Type: event.TypeWarning, Reason: "Odd"}},
	} {
		require.Equal(t, c.want, c.got)
	}
}

func TestRecordersToNowhereDiscardEvents(t *testing.T) {
	for _, r := range []event.Recorder{event.NewNopRecorder(), event.NewMultiRecorder(nil), event.NewSlogRecorder(nil)} {
		require.NotPanics(t, func() { r.WithAnnotations("a", "1").Event(named("web"), event.Normal("r", "m")) })
	}
}

func TestAMultiRecorderPassesEventsToEachRecorder(t *testing.T) {
	a, b := newMemory(), newMemory()
	r := event.NewMultiRecorder(a, nil, b)
	r.WithAnnotations("id", "7").Event(named("web"), event.Normal("Created", "made it"))
	r.Event(named("web"), event.Normal("Created", "without annotation"))
	want := []recorded{
		{"prod/web", event.Normal("Created", "made it id=7")}, {"prod/web", event.Normal("Created", "without annotation")},
	}
	require.Equal(t, want, a.take())
	require.Equal(t, want, b.take())
}

// inParallel calls f from several goroutines with the number of the call.
func inParallel(goroutines, calls int, f func(int)) {
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range calls {
				f(g*calls + i)
			}
		})
	}
	wg.Wait()
}

func nth(i int) *row { return named("web" + strconv.Itoa(i)) }
