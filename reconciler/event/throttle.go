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

// Throttle says how many warnings of one object for one reason are recorded: a burst at
// once, and then so many a second. The zero value has the defaults; what is negative is an error.
type Throttle struct {
	// Limit is how many warnings a second pass in the long run. Zero means one in ten
	// seconds, [rate.Inf] all.
	Limit rate.Limit
	// Burst is how many pass at once after a quiet time, and at the start. Zero means 5.
	Burst int
	// Remembered is of how many objects and reasons the throttle knows, each a few
	// hundred bytes, or more if their names are long (see [MaxName]). Zero means 4096. When there are more, that of which there was
	// nothing for the longest time is forgotten: it has a burst again, and nothing tells
	// how many of its warnings had been held back.
	Remembered int
}

const (
	defaultThrottleLimit      = rate.Limit(0.1)
	defaultThrottleBurst      = 5
	defaultThrottleRemembered = 4096
)

// withDefaults returns the settings with the defaults for what is zero, or all that is wrong
// with them.
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

// NewThrottledRecorder returns a recorder that hands events to another one, but of the
// warnings of one object for one reason no more than the throttle lets pass, whatever their
// messages: an object that fails again and again does not drown what else there is to read.
// How many were held back is in [Event].HeldBack of the next one that passes. Events of
// other types all pass. Objects of different sources (see [SourceAnnotation]) are different
// ones. The error names every setting that is wrong.
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

// gate decides what passes. Recorders that one was made from another share it.
type gate struct {
	settings Throttle

	// mu is held for a few look-ups, never while something is recorded.
	mu sync.Mutex
	// known are the elements of latest, the subject of the latest warning first.
	known  map[about]*list.Element
	latest list.List
}

// bucket is what a gate knows of a subject.
type bucket struct {
	subject  about
	limiter  *rate.Limiter
	heldBack uint64
}

// pass says whether a warning passes, and if so how many before it were held back.
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
