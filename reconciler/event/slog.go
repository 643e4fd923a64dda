// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"context"
	"log/slog"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/object"
)

// NewSlogRecorder returns a recorder that logs: warnings as [slog.LevelWarn], all else as
// [slog.LevelInfo]. The message is that of the event, or the reason if it has none, with what is
// not printable escaped; the attributes are object ("namespace/name"), reason, held_back if a
// throttle held others back, source if there is one, and the other annotations in a group of that
// name, all within [MaxText] and [MaxName]. Event returns when the logger's handler does. A nil
// logger means that nothing is recorded.
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
	// The texts of an event that nobody reads are not made.
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
