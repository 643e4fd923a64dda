// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
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

		before := e.get("web").Annotations
		e.change("web", "b", "c")
		require.Empty(e, s.take())
		e.expect("web", "Done")
		before["probe"] = "1"
		require.Contains(e, e.get("web").Annotations, "probe", "the annotation is not written again")

		e.change("web", "odd")
		e.expect("web", "Error: extract the current state: odd records")
		e.annotated("web", `["b","c"]`)
		require.Empty(e, s.take())
	})
}

func slow(string) error { time.Sleep(time.Second); return nil }

func TestAnnotationAndStatusAreOneCommit(t *testing.T) {
	s := newServer()
	s.before(slow)
	inBubble(t, s, func(e *env) {
		e.change("web", "a")
		_, revision, watch, _ := e.Table.GetWatch(e.DB.ReadTxn(), byName.Query("web"))
		e.expect("web", "Pending")
		e.annotated("web", "")
		<-watch
		require.Equal(e, revision+1, e.revisionOf("web"))
		e.expect("web", "Done")
		e.annotated("web", `["a"]`)
	})
}

func TestADeletionRemovesTheLastAppliedState(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "b")
		s.set("web", "foreign", true)
		s.take()
		e.remove("web")
		require.Equal(e, []changes{removes("a", "b")}, s.take())
		require.Equal(e, []string{"foreign"}, s.has("web"))
		e.change("web", "b")
		require.Equal(e, []changes{adds("b")}, s.take(), "the deleted object is forgotten")

		e.Stop()
		start(e, e.config(), s)
		e.change("web", "c")
		require.Equal(e, []changes{{ItemsToAdd: []string{"c"}, ItemsToRemove: []string{"b"}}}, s.take())
		e.remove("web")
		require.Equal(e, []changes{removes("c")}, s.take())
	})
}

func TestAnUnreadableAnnotationIsAFirstReconciliation(t *testing.T) {
	s := newServer()
	s.failOn("b")
	inBubble(t, s, func(e *env) {
		e.edit("web", func(z *zone) {
			z.Records = []string{"a", "b"}
			z.SetAnnotation(annotation, `["a", 1]`) // decoded in part
		})
		const trouble = `annotation "example.org/records" cannot be read: json: cannot unmarshal number`
		e.expect("web", "Error: no space for b ("+trouble+" into Go value of type string)")
		rounds := e.Loop.Rounds()
		require.Contains(e, rounds[len(rounds)-1].Operations[0].Error, trouble)
		require.Contains(e, e.lastNote("web"), "a first reconciliation: "+trouble)

		s.before(nil)
		e.Pass(time.Second)
		e.expect("web", "Done")
		e.annotated("web", `["a","b"]`)
		require.Contains(e, e.lastNote("web"), trouble, "a success notes it too")
		require.Equal(e, []changes{adds("a", "b"), adds("a", "b")}, s.take())
		const warning = "treating an annotation that cannot be read as a first reconciliation"
		require.Equal(e, 1, strings.Count(e.Logged(), warning))
		require.Contains(e, e.Logged(), "object=web")
	})
}

func TestAConcurrentWriteKeepsTheAnnotation(t *testing.T) {
	s := newServer()
	s.before(slow)
	inBubble(t, s, func(e *env) {
		e.change("web", "a")
		// While a is being added.
		z := e.get("web").Clone().SetOther(reconciler.StatusDone())
		z.Domain = "example.org"
		z.SetAnnotation("other", "1")
		e.Insert(z)

		e.Pass(time.Minute)
		z = e.get("web")
		require.Equal(e, reconciler.StatusKindDone, z.Other.Kind)
		require.Equal(e, "example.org", z.Domain)
		require.Equal(e, reconciler.StatusKindDone, z.Status.Kind)
		require.Equal(e, `["a"]`, z.Annotations[annotation])
		require.Equal(e, "1", z.Annotations["other"])
		require.Len(e, z.Annotations, 3, "both annotations and the epoch")
		rounds := e.Loop.Rounds()
		require.True(e, rounds[len(rounds)-1].Operations[0].Conflict)
		require.Len(e, s.take(), 1)
	})
}

func TestACloneOfADeletedRowIsAppliedAgain(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "b")
		e.change("mail", "a", "b")
		web, mail := e.get("web"), e.get("mail")
		comesBack := func(row *zone) {
			e.remove(row.Name)
			require.Empty(e, s.has(row.Name))
			e.restore(row)
			e.expect(row.Name, "Done")
			require.Equal(e, []string{"a", "b"}, s.has(row.Name))
		}
		comesBack(web)
		comesBack(web)

		e.Stop()
		start(e, e.config(), s)
		s.take()
		e.change("mail", "a", "b")
		require.Empty(e, s.take(), "the annotation of an earlier process is trusted")
		comesBack(mail)
		comesBack(web) // not applied by this process
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

// polling is a server that reconciles every minute, and counts its applies in the row.
type polling struct{ *server }

func (polling) RequeueAfter(*zone) time.Duration { return time.Minute }

func (p polling) ApplyOperations(ctx context.Context, z *zone, ops changes) error {
	z.Domain += "+"
	return p.server.ApplyOperations(ctx, z, ops)
}

// The wanted state changes once, between two requeues. The change is applied once, and the
// annotation is updated.
func TestAChangeAppliedAtARequeueIsNotAppliedAgain(t *testing.T) {
	p := polling{newServer()}
	p.want("a")
	inBubble(t, p, func(e *env) {
		e.change("web")
		p.take()
		before := e.revisionOf("web")
		e.Pass(10 * time.Minute)
		require.Equal(e, before, e.revisionOf("web"), "a requeue without changes writes nothing")
		p.want("b")
		e.Pass(10 * time.Minute)
		require.Equal(e, []changes{{ItemsToAdd: []string{"b"}, ItemsToRemove: []string{"a"}}}, p.take())
		e.annotated("web", `["b"]`)
	})
}

func TestChangesOfTheRowAreWrittenWithAnyOutcome(t *testing.T) {
	p := polling{newServer()}
	p.want("a")
	inBubble(t, p, func(e *env) {
		e.change("web")
		require.Equal(e, "+", e.get("web").Domain)
		p.want("b")
		e.Pass(time.Minute)
		require.Equal(e, "++", e.get("web").Domain, "at a requeue")
		p.before(func(string) error { return reconciler.RetryAfter(errors.New("busy"), 10*time.Second) })
		p.want("c")
		e.Pass(90 * time.Second) // three failures with the same text
		e.expect("web", "Error: busy")
		require.Equal(e, "++++++", e.get("web").Domain, "at failures")
		p.before(func(string) error { panic("oops") })
		e.Pass(100 * time.Second) // retries after 10 s, and then after the backoff: 16, 32 and 60 s
		e.expect("web", "Error: panic in update: oops")
		require.Equal(e, "+++++++++", e.get("web").Domain, "at panics")
	})
}

// A Requeue from a removal means that it is still going on. The row stays unapplied and remembered
// until it is finished.
func TestARequeuedRemovalIsNotApplied(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "b")
		row := e.get("web")
		looks := 0
		s.before(func(record string) error {
			if looks++; record == "b" && looks < 6 {
				return reconciler.Requeue(20 * time.Second)
			}
			return nil
		})
		e.remove("web")
		revision := e.Table.Revision(e.DB.ReadTxn())
		e.Pass(30 * time.Second)
		ctx, cancel := context.WithTimeout(e.Context(), time.Nanosecond)
		defer cancel()
		_, err := e.Loop.Wait(ctx, revision, reconciler.Applied)
		require.Error(e, err)
		require.Equal(e, []string{"b"}, s.has("web"))

		e.restore(row) // during the removal
		e.Pass(time.Minute)
		require.Equal(e, []string{"a", "b"}, s.has("web"))
		e.remove("web")
		e.Pass(time.Minute)
		require.Empty(e, s.has("web"))
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 1 }))
}

// A row is changed repeatedly while its target fails. The number of remembered states is bounded,
// and so is the number of items in a call.
func TestTheMemoryOfAFailingObjectIsBounded(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "keep")
		s.failOn("zero")
		for i := range 32 {
			e.change("web", "keep", fmt.Sprintf("x%d", i), "zero")
			e.Pass(2 * time.Minute)
			e.expect("web", "Error: no space for zero")
			require.Empty(e, e.lastNote("web"))
		}
		s.take()
		for i := range 3 {
			e.change("web", "keep", fmt.Sprintf("y%d", i), "zero")
			e.Pass(2 * time.Minute)
			e.expect("web", "Error: remove everything, to start over: no space for zero")
			require.Regexp(e, "^starting over: 3[23] states were tried in vain$", e.lastNote("web"))
		}
		calls := s.take()
		require.NotEmpty(e, calls)
		for _, ops := range calls {
			require.Empty(e, ops.ItemsToAdd)
			require.LessOrEqual(e, len(ops.ItemsToRemove), 3, "those of one state")
		}

		s.before(nil)
		e.change("web", "keep", "y")
		e.Pass(2 * time.Minute)
		e.expect("web", "Done")
		e.annotated("web", `["keep","y"]`)
		require.Equal(e, []string{"keep", "y"}, s.has("web"))
		calls = s.take()
		removed := map[string]bool{}
		for _, ops := range calls[:len(calls)-1] {
			require.Empty(e, ops.ItemsToAdd)
			for _, record := range ops.ItemsToRemove {
				removed[record] = true
			}
		}
		require.Len(e, removed, 35, "a, keep, zero and 32 others")
		require.Equal(e, adds("keep", "y"), calls[len(calls)-1])

		e.change("web", "y")
		require.Equal(e, []changes{removes("keep")}, s.take(), "the tried states are forgotten")
	})
}

// Whatever fails in between, the target has the wanted records in the end.
func TestStartingOverLosesNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var r base
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
		s.before(func(string) error {
			if random.IntN(3) > 0 {
				return fault
			}
			return nil
		})
		before := z.Clone()
		err := r.Reconcile(t.Context(), z, s)
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
		require.NoError(t, r.Reconcile(t.Context(), z, s))
		require.ElementsMatch(t, z.Records, s.has("web"))
	}
	require.NotZero(t, startedOver, "no attempt started over")
}

func TestTheTargetIsRightAfterAFault(t *testing.T) {
	fails := func(record string) error { return errors.New("no space for " + record) }
	panics := func(record string) error { panic("out of order at " + record) }
	const deleted = "-"
	for name, test := range map[string]struct {
		applied, tried, wanted string // records
		fault                  func(record string) error
		at                     string // the record that the fault is for
	}{
		"additions that fail":                        {deleted, "a b c", "a", fails, "c"},
		"removals before a failure":                  {"a b", "c", "a b", fails, "c"},
		"a panic":                                    {deleted, "a b", "", panics, "b"},
		"a lost outcome":                             {deleted, "a", "b", slow, "a"},
		"a deletion that fails":                      {"a b", deleted, deleted, fails, "b"},
		"a clone that is inserted during a deletion": {"a b", deleted, "a b", fails, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			inBubble(t, s, func(e *env) {
				var row *zone
				write := func(records string) {
					if records == deleted {
						e.remove("web")
						return
					}
					e.edit("web", func(z *zone) {
						if row != nil {
							*z = *row.Clone()
						}
						z.Records = strings.Fields(records)
					})
				}
				write(test.applied)
				row, _ = e.Get(named("web"))
				s.before(func(record string) error {
					if record != test.at {
						return nil
					}
					return test.fault(record)
				})
				write(test.tried)
				s.before(nil)
				write(test.wanted)
				e.Pass(time.Minute)
				if test.wanted == deleted {
					require.Empty(e, s.has("web"))
					return
				}
				require.ElementsMatch(e, strings.Fields(test.wanted), s.has("web"))
				e.expect("web", "Done")
			})
		})
	}
}
