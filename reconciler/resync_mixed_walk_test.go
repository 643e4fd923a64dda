// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// mixedWalk is a random walk of a loop with a Lister in which all features meet.
type mixedWalk struct {
	*resyncWalk
	// second: another reconciler of the rows runs.
	second bool
	log    []string
}

func (w *mixedWalk) drawSettings(s *reconciler.Settings) {
	s.Concurrency = []int{1, 1, 4}[w.rng.IntN(3)]
	s.ResyncInterval = []time.Duration{0, 300 * time.Millisecond, 10 * time.Second}[w.rng.IntN(3)]
	s.ListTimeout = []time.Duration{0, 100 * time.Millisecond, 30 * time.Second}[w.rng.IntN(3)]
	s.RefreshLimiter = []*rate.Limiter{nil, rate.NewLimiter(20, 1)}[w.rng.IntN(2)]
	s.OperationLimiter = []*rate.Limiter{nil, nil, rate.NewLimiter(50, 2)}[w.rng.IntN(3)]
	s.RoundLimiter = []*rate.Limiter{nil, nil, rate.NewLimiter(20, 1)}[w.rng.IntN(3)]
	s.RefreshInterval = []time.Duration{0, 0, 5 * time.Second}[w.rng.IntN(3)]
	s.RoundSize = []int{2, 1000}[w.rng.IntN(2)]
	s.MaxRetries = []int{0, 0, 3}[w.rng.IntN(3)]
	s.BlockedRecheck = time.Second
	s.MaxBackoff = time.Second
	s.Timeout = []time.Duration{0, 100 * time.Millisecond}[w.rng.IntN(2)]
}

// drawShape draws a breaker, groups, and another reconciler of the rows.
func (w *mixedWalk) drawShape(e *env, cfg *reconciler.Config[*object]) (beside func()) {
	if w.rng.IntN(2) == 0 {
		cfg.Options = append(cfg.Options, reconciler.WithBreaker(reconciler.Breaker{Failures: 2}))
	}
	if w.rng.IntN(3) == 0 {
		cfg.SerialBy = func(o *object) string { return fmt.Sprint(o.ID % 3) }
	}
	w.second = w.ledger == "rows" && w.rng.IntN(2) == 0
	return func() {
		if !w.second {
			return
		}
		other := e.config(reconciler.WithName("other"))
		other.GetStatus = func(o *object) reconciler.Status { return o.Other }
		other.SetStatus = func(o *object, s reconciler.Status) *object { o.Other = s; return o }
		other.Operations = newTarget()
		e.start(other)
	}
}

// kill ends a process. Its operations are not checked one by one: calls and refreshes make some without a difference.
func (w *mixedWalk) kill() { w.e.stop() }

func (w *mixedWalk) step() string {
	id := 1 + uint64(w.rng.IntN(12))
	ctx, cancel := context.WithTimeout(w.e.Context(), 50*time.Millisecond)
	defer cancel()
	switch w.rng.IntN(19) {
	case 16:
		w.done()
		return "the table is initialised"
	case 17:
		return w.rewrite(id)
	case 18:
		return w.pauseDuring(id)
	case 0, 1, 2:
		w.wanted[id] = w.rng.IntN(3)
		w.e.put(w.wanted[id], id)
		return fmt.Sprintf("row %d = %d", id, w.wanted[id])
	case 3:
		delete(w.wanted, id)
		w.e.remove(id)
		return fmt.Sprintf("row %d is deleted", id)
	case 4, 5:
		w.target.mu.Lock()
		defer w.target.mu.Unlock()
		if w.rng.IntN(2) == 0 {
			delete(w.target.state, id)
			return fmt.Sprintf("the target loses %d", id)
		}
		w.target.state[id] = w.rng.IntN(4)
		return fmt.Sprintf("the target gets %d = %d", id, w.target.state[id])
	case 6:
		w.e.loop.Resync()
		return "resync"
	case 7:
		if w.rng.IntN(2) == 0 {
			return "-"
		}
		w.kill()
		w.start()
		return "restart"
	case 8:
		w.e.loop.Pause()
		w.e.pass(time.Duration(w.rng.IntN(300)) * time.Millisecond)
		w.e.loop.Resume()
		return "pause and resume"
	case 9:
		w.e.loop.PauseObjects(func(o *object) bool { return o.ID%4 == id%4 })
		return "pause objects"
	case 10:
		w.e.loop.Resume()
		return "resume"
	case 11:
		_, err := w.e.loop.Reapply(ctx, &object{ID: id}, &object{ID: id + 1})
		return fmt.Sprint("reapply ", id, err)
	case 12:
		if w.rng.IntN(2) == 0 {
			_, err := w.e.loop.Refresh(ctx)
			return fmt.Sprint("refresh all ", err)
		}
		_, err := w.e.loop.Refresh(ctx, strconv.FormatUint(id, 10))
		return fmt.Sprint("refresh ", id, err)
	case 13:
		_, err := w.e.loop.Retry(ctx)
		return fmt.Sprint("retry ", err)
	case 14:
		require.NoError(w, w.e.loop.Reconfigure(w.drawSettings))
		return "reconfigure"
	}
	d := time.Millisecond << w.rng.IntN(10)
	w.e.pass(d)
	return "pass " + d.String()
}

func (w *mixedWalk) settle() {
	w.wild.Store(false)
	w.target.deciding(nil)
	w.done()
	w.e.loop.Resume()
	require.NoError(w, w.e.loop.Reconfigure(quiet))
	w.e.pass(2 * time.Minute)
	ctx, cancel := context.WithTimeout(w.e.Context(), time.Second)
	defer cancel()
	_, _ = w.e.loop.Retry(ctx)
	w.e.pass(time.Minute)
	if w.e.loop.Snapshot(w.Context()).Listing.IsZero() {
		w.e.loop.Resync()
	} else {
		// A listing hangs until its context ends.
		w.log = append(w.log, "a listing hangs")
		w.kill()
		w.start()
	}
	w.e.pass(time.Minute)
	want := maps.Clone(w.wanted)
	want[foreign] = 7
	require.Equal(w, want, w.target.holds())
	w.e.eachDoneIn(w.wanted)
	w.e.loop.Resync()
	w.e.pass(20 * time.Second)
	w.target.take()
	w.e.loop.Resync()
	w.e.pass(time.Minute)
	require.Empty(w, w.updates(), "a resync of an equal target")
	require.Equal(w, inspect.Resync{Listed: len(w.wanted), Equal: len(w.wanted)}, w.e.resync())
	level, message, _ := w.e.health.Now()
	require.Equal(w, "OK", string(level), message)
	w.kill()
	w.start()
	w.e.pass(time.Minute)
	require.Empty(w, w.updates(), "a restart on an equal target")
	w.e.eachDoneIn(w.wanted)
	require.Equal(w, want, w.target.holds())
	require.False(w, w.target.overlap)
}

// In the end the target is as the table wants it, and a resync or a restart calls nothing, whatever was used meanwhile: a
// breaker, groups, limiters, refreshes, calls, pauses, other settings, each outcome, a second reconciler of the rows.
func TestResyncsMeetEverythingElseInRandomWalks(t *testing.T) {
	seed := rand.Uint64()
	for i := range long.Times(10) {
		for k, ledger := range []string{"rows", "beside"} {
			for j, kind := range []string{"single", "batches", "rounds"} {
				w := &mixedWalk{}
				ok := t.Run(fmt.Sprintf("%s, %s, seed %d %d", ledger, kind, seed, i), func(t *testing.T) {
					defer func() {
						if t.Failed() {
							t.Logf("%+v, groups %t, second %t", w.e.loop.Settings(), w.e.loop.Config().SerialBy != nil, w.second)
							for _, line := range w.log {
								t.Log(line)
							}
						}
					}()
					synctest.Test(t, func(t *testing.T) {
						w.resyncWalk = &resyncWalk{
							T: t, rng: &lockedRand{r: rand.New(rand.NewPCG(seed, uint64(i*6+k*3+j)))}, target: newTarget(), wanted: map[uint64]int{},
							drifted: map[uint64]bool{}, ledger: ledger, kind: kind,
						}
						w.settings, w.shape = w.drawSettings, w.drawShape
						w.wild.Store(true)
						w.target.state[foreign] = 7
						w.target.deciding(func(c call) error {
							if w.slow.Load() {
								time.Sleep(5 * time.Millisecond)
							}
							switch w.rng.IntN(20) {
							case 0:
								return errors.New("no")
							case 1:
								// It fails after it has changed the object.
								w.target.mu.Lock()
								defer w.target.mu.Unlock()
								delete(w.target.state, c.id)
								if w.rng.IntN(2) == 0 {
									w.target.state[c.id] = w.rng.IntN(4)
								}
								return errors.New("half way")
							case 2:
								time.Sleep(time.Duration(w.rng.IntN(200)) * time.Millisecond)
							case 3:
								return reconciler.Requeue(time.Duration(w.rng.IntN(1000)) * time.Millisecond)
							case 4:
								return reconciler.Blocked("odd")
							case 5:
								return reconciler.TerminalError(errors.New("bad"))
							case 6:
								return reconciler.RetryAfter(errors.New("later"), time.Second)
							case 7:
								panic("odd")
							}
							return nil
						})
						w.start()
						for range 80 {
							w.log = append(w.log, w.step())
						}
						w.settle()
						w.kill()
					})
				})
				if !ok {
					return
				}
			}
		}
	}
}
