// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

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
