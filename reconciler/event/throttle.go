// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"container/list"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler/object"
)

// Throttle limits the warnings of one object for one reason: a burst, and then a rate. The zero
// value has the defaults. Negative values are errors.
type Throttle struct {
	// Limit is the number of warnings a second that pass in the long run. Zero means one in ten
	// seconds. [rate.Inf] passes all.
	Limit rate.Limit
	// Burst is the number of warnings that pass at once, at the start and after a quiet time. Zero
	// means 5.
	Burst int
	// Remembered is the maximum number of pairs of object and reason that the throttle tracks. Zero
	// means 4096. Each takes a few hundred bytes, or more if its names are long (see [MaxName]). If
	// there are more, the one without a warning for the longest time is forgotten. It then has a
	// full burst again, and its number of held back warnings is lost.
	Remembered int
}

const (
	defaultThrottleLimit      = rate.Limit(0.1)
	defaultThrottleBurst      = 5
	defaultThrottleRemembered = 4096
)

// withDefaults returns the settings with defaults for zero values. The error names every mistake.
func (t Throttle) withDefaults() (Throttle, error) {
	var errs []error
	if t.Limit < 0 {
		errs = append(errs, fmt.Errorf("Throttle.Limit is %v, must not be negative", t.Limit))
	}
	if t.Burst < 0 {
		errs = append(errs, fmt.Errorf("Throttle.Burst is %d, must not be negative", t.Burst))
	}
	if t.Remembered < 0 {
		errs = append(errs, fmt.Errorf("Throttle.Remembered is %d, must not be negative", t.Remembered))
	}
	if t.Limit == 0 {
		t.Limit = defaultThrottleLimit
	}
	if t.Burst == 0 {
		t.Burst = defaultThrottleBurst
	}
	if t.Remembered == 0 {
		t.Remembered = defaultThrottleRemembered
	}
	return t, errors.Join(errs...)
}

// NewThrottledRecorder returns a recorder that passes events to another one. It limits the warnings
// of one object for one reason, whatever their messages, so that an object that fails repeatedly
// does not hide other events. [Event].HeldBack of the next warning that passes is the number of
// those held back. Events of other types always pass. Objects of different sources (see
// [SourceAnnotation]) are different. The error names every mistake.
func NewThrottledRecorder(to Recorder, t Throttle) (Recorder, error) {
	t, err := t.withDefaults()
	if to == nil {
		err = errors.Join(errors.New("the recorder to throttle is nil"), err)
	}
	if err != nil {
		return nil, fmt.Errorf("new throttled recorder: %w", err)
	}
	return &throttledRecorder{to: to, gate: &gate{settings: t, known: make(map[about]*list.Element)}}, nil
}

type throttledRecorder struct {
	to          Recorder
	gate        *gate
	annotations map[string]string
}

func (r *throttledRecorder) Event(obj object.Object, e Event) {
	e = over(r.annotations, e)
	if e.Type == TypeWarning {
		pass, heldBack := r.gate.pass(time.Now(), aboutOf(obj, e))
		if !pass {
			return
		}
		e.HeldBack += heldBack
	}
	r.to.Event(obj, e)
}

func (r *throttledRecorder) WithAnnotations(keysAndValues ...string) Recorder {
	return &throttledRecorder{r.to, r.gate, with(r.annotations, keysAndValues)}
}

// gate decides which warnings pass. It is shared by all recorders derived from one by
// WithAnnotations.
type gate struct {
	settings Throttle

	// mu is held only for short accesses, never while an event is recorded.
	mu sync.Mutex
	// known has the elements of latest, which has the subject of the latest warning first.
	known  map[about]*list.Element
	latest list.List
}

// bucket is the state of one subject.
type bucket struct {
	subject  about
	limiter  *rate.Limiter
	heldBack uint64
}

// pass reports whether a warning passes, and if so how many were held back before it.
func (g *gate) pass(now time.Time, s about) (pass bool, heldBack uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.bucket(s)
	if !b.limiter.AllowN(now, 1) {
		b.heldBack++
		return false, 0
	}
	heldBack, b.heldBack = b.heldBack, 0
	return true, heldBack
}

func (g *gate) bucket(s about) *bucket {
	if element, ok := g.known[s]; ok {
		g.latest.MoveToFront(element)
		return element.Value.(*bucket)
	}
	if len(g.known) >= g.settings.Remembered {
		oldest := g.latest.Back()
		delete(g.known, g.latest.Remove(oldest).(*bucket).subject)
	}
	b := &bucket{subject: s, limiter: rate.NewLimiter(g.settings.Limit, g.settings.Burst)}
	g.known[s] = g.latest.PushFront(b)
	return b
}
