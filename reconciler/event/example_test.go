// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"errors"
	"fmt"
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

	recorder, err := event.NewThrottledRecorder(event.NewSlogRecorder(log), event.Throttle{Burst: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	recorder = recorder.WithAnnotations(event.SourceAnnotation, "tunnels")

	web := &object.Meta{Namespace: "prod", Name: "web"}
	recorder.Event(web, event.Normal("Created", "created the tunnel", "id", "tun-0017"))
	for range 100 {
		recorder.Event(web, event.Warning("CannotUpdate", errors.New("the broker is busy")))
	}
	// Output:
	// level=INFO msg="created the tunnel" object=prod/web reason=Created source=tunnels annotations.id=tun-0017
	// level=WARN msg="the broker is busy" object=prod/web reason=CannotUpdate source=tunnels
	// level=WARN msg="the broker is busy" object=prod/web reason=CannotUpdate source=tunnels
}
