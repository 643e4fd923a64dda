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

func TestNormalAndWarningMakeEvents(t *testing.T) {
	for _, c := range []struct{ got, want event.Event }{
		{event.Normal("Created", "made it"), event.Event{Type: event.TypeNormal, Reason: "Created", Message: "made it"}},
		{event.Warning("CannotCreate", errRefused), event.Event{Type: event.TypeWarning, Reason: "CannotCreate", Message: "refused"}},
		{event.Warning("Odd", nil), event.Event{Type: event.TypeWarning, Reason: "Odd"}},
	} {
		require.Equal(t, c.want, c.got)
	}
	require.NotPanics(t, func() { event.From(event.NewNopRecorder(), "a").Event(named("web"), event.Normal("r", "m")) })
}

const errRefused = errText("refused")

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
level=WARN msg=refused object=prod/web reason=CannotCreate source=tunnels
level=WARN msg=refused object=prod/web reason=CannotCreate source=disks
`, logged(slog.LevelInfo, func(r event.Recorder) {
		r.Event(named("web"), event.Normal("Created", "made it"))
		r.Event(&object.Meta{Name: "web"}, event.Warning("CannotCreate", errors.New("refused")))
		r.Event(named("web"), event.Event{Type: "Other", Reason: "Odd"})
		tunnels := event.From(r, "tunnels")
		tunnels.Event(named("web"), event.Warning("CannotCreate", errors.New("refused")))
		event.From(tunnels, "disks").Event(named("web"), event.Warning("CannotCreate", errors.New("refused")))
	}))
}

func TestEventsThatAreNotLoggedDoNotAllocate(t *testing.T) {
	r := event.From(event.NewSlogRecorder(slog.New(slog.DiscardHandler)), "tunnels")
	obj, e := named("web"), event.Normal("Created", "made it")
	require.Zero(t, testing.AllocsPerRun(10, func() { r.Event(obj, e) }))
}

func TestTheLevelOfTheLogIsRespected(t *testing.T) {
	require.Equal(t, "level=WARN msg=refused object=prod/web reason=CannotCreate\n", logged(slog.LevelWarn, func(r event.Recorder) {
		r.Event(named("web"), event.Normal("Created", "made it"))
		r.Event(named("web"), event.Warning("CannotCreate", errors.New("refused")))
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
