// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package fights decides when repairs do not hold.
//
// A repair is the operation on an object that was applied, and that a look at the target has found wrong: missing,
// different, or, of an orphan, there again. [Fights] remembers the latest ones by key. When one does not hold, it makes
// the operation fail, so that its key backs off, and everything that shows failures says why:
//
//   - Operations that look at the target also look after their call. If it is wrong then, and again after the next one,
//     the operation is ineffective. If it is right after each call, and wrong again later, five times in a row, somebody
//     changes it back: it is contended. Then it is repaired ever more seldom, up to once in half the maximum backoff, and
//     must be right as long: so it is over when the maximum backoff has passed since the other has stopped.
//   - Otherwise only resyncs look, and both are one thing: after three of them in a row that found it wrong, repairs do not
//     hold, until one finds it right.
//
// Fights is plain data, without goroutine, lock or clock. The goroutine of the loop owns it.
package fights

import (
	"fmt"
	"iter"
	"time"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
)

const (
	// maxKeys bounds the keys that are remembered.
	maxKeys = 1024
	// contends is how often in a row a repair is undone before its key is contended, recurs how many resyncs in a row find a
	// key wrong before its repairs do not hold.
	contends = 5
	recurs   = 3
)

// reasons are why a repair may not hold if only resyncs look.
const reasons = "another program changes it, Config.Equal compares what Update does not write, or the target lists it " +
	"under another key"

// Settings are the settings of Fights.
type Settings struct {
	// MinBackoff and MaxBackoff bound the time between two attempts. Resync is the time between two resyncs; 0 for none.
	MinBackoff, MaxBackoff, Resync time.Duration
}

// Fights has the keys that were repaired.
type Fights[Obj any] struct {
	// looks: operations look at the target. of returns the key of an object.
	looks bool
	of    func(Obj) []byte
	// settings returns the settings, which can change.
	settings func() Settings
	keys     map[string]*fight
	// unheld counts the keys whose repairs do not hold.
	unheld int
}

// fight is what is known of a key that was repaired.
type fight struct {
	// repaired is when the last repair ended, undone how many in a row have not held, and diff what was found before the last
	// one. deleted: it was the deletion of an orphan.
	repaired time.Duration
	undone   int
	diff     string
	deleted  bool
	// held: a look has found it right since. doubted: the look after the last repair has found it wrong. awaited: the key waits
	// for the next look.
	held, doubted, awaited bool
	// judged: a resync has looked since the last repair.
	judged bool
	// unheld: its repairs do not hold.
	unheld bool
}

// New returns Fights. looks reports whether operations look at the target, of returns the key of an object.
func New[Obj any](looks bool, of func(Obj) []byte, settings func() Settings) *Fights[Obj] {
	return &Fights[Obj]{looks: looks, of: of, settings: settings, keys: map[string]*fight{}}
}

// Len returns how many keys have repairs that do not hold.
func (f *Fights[Obj]) Len() int { return f.unheld }

// find returns what is known of an object; nil if nothing is.
func (f *Fights[Obj]) find(obj Obj) *fight {
	if len(f.keys) == 0 {
		return nil
	}
	return f.keys[string(f.of(obj))]
}

// Contends reports whether an object is contended: only its retries are to look, and see when that is over.
func (f *Fights[Obj]) Contends(obj Obj) bool {
	k := f.find(obj)
	return k != nil && k.unheld && k.undone >= contends && f.looks
}

// Doubts reports whether the next operation on an object is a requeue that [Fights.End] has asked for, and looks.
func (f *Fights[Obj]) Doubts(obj Obj) bool {
	k := f.find(obj)
	return k != nil && k.awaited
}

// Keys yields the keys that were repaired, and whether each was an orphan.
func (f *Fights[Obj]) Keys() iter.Seq2[string, bool] {
	return func(yield func(key string, deleted bool) bool) {
		for key, k := range f.keys {
			if !yield(key, k.deleted) {
				return
			}
		}
	}
}

// End is called when an operation has ended that ran or looked, and before its outcome is classified. It sets the error of
// one that has worked and shows that repairs do not hold.
func (f *Fights[Obj]) End(now time.Duration, op *core.Operation[Obj]) {
	k, cause, repair, worked := f.find(op.Row), op.Turn.Cause, false, op.Run.Err == nil || op.Run.Polls
	switch cause {
	case core.CauseRepair, core.CauseOrphan, core.CauseVerify:
		repair = !op.OnlyLooks()
	case core.CauseRequeue:
		if k != nil {
			k.awaited = false
		}
	}
	switch {
	case op.OnlyLooks() && !op.FoundRight(), k == nil && (!repair || op.FoundRight() || !worked):
		return
	case worked && op.Run.Look == nil && f.looks && cause == core.CauseRequeue:
		// It has called for itself. What the target had before is not known.
		return
	case cause == core.CauseChange, op.HasEntry() && op.Untried(), worked && op.Run.Look == nil && f.looks:
		// Something else is wanted now, or somebody has asked for a call whatever the target has.
		f.forget(string(f.of(op.Row)))
		return
	case !worked:
		// It fails or waits for a reason of its own.
		f.setUnheld(k, false)
		return
	case op.FoundRight():
		op.Run.Err = f.right(now, string(f.of(op.Row)), k)
	default:
		if k == nil {
			if k = f.add(string(f.of(op.Row))); k == nil {
				return
			}
			k.repaired = now
		}
		k.deleted = op.Deleted
		if err := f.repaired(now, k, op.Run.Look, int(op.Failures)); err != nil && (k.unheld || !op.Run.Polls) {
			op.Run.Err = err
		}
	}
	if op.Run.Err != nil {
		// The target works, and the key is never given up.
		op.Run.Worked, op.Tries = true, 0
	}
}

// right returns the error of an operation that has found the target right.
func (f *Fights[Obj]) right(now time.Duration, key string, k *fight) error {
	k.held, k.doubted = true, false
	if !f.looks {
		// A resync has looked.
		f.forget(key)
		return nil
	}
	if calm := k.repaired + f.calm(); now < calm && k.unheld && k.undone >= contends {
		return outcome.RetryAfter(k.contended(), calm-now)
	}
	f.rightSince(now, key, k)
	return nil
}

// rightSince forgets a key that is right, if its last repair was long ago, or is not contended any more.
func (f *Fights[Obj]) rightSince(now time.Duration, key string, k *fight) {
	if now >= k.repaired+f.calm() {
		f.forget(key)
	} else {
		f.setUnheld(k, false)
	}
}

// calm is how long after a repair a key must be right to have held, and the longest time between two repairs of a contended
// key.
func (f *Fights[Obj]) calm() time.Duration {
	return max(f.settings().MinBackoff, f.settings().MaxBackoff/2)
}

// repaired returns the error of a repair that has worked. l is what it has seen; nil if it did not look. failures counts
// those of its key before.
func (f *Fights[Obj]) repaired(now time.Duration, k *fight, l *core.Look, failures int) error {
	set := f.settings()
	if l == nil {
		k.repaired, k.judged = now, false
		f.setUnheld(k, k.undone >= recurs)
		if !k.unheld {
			return nil
		}
		// No retry sees whether it is right: so none comes before the next resync has.
		return outcome.RetryAfter(k.recurring(), max(f.backoff(failures, set.MaxBackoff), set.Resync))
	}
	switch since := now - k.repaired; {
	case since > max(10*set.MaxBackoff, 2*set.Resync):
		k.undone = 0
	case k.held:
		// One that no look has found right counts for nothing: the other may have been faster than the look.
		k.undone++
	}
	wrong := l.After.Seen && !l.After.Right
	ineffective := wrong && k.doubted
	k.repaired, k.diff, k.held, k.doubted = now, l.Before.Diff, l.After.Right, wrong
	switch f.setUnheld(k, ineffective || k.undone >= contends); {
	case ineffective:
		return fmt.Errorf("applied, but the target has %s", l.After.Diff)
	case k.unheld:
		return outcome.RetryAfter(k.contended(), f.backoff(failures, f.calm()))
	case wrong:
		// The effect may come late: so the next look is soon.
		k.awaited = true
		return outcome.Requeue(set.MinBackoff)
	}
	return nil
}

// backoff returns the wait of a key after its operation has failed as often in a row before.
func (f *Fights[Obj]) backoff(failures int, most time.Duration) time.Duration {
	return backoff.Exponential{Min: f.settings().MinBackoff, Max: most}.Delay(failures + 1)
}

// contended returns the error of a key that is changed back after each repair.
func (k *fight) contended() error {
	return fmt.Errorf("contended: after each of the last %d repairs, which had worked, somebody has changed it back, "+
		"the last time to %s", k.undone, k.diff)
}

// recurring returns the error of a key that each resync finds wrong.
func (k *fight) recurring() error {
	what := "it was different or missing again after each of its last %d repairs"
	if k.deleted {
		what = "the target listed it again after each of its last %d deletions"
	}
	return fmt.Errorf("repairs do not hold: "+what+": %s", k.undone, reasons)
}

// Judge is called when a resync has looked at a key.
func (f *Fights[Obj]) Judge(now time.Duration, key string, wrong bool) {
	k := f.keys[key]
	switch {
	case k == nil:
	case wrong && !k.judged:
		if k.judged = true; !f.looks {
			k.undone++
		}
	case wrong:
	case !f.looks:
		f.forget(key)
	default:
		if k.held = true; !k.unheld {
			f.rightSince(now, key, k)
		}
	}
}

func (f *Fights[Obj]) setUnheld(k *fight, unheld bool) {
	switch {
	case unheld && !k.unheld:
		f.unheld++
	case !unheld && k.unheld:
		f.unheld--
	}
	k.unheld = unheld
}

// Forget ends what is known of an object whose entry goes without an operation: its row is back, or has no status.
func (f *Fights[Obj]) Forget(obj Obj) {
	if len(f.keys) > 0 {
		f.forget(string(f.of(obj)))
	}
}

func (f *Fights[Obj]) forget(key string) {
	if k := f.keys[key]; k != nil {
		f.setUnheld(k, false)
		delete(f.keys, key)
	}
}

// add adds a key. If there are too many, another one goes whose repairs may hold; nil if there is none.
func (f *Fights[Obj]) add(key string) *fight {
	if len(f.keys) >= maxKeys {
		for other, k := range f.keys {
			if !k.unheld {
				f.forget(other)
				break
			}
		}
	}
	if len(f.keys) >= maxKeys {
		return nil
	}
	k := &fight{}
	f.keys[key] = k
	return k
}
