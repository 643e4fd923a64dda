// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// polled reconciles every minute. The wanted state is not in the row.
type polled struct {
	*server
	wants atomic.Pointer[[]string]
}

func (p *polled) ExtractCurrentState(*zone) ([]string, error) { return *p.wants.Load(), nil }
func (p *polled) RequeueAfter(*zone) time.Duration            { return time.Minute }

func newPolled() *polled {
	p := &polled{server: newServer()}
	p.want("a")
	return p
}

func (p *polled) want(records ...string) { p.wants.Store(&records) }

// The wanted state changes once, between two requeues. The change is applied once, and the
// annotation is updated.
func TestAChangeAppliedAtARequeueIsNotAppliedAgain(t *testing.T) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d worker(s)", workers), func(t *testing.T) {
			p := newPolled()
			inBubble(t, p, func(e *env) {
				e.change("web")
				p.take()
				p.want("b")
				pass(10 * time.Minute)
				require.Equal(e, []changes{{ItemsToAdd: []string{"b"}, ItemsToRemove: []string{"a"}}}, p.take())
				e.annotated("web", `["b"]`)
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
		})
	}
}

func TestARequeueWithoutChangesWritesNothing(t *testing.T) {
	p := newPolled()
	inBubble(t, p, func(e *env) {
		e.change("web")
		_, before, _ := e.Table.Get(e.DB.ReadTxn(), byName.Query("web"))
		pass(10 * time.Minute)
		_, after, _ := e.Table.Get(e.DB.ReadTxn(), byName.Query("web"))
		require.Equal(e, before, after)
	})
}

// counting counts its applies in the row.
type counting struct{ *polled }

func (c counting) ApplyOperations(ctx context.Context, z *zone, ops changes) error {
	z.Domain += "+"
	return c.polled.ApplyOperations(ctx, z, ops)
}

func TestChangesOfTheRowAreWrittenWithAnyOutcome(t *testing.T) {
	c := counting{newPolled()}
	inBubble(t, c, func(e *env) {
		e.change("web")
		require.Equal(e, "+", e.get("web").Domain)
		c.want("b")
		pass(time.Minute)
		require.Equal(e, "++", e.get("web").Domain, "at a requeue")
		c.before(func(string, string) error { return reconciler.RetryAfter(errors.New("busy"), 10*time.Second) })
		c.want("c")
		pass(90 * time.Second) // three failures with the same text
		require.Equal(e, "Error: busy", e.get("web").Status.Kind.String()+": "+e.get("web").Status.GetError())
		require.Equal(e, "++++++", e.get("web").Domain, "at failures")
		c.before(func(string, string) error { panic("oops") })
		pass(100 * time.Second) // retries after 10 s, and then after the backoff: 16, 32 and 60 s
		require.Equal(e, "Error: panic in update: oops", e.get("web").Status.Kind.String()+": "+e.get("web").Status.GetError())
		require.Equal(e, "+++++++++", e.get("web").Domain, "at panics")
	})
}

// A Requeue from a removal means that it is still going on. The row stays unapplied and remembered
// until it is finished.
func TestARequeuedRemovalIsNotApplied(t *testing.T) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d worker(s)", workers), func(t *testing.T) {
			s := newServer()
			inBubble(t, s, func(e *env) {
				e.change("web", "a", "b")
				row := e.get("web")
				looks := 0
				s.before(func(_, record string) error {
					if looks++; record == "b" && looks < 6 {
						return reconciler.Requeue(20 * time.Second)
					}
					return nil
				})
				e.remove("web")
				revision := e.Table.Revision(e.DB.ReadTxn())
				pass(30 * time.Second)
				ctx, cancel := context.WithTimeout(e.Context(), time.Nanosecond)
				defer cancel()
				_, err := e.Loop.Wait(ctx, revision, reconciler.Applied)
				require.Error(e, err)
				require.Equal(e, []string{"b"}, s.has("web"))

				// The row is inserted again during the removal.
				e.edit("web", func(z *zone) { *z = *row.Clone() })
				pass(time.Minute)
				require.Equal(e, []string{"a", "b"}, s.has("web"))
				e.remove("web")
				pass(time.Minute)
				require.Empty(e, s.has("web"))
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.MaxRetries = workers, 1 }))
		})
	}
}
