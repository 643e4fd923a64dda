// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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
