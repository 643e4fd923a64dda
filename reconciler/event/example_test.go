// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"errors"
	"log/slog"
	"os"

	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

// A program logs what happens to its objects, and limits repeated warnings.
func Example() {
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))

	recorder := event.From(event.NewSlogRecorder(log), "tunnels")

	web := &object.Meta{Namespace: "prod", Name: "web"}
	recorder.Event(web, event.Normal("Created", "created the tunnel"))
	recorder.Event(web, event.Warning("CannotUpdate", errors.New("the broker is busy")))
	// Output:
	// level=INFO msg="created the tunnel" object=prod/web reason=Created source=tunnels
	// level=WARN msg="the broker is busy" object=prod/web reason=CannotUpdate source=tunnels
}
