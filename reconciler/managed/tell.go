// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"log/slog"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

// trail is the text of the steps that a pass took, for people to read.
type trail string

func (t *trail) add(step string) {
	if *t != "" {
		step = string(*t) + "; " + step
	}
	*t = trail(step)
}

// tell records an event of type Normal.
func (p *pass[T]) tell(reason event.Reason, message string) {
	p.record(event.Normal(reason, message))
}

// warn records an event of type Warning, unless the reconciler is stopping.
func (p *pass[T]) warn(reason event.Reason, err error) {
	if p.ctx.Err() == nil {
		p.record(event.Warning(reason, err))
	}
}

func (p *pass[T]) record(e event.Event) {
	p.debug(text.Printable(e.Message), "reason", string(e.Reason))
	if name := GetExternalName(p.obj); name != "" {
		e.Message += " (external name " + name + ")"
	}
	p.r.opts.recorder.Event(p.obj, e)
}

func (p *pass[T]) debug(message string, args ...any) {
	log := p.r.opts.log
	if !log.Enabled(p.ctx, slog.LevelDebug) {
		return
	}
	log.DebugContext(p.ctx, message, append([]any{"object", object.KeyOf(p.obj).String()}, args...)...)
}
