// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/stateful"
)

func TestOnlyTheDifferenceIsApplied(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "b")
		require.Equal(e, []changes{adds("a", "b")}, s.take())
		e.expect("web", "Done")
		e.annotated("web", `["a","b"]`)

		e.change("web", "b", "c")
		require.Equal(e, []changes{{ItemsToAdd: []string{"c"}, ItemsToRemove: []string{"a"}}}, s.take())
		require.Equal(e, []string{"b", "c"}, s.has("web"))
		e.annotated("web", `["b","c"]`)
	})
}

func TestNothingIsAppliedWithoutADifference(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		e.change("web", "a")
		s.take()
		before := e.get("web").Annotations
		e.change("web", "a")
		require.Empty(e, s.take())
		e.expect("web", "Done")

		// The map is the same one: the annotation was not written again.
		before["probe"] = "1"
		require.Contains(e, e.get("web").Annotations, "probe")
	})
}

func TestAnnotationAndStatusAreOneCommit(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		s.before(func(string, string) error { time.Sleep(time.Second); return nil })
		e.change("web", "a")
		_, revision, watch, _ := e.Table.GetWatch(e.DB.ReadTxn(), byName.Query("web"))
		e.expect("web", "Pending")
		e.annotated("web", "")
		<-watch
		z, after, _ := e.Table.Get(e.DB.ReadTxn(), byName.Query("web"))
		require.Equal(e, revision+1, after)
		require.Equal(e, reconciler.StatusKindDone, z.Status.Kind)
		require.Equal(e, `["a"]`, z.Annotations[annotation])
	})
}

func TestLeftoversOfAFailedAttemptAreRemoved(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		heal := s.failOn("c")
		e.change("web", "a", "b", "c")
		s.take()
		heal()
		e.change("web", "a")
		pass(time.Second)
		require.Equal(e, []string{"a"}, s.has("web"))
		require.Equal(e, []changes{{ItemsToAdd: []string{"a"}, ItemsToRemove: []string{"b", "c"}}}, s.take())
		e.annotated("web", `["a"]`)
	})
}

func TestItemsRemovedByAFailedAttemptAreAddedAgain(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "b")
		heal := s.failOn("c")
		e.change("web", "c")
		require.Empty(e, s.has("web"))
		e.annotated("web", `["a","b"]`)
		heal()
		e.change("web", "a", "b")
		pass(time.Second)
		require.Equal(e, []string{"a", "b"}, s.has("web"))
		e.expect("web", "Done")
	})
}

func TestAPanicHalfWayIsHandledAsAFailure(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		s.before(func(_, record string) error {
			if record == "b" {
				panic("out of order")
			}
			return nil
		})
		e.change("web", "a", "b")
		require.Contains(e, e.get("web").Status.GetError(), "out of order")
		s.before(nil)
		e.change("web")
		pass(time.Second)
		require.Empty(e, s.has("web"))
		e.expect("web", "Done")
	})
}

func TestTheStateOfALostOutcomeIsRemembered(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		s.before(func(string, string) error { time.Sleep(time.Second); return nil })
		e.change("web", "a")
		e.change("web", "b") // while a is being added
		e.annotated("web", "")
		pass(time.Minute)
		require.Equal(e, []string{"b"}, s.has("web"))
		e.annotated("web", `["b"]`)
	})
}

func TestDeletingRemovesTheLastAppliedState(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "b")
		s.set("web", "foreign", true)
		s.take()
		e.remove("web")
		require.Equal(e, []changes{removes("a", "b")}, s.take())
		require.Equal(e, []string{"foreign"}, s.has("web"))
	})
}

func TestDeletingAfterARestartRemovesTheAnnotatedState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEnv(t), newServer()
		e.start(e.config(), s)
		e.change("web", "a", "b")
		e.Stop()

		e.start(e.config(), s)
		s.take()
		e.change("web", "b")
		require.Equal(e, []changes{removes("a")}, s.take())
		e.remove("web")
		require.Equal(e, []changes{removes("b")}, s.take())
	})
}

func TestTheStateOfADeletedObjectIsForgotten(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		e.change("web", "a")
		e.remove("web")
		s.take()
		e.change("web", "b")
		require.Equal(e, []changes{adds("b")}, s.take())
	})
}

func TestADeletionThatFailsHalfWayIsRepeated(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "b")
		heal := s.failOn("b")
		e.remove("web")
		require.Equal(e, []string{"b"}, s.has("web"))
		heal()
		pass(time.Second)
		require.Empty(e, s.has("web"))
	})
}

func TestAnObjectInsertedDuringItsDeletionIsAppliedInFull(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "b")
		row := e.get("web")
		heal := s.failOn("b")
		e.remove("web")
		heal()
		// With an annotation of both records.
		e.edit("web", func(z *zone) { *z = *row.Clone() })
		pass(time.Minute)
		require.Equal(e, []string{"a", "b"}, s.has("web"))
		e.expect("web", "Done")
	})
}

func TestAnUnreadableAnnotationIsAFirstReconciliation(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		heal := s.failOn("b")
		e.edit("web", func(z *zone) {
			z.Records = []string{"a", "b"}
			z.SetAnnotation(annotation, "{broken")
		})
		const trouble = `annotation "example.org/records" cannot be read: invalid character 'b'`
		e.expect("web", "Error: no space for b ("+trouble+" looking for beginning of object key string)")
		rounds := e.Loop.Journal()
		require.Contains(e, rounds[len(rounds)-1].Operations[0].Error, trouble)
		require.Contains(e, e.lastNote("web"), "a first reconciliation: "+trouble)

		heal()
		pass(time.Second)
		e.expect("web", "Done")
		e.annotated("web", `["a","b"]`)
		require.Contains(e, e.lastNote("web"), trouble, "a success notes it too")
		require.Equal(e, []changes{adds("a", "b"), adds("a", "b")}, s.take())
		require.Equal(e, 1, strings.Count(e.Logged(), "treating an annotation that cannot be read as a first reconciliation"))
		require.Contains(e, e.Logged(), "object=web")
	})
}

func TestExtractErrorsFailBeforeAnythingIsApplied(t *testing.T) {
	s := newServer()
	s.extract = func(*zone) ([]string, error) { return nil, errors.New("no records") }
	inBubble(t, s, func(e *env) {
		e.change("web", "a")
		e.expect("web", "Error: extract the current state: no records")
		e.annotated("web", "")
		require.Empty(e, s.take())
	})
}

func TestAConcurrentWriteKeepsTheAnnotation(t *testing.T) {
	s := newServer()
	s.before(func(string, string) error { time.Sleep(time.Second); return nil })
	inBubble(t, s, func(e *env) {
		e.change("web", "a")
		// While a is being added.
		wtxn := e.DB.WriteTxn(e.Table)
		z := e.get("web").Clone().SetOther(reconciler.StatusDone())
		z.SetAnnotation("other", "1")
		_, _, err := e.Table.Insert(wtxn, z)
		require.NoError(e, err)
		wtxn.Commit()

		pass(time.Minute)
		z = e.get("web")
		require.Equal(e, reconciler.StatusKindDone, z.Other.Kind)
		require.Equal(e, reconciler.StatusKindDone, z.Status.Kind)
		require.Equal(e, `["a"]`, z.Annotations[annotation])
		require.Equal(e, "1", z.Annotations["other"])
		require.Len(e, z.Annotations, 3, "both annotations and the epoch")
		rounds := e.Loop.Journal()
		require.True(e, rounds[len(rounds)-1].Operations[0].Conflict)
		require.Len(e, s.take(), 1)
	})
}

func TestACloneOfADeletedRowIsAppliedAgain(t *testing.T) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d worker(s)", workers), func(t *testing.T) {
			s := newServer()
			inBubble(t, s, func(e *env) {
				e.change("web", "a", "b")
				row := e.get("web")
				for range 3 {
					e.remove("web")
					require.Empty(e, s.has("web"))
					e.edit("web", func(z *zone) { *z = *row.Clone() })
					e.expect("web", "Done")
					require.Equal(e, []string{"a", "b"}, s.has("web"))
				}
				e.edit("web", func(z *zone) { *z = *row.Clone() })
				require.Equal(e, []string{"a", "b"}, s.has("web"), "a clone of an existing row")
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
		})
	}
}

func TestACloneFromAnEarlierProcessIsAppliedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEnv(t), newServer()
		e.start(e.config(), s)
		e.change("web", "a")
		e.change("mail", "a")
		web, mail := e.get("web"), e.get("mail")
		e.Stop()

		e.start(e.config(), s)
		s.take()
		e.change("mail", "a")
		require.Empty(e, s.take(), "the annotation is trusted")
		e.remove("web") // not applied by this process
		e.remove("mail")
		s.take()
		e.edit("web", func(z *zone) { *z = *web.Clone() })
		e.edit("mail", func(z *zone) { *z = *mail.Clone() })
		require.Equal(e, []string{"a"}, s.has("web"))
		require.Equal(e, []string{"a"}, s.has("mail"))
	})
}

// A copy of a row under another name is a different object. The state in its annotation belongs to
// the first row.
func TestACopyUnderAnotherNameDoesNotAffectTheOriginal(t *testing.T) {
	sitesInBubble(t, func(e *env, s *sites) {
		move(e, "old", "a")
		row := e.get("web")
		e.edit("copy", func(z *zone) { *z = *row.Clone(); z.Name, z.Domain = "copy", "new" })
		require.Equal(e, []string{"a"}, s.has("old"), "it belongs to web")
		require.Equal(e, []string{"a"}, s.has("new"))
		e.remove("copy")
		require.Equal(e, []string{"a"}, s.has("old"))
		require.Empty(e, s.has("new"))
	})
}

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

// lastNote returns the note of the latest operation on a row.
func (e *env) lastNote(name string) string {
	events := e.Loop.Events(inspect.EventQuery{Key: name})
	require.NotEmpty(e, events)
	return events[len(events)-1].Note
}

// A row is changed repeatedly while its target fails. The number of remembered states is bounded,
// and so is the number of items in a call.
func TestTheMemoryOfAFailingObjectIsBounded(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "keep")
		heal := s.failOn("zero")
		for i := range 32 {
			e.change("web", "keep", fmt.Sprintf("x%d", i), "zero")
			pass(2 * time.Minute)
			e.expect("web", "Error: no space for zero")
			require.Empty(e, e.lastNote("web"))
		}
		s.take()
		for i := range 3 {
			e.change("web", "keep", fmt.Sprintf("y%d", i), "zero")
			pass(2 * time.Minute)
			e.expect("web", "Error: remove everything, to start over: no space for zero")
			require.Regexp(e, "^starting over: 3[23] states were tried in vain$", e.lastNote("web"))
		}
		for _, ops := range s.take() {
			require.Empty(e, ops.ItemsToAdd)
			require.Len(e, ops.ItemsToRemove, 35, "a, keep, zero and 32 others")
		}

		heal()
		e.change("web", "keep", "y")
		pass(2 * time.Minute)
		e.expect("web", "Done")
		e.annotated("web", `["keep","y"]`)
		require.Equal(e, []string{"keep", "y"}, s.has("web"))
		calls := s.take()
		require.Len(e, calls, 2)
		require.Len(e, calls[0].ItemsToRemove, 35)
		require.ElementsMatch(e, []string{"keep", "y"}, calls[1].ItemsToAdd)

		e.change("web", "y")
		require.Equal(e, []changes{removes("keep")}, s.take(), "the tried states are forgotten")
	})
}

// Whatever fails in between, the target has the wanted records in the end.
func TestStartingOverLosesNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var base stateful.BaseStatefulReconciler[*zone, []string, string]
	s, z := newServer(), named("web")
	fault := errors.New("fault")
	startedOver := 0
	for range long.Times(500) {
		z = z.Clone()
		z.Records = nil
		for record := range 8 {
			if random.IntN(2) == 0 {
				z.Records = append(z.Records, fmt.Sprint(record))
			}
		}
		s.before(func(string, string) error {
			if random.IntN(3) > 0 {
				return fault
			}
			return nil
		})
		before := z.Clone()
		err := base.Reconcile(t.Context(), z, s)
		if err != nil {
			require.ErrorIs(t, err, fault)
			z = before // as the loop does: a failure commits no annotation
			if err.Error() != "fault" {
				startedOver++
			}
		}
		if random.IntN(50) > 0 && err != nil {
			continue
		}
		s.before(nil)
		require.NoError(t, base.Reconcile(t.Context(), z, s))
		require.ElementsMatch(t, z.Records, s.has("web"))
	}
	require.NotZero(t, startedOver, "no attempt started over")
}
