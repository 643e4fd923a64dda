// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"context"
	"log/slog"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/object"
)

// NewSlogRecorder returns a recorder that logs warnings as [slog.LevelWarn] and other events as
// [slog.LevelInfo]. The log message is that of the event, or the reason if it has none, with
// unprintable characters escaped. The attributes are:
//   - object: "namespace/name"
//   - reason
//   - held_back: the number of events that a throttle held back, if any
//   - source: if the event has one
//   - annotations: a group of the other annotations
//
// All texts are within [MaxText] and [MaxName]. Event returns when the logger's handler does. A nil
// logger discards all events.
func NewSlogRecorder(log *slog.Logger) Recorder {
	if log == nil {
		return NewNopRecorder()
	}
	return &slogRecorder{log: log}
}

type slogRecorder struct {
	log         *slog.Logger
	annotations map[string]string
}

func (r *slogRecorder) Event(obj object.Object, e Event) {
	level := slog.LevelInfo
	if e.Type == TypeWarning {
		level = slog.LevelWarn
	}
	// Do not build the texts of an event that is not logged.
	ctx := context.Background()
	if !r.log.Enabled(ctx, level) {
		return
	}
	e = over(r.annotations, e)
	message := e.Message
	if message == "" {
		message = string(e.Reason)
	}
	r.log.LogAttrs(ctx, level, text.Printable(text.Cut(message, MaxText)), attributes(obj, e)...)
}

func (r *slogRecorder) WithAnnotations(keysAndValues ...string) Recorder {
	return &slogRecorder{log: r.log, annotations: with(r.annotations, keysAndValues)}
}

func attributes(obj object.Object, e Event) []slog.Attr {
	about, texts := aboutOf(obj, e), bounded(e.Annotations)
	attrs := []slog.Attr{
		slog.String("object", about.object.String()),
		slog.String("reason", string(about.reason)),
	}
	if e.HeldBack > 0 {
		attrs = append(attrs, slog.Uint64("held_back", e.HeldBack))
	}
	if _, ok := texts[SourceAnnotation]; ok {
		attrs = append(attrs, slog.String("source", about.source))
	}
	var annotations []any
	for _, key := range sorted(texts) {
		annotations = append(annotations, slog.String(key, texts[key]))
	}
	if len(annotations) > 0 {
		attrs = append(attrs, slog.Group("annotations", annotations...))
	}
	return attrs
}
