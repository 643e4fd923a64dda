// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/stateful"
)

// stored lists one row, with an annotation of the records that the server has.
type stored struct{ *server }

func (s stored) List(_ context.Context, _ statedb.ReadTxn, yield func(*zone) bool) error {
	z := named("old")
	z.SetAnnotation(annotation, `["a","b"]`)
	yield(z)
	return nil
}

func TestOrphanIsRemovedByTheStateInItsAnnotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEnv(t), newServer()
		for _, record := range []string{"a", "b", "foreign"} {
			s.set("old", record, true)
		}
		cfg := e.config()
		cfg.Lister = stored{s}
		start(e, cfg, s)
		e.Pass(time.Minute)
		require.Equal(t, []string{"foreign"}, s.has("old"))
	})
}

func TestRowsAreRefreshedEvery30Minutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEnv(t), observing{newServer()}
		cfg := e.config()
		cfg.Options = nil
		start(e, cfg, s)
		e.change("web", "a")
		s.set("web", "a", false)
		e.Pass(29 * time.Minute)
		require.Empty(e, s.has("web"))
		e.Pass(2 * time.Minute)
		require.Equal(e, []string{"a"}, s.has("web"))
	})
}

// keyless returns an empty key for the annotation.
type keyless struct{ *server }

func (keyless) GetStateAnnotationKey() string { return "" }

// mistyped has methods of the optional interfaces with other signatures.
type mistyped struct{ *server }

func (mistyped) ObserveState(*zone) ([]string, error)      { return nil, nil }
func (mistyped) UpdateStateAnnotation(*zone, string) error { return nil }
func (mistyped) RequeueAfter() time.Duration               { return 0 }
func (mistyped) Prune() error                              { return nil }

type (
	noBatches struct {
		reconciler.BatchOperations[*zone]
	}
	noRounds struct {
		reconciler.RoundOperations[*zone]
	}
)

func TestTheErrorNamesEveryMistake(t *testing.T) {
	const rest = " is nil, but the adapter keeps notes in the rows"
	_, err := stateful.Configure[*zone, []string, string](reconciler.Config[*zone]{}, nil)
	require.EqualError(t, err, "stateful: the stateful reconciler is nil\nConfig.Clone"+rest+"\nConfig.SetStatus"+rest+"\nConfig.GetStatus"+rest)
	err = stateful.Bound[*zone]{}.Update(t.Context(), nil, 0, named("web"))
	require.EqualError(t, err, "stateful: Bound.ToUpdate is nil")
	require.True(t, reconciler.IsTerminal(err))

	none := reconciler.Config[*zone]{Clone: (*zone).Clone, SetStatus: (*zone).SetStatus, GetStatus: (*zone).GetStatus}

	_, err = stateful.Configure(none, mistyped{newServer()})
	require.EqualError(t, err, "stateful: stateful_test.mistyped.UpdateStateAnnotation is a "+
		"func(*stateful_test.zone, string) error, must be a func(*stateful_test.zone, []string) error\n"+
		"stateful_test.mistyped.ObserveState is a func(*stateful_test.zone) ([]string, error), "+
		"must be a func(context.Context, *stateful_test.zone) ([]string, error)\n"+
		"stateful_test.mistyped.RequeueAfter is a func() time.Duration, "+
		"must be a func(*stateful_test.zone) time.Duration\n"+
		"stateful_test.mistyped.Prune is a func() error, must be a func(context.Context, statedb.ReadTxn, "+
		"iter.Seq2[*github.com/statekeel/statekeel/reconciler/stateful_test.zone,uint64]) error")

	none.Operations, none.BatchOperations, none.RoundOperations = noOperations{}, noBatches{}, noRounds{}
	_, err = stateful.Configure(none, keyless{})
	const operations = ", must be nil: the operations are those of the stateful reconciler"
	require.EqualError(t, err, "stateful: stateful_test.keyless.GetStateAnnotationKey: the key is empty\n"+
		"Config.Operations is stateful_test.noOperations"+operations+"\n"+
		"Config.BatchOperations is stateful_test.noBatches"+operations+"\n"+
		"Config.RoundOperations is stateful_test.noRounds"+operations)
}

// steps is an Interface that records its calls, and fails in one.
type steps struct {
	name, fails string
	notes       *[]string
}

func (s steps) Observe(context.Context) error   { return s.do("observe") }
func (s steps) Reconcile(context.Context) error { return s.do("reconcile") }

func (s steps) do(what string) error {
	*s.notes = append(*s.notes, what+" "+s.name)
	if what == s.fails {
		return reconciler.TerminalError(errors.New("cannot " + what))
	}
	return nil
}

func TestBoundObservesAndThenReconciles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		var notes []string
		cfg := e.config(reconciler.WithoutPruning())
		cfg.Operations = stateful.Bound[*zone]{
			ToUpdate: func(z *zone) stateful.Interface {
				if z.Name == "dummy" {
					return stateful.Dummy{}
				}
				return steps{z.Name, z.Domain, &notes}
			},
			ToDelete: func(z *zone) stateful.Interface { return steps{"no " + z.Name, "", &notes} },
		}
		e.Start(cfg)
		e.change("web")
		e.change("dummy")
		e.edit("blind", func(z *zone) { z.Domain = "observe" })
		e.edit("weak", func(z *zone) { z.Domain = "reconcile" })
		e.remove("web")
		e.expect("dummy", "Done")
		e.expect("blind", "Error: cannot observe")
		e.expect("weak", "Error: cannot reconcile")
		require.Equal(t, []string{
			"observe web", "reconcile web", "observe blind", "observe weak", "reconcile weak",
			"observe no web", "reconcile no web",
		}, notes)
	})
	require.NoError(t, stateful.Bound[*zone]{}.Delete(t.Context(), nil, 0, named("web")))
}
