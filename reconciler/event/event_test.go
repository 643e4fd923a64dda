// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
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

// logged returns the log of a recorder without the times.
func logged(level slog.Level, record func(r event.Recorder)) string {
	var out strings.Builder
	record(event.NewSlogRecorder(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 {
				return slog.Attr{}
			}
			return a
		},
	}))))
	return out.String()
}

func TestEventsAreLogged(t *testing.T) {
	require.Equal(t, `level=INFO msg="made it" object=prod/web reason=Created
level=WARN msg=refused object=web reason=CannotCreate
level=INFO msg=Odd object=prod/web reason=Odd
level=WARN msg=refused object=prod/web reason=CannotCreate held_back=12 source=tunnels annotations.id=7 annotations.zone=a
`, logged(slog.LevelInfo, func(r event.Recorder) {
		r.Event(named("web"), event.Normal("Created", "made it"))
		r.Event(&object.Meta{Name: "web"}, event.Warning("CannotCreate", errors.New("refused")))
		r.Event(named("web"), event.Event{Type: "Other", Reason: "Odd"})
		e := event.Warning("CannotCreate", errors.New("refused"), "zone", "a", "id", "7", event.SourceAnnotation, "tunnels")
		e.HeldBack = 12
		r.Event(named("web"), e)
	}))
}

func TestEventsThatAreNotLoggedDoNotAllocate(t *testing.T) {
	r := event.NewSlogRecorder(slog.New(slog.DiscardHandler)).WithAnnotations("id", "7")
	obj, e := named("web"), event.Normal("Created", "made it", "zone", "a")
	require.Zero(t, testing.AllocsPerRun(10, func() { r.Event(obj, e) }))
}

func TestTheLevelOfTheLogIsRespected(t *testing.T) {
	require.Equal(t, "level=WARN msg=refused object=prod/web reason=CannotCreate\n", logged(slog.LevelWarn, func(r event.Recorder) {
		r.Event(named("web"), event.Normal("Created", "made it"))
		r.Event(named("web"), event.Warning("CannotCreate", errors.New("refused")))
	}))
}

func TestAnnotationsOfTheEventTakePrecedence(t *testing.T) {
	require.Equal(t, `level=INFO msg=m object=prod/web reason=r annotations.a=3 annotations.b=2 annotations.c=4
level=INFO msg=m object=prod/web reason=r annotations.a=1 annotations.b=1
level=INFO msg=m object=prod/web reason=r
`, logged(slog.LevelInfo, func(r event.Recorder) {
		one := r.WithAnnotations("a", "1", "b", "1")
		two := one.WithAnnotations("a", "2", "b", "2")
		two.Event(named("web"), event.Normal("r", "m", "a", "3", "c", "4"))
		one.Event(named("web"), event.Normal("r", "m"))
		r.Event(named("web"), event.Normal("r", "m"))
	}))
}

// messages is a handler that keeps the messages.
type messages struct {
	slog.Handler
	logged []string
}

func (m *messages) Enabled(context.Context, slog.Level) bool { return true }
func (m *messages) Handle(_ context.Context, r slog.Record) error {
	m.logged = append(m.logged, r.Message)
	return nil
}

// A handler may print a message unescaped.
func TestHostileTextsAreEscapedInLogMessages(t *testing.T) {
	const hostile = "a\x1b[31m\n<<end>>\x00"
	m := &messages{}
	recorder := event.NewSlogRecorder(slog.New(m))
	recorder.Event(named("web"), event.Warning("Refused", errors.New(hostile)))
	recorder.Event(named("web"), event.Normal(event.Reason(hostile), ""))
	require.Equal(t, []string{`a\x1b[31m\n<<end>>\x00`, `a\x1b[31m\n<<end>>\x00`}, m.logged)
}
