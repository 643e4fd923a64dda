// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// edits are what a person does with a row during a call.
var edits = map[string]func(b *bucket){
	"edit":        func(b *bucket) { b.Size = 2 },
	"pause":       func(b *bucket) { managed.SetPaused(b, true) },
	"name":        otherNamed,
	"decide":      func(b *bucket) { managed.DecideCreate(b, "other-"+b.Name) },
	"policy":      func(b *bucket) { managed.SetManagementPolicies(b, "Observe", "Create", "Delete") },
	"finalizer":   func(b *bucket) { b.Finalizers = append(slices.Clip(b.Finalizers), "mine") },
	"unfinalized": func(b *bucket) { b.Finalizers = nil },
}

// plain are the rows that a program inserts during a call: new ones, changed by the function, or the present one.
var plain = map[string]func(b *bucket){
	"fresh":   func(b *bucket) { b.Size = 2 },
	"first":   func(b *bucket) { b.Size = 1 },
	"other":   otherNamed,
	"present": func(*bucket) {},
	"mapless": func(b *bucket) { b.Annotations = nil },
}

// meddle are the steps that are taken one after the other; after "later" they are taken 1.5 seconds later.
var meddle = []string{
	"", "edit", "fresh", "first", "present", "mapless", "other", "drop", "delete", "pause", "name", "decide", "share",
	"policy", "finalizer", "unfinalized",
	"drop fresh", "drop first", "drop present", "fresh drop", "first drop", "drop later fresh", "drop later other",
	"delete fresh", "delete first", "delete drop", "pause delete", "pause drop", "name delete", "name drop", "share drop",
	"unfinalized drop",
}

// takes takes steps.
func (e *env) takes(name string, todo []string) {
	row := e.get(name)
	for i, step := range todo {
		switch step {
		case "drop":
			e.drop(name)
		case "delete":
			e.deleteOne(name)
		case "share":
			e.share(name)
		case "later":
			go func() {
				time.Sleep(1500 * time.Millisecond)
				e.takes(name, todo[i+1:])
			}()
			return
		case "present", "mapless":
			if row != nil {
				b := row.Clone()
				plain[step](b)
				e.insert(b)
			}
		case "fresh", "first", "other":
			b := named(name)
			plain[step](b)
			e.insert(b)
		default:
			e.editOne(name, edits[step])
		}
	}
}

// ends are how a call ends after that.
var ends = map[string]func() error{
	"ok":     func() error { return nil },
	"error":  func() error { return errRefused },
	"unsure": func() error { return fmt.Errorf("reset: %w", managed.ErrCreateUnsure) },
	"panic":  func() error { panic("broken") },
}

// settings are the options of the reconciler.
var settings = map[string]any{
	"default":       []any{},
	"no grace":      noGrace,
	"deterministic": deterministic,
	"critical fails": func(*env) any {
		n := 0
		return critical(func(context.Context, *bucket) error {
			if n++; n%3 == 0 {
				panic("no disk")
			}
			return errors.New("no disk")
		})
	},
	"no late": []any{
		managed.WithManagementPolicies("Observe", "Create", "Update", "Delete"),
		managed.WithObserved(func(row, seen *bucket) *bucket {
			row.Seen = seen.Seen
			return row
		}),
	},
}

// Each run takes some of the 4,500 cases at random. With STATEKEEL_LONG=20 it takes all of them.
func TestMeddlingForgetsAndDuplicatesNothing(t *testing.T) {
	const all = 4500
	for set, opts := range settings {
		for _, op := range []string{"connect", "observe", "create", "update", "delete"} {
			for _, when := range []string{"before", "after"} {
				for _, todo := range meddle {
					for how, end := range ends {
						if op == "connect" && when == "after" || op != "create" && how == "unsure" ||
							// A person who decides a create that still runs decides wrongly.
							todo == "decide" && how == "panic" {
							continue
						}
						if rand.IntN(all) >= long.Times(all/20) {
							continue
						}
						t.Run(fmt.Sprintf("%s/%s/%s/%s/%s", set, op, when, todo, how), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) {
								e := newEnv(t, 1)
								e.start(opts)
								e.meddled(op, when, strings.Fields(todo), end)
							})
						})
					}
				}
			}
		}
	}
}

// meddled lets somebody meddle in the first call of an operation, and settles everything afterwards.
func (e *env) meddled(op, when string, todo []string, end func() error) {
	name := e.names[0]
	e.others()
	done := 0
	f := func(context.Context, *bucket) error {
		done++
		if done > 2 {
			return nil
		}
		if done == 1 {
			e.takes(name, todo)
		}
		return end()
	}
	if when == "before" {
		e.cloud.before(op, f)
	} else {
		e.cloud.then(op, f)
	}
	e.takes(name, []string{"first"})
	pass(time.Minute)
	if row := e.get(name); row != nil && !managed.WasDeleted(row) && !managed.IsPaused(row) && op == "update" {
		e.editOne(name, func(b *bucket) { b.Size = 3 })
		pass(time.Minute)
	}
	if op == "delete" {
		e.deleteOne(name)
		pass(time.Minute)
	}
	// The person resolves what waits for a person.
	for range 2 {
		e.resolve(name)
		pass(5 * time.Minute)
	}
	told := e.events.take(name)
	holds, row := e.cloud.holds(name), e.get(name)
	if !reported(told) {
		require.LessOrEqual(e, len(holds), 1, "%v", told)
		if len(holds) > 0 {
			require.NotNil(e, row, "%v", told)
			require.Equal(e, e.cloud.exists(name), managed.GetExternalName(row), "%v", told)
		}
	}
	e.deleteOne(name)
	pass(5 * time.Minute)
	told = append(told, e.events.take(name)...)
	require.Nil(e, e.get(name), "%v", told)
	if left := e.cloud.holds(name); len(left) > 0 {
		require.True(e, reported(told), "left %v: %v", left, told)
	}
}

// resolve resolves what waits for a person.
func (e *env) resolve(name string) {
	if e.get(name) == nil && e.cloud.exists(name) != "" {
		e.takes(name, []string{"first"})
		pass(time.Minute)
	}
	e.editOne(name, func(b *bucket) {
		managed.SetPaused(b, false)
		b.Finalizers = slices.DeleteFunc(slices.Clone(b.Finalizers), func(f string) bool { return f == "mine" })
		exists := e.cloud.exists(name)
		waits := b.GetCondition(managed.TypeSynced).Reason == "ReconcileWaiting" && exists != ""
		if managed.IsCreateIncomplete(b) || waits {
			managed.DecideCreate(b, exists)
		}
	})
}

// reported reports whether an event names what was left in place.
func reported(told []string) bool {
	return slices.ContainsFunc(told, func(t string) bool {
		return slices.Contains([]string{
			"Warning ExternalNameChanged", "Warning CannotTellIfManaged", "Warning CannotTellIfCreated",
		}, t)
	})
}

// A writer may be faster than a pass, and a person may change a row while a pass runs.

// slowly lets each observation take 100 ms.
func (e *env) slowly() {
	e.cloud.before("observe", func(context.Context, *bucket) error {
		time.Sleep(100 * time.Millisecond)
		return nil
	})
}

// keepsWriting writes each object every 50 ms, for 20 s.
func (e *env) keepsWriting(write func(b *bucket, n int)) {
	e.Helper()
	for n := range 400 {
		wtxn := e.DB.WriteTxn(e.Table)
		for _, name := range e.names {
			_, err := e.writer().Edit(wtxn, named(name), func(b *bucket) { write(b, n) })
			require.NoError(e, err)
		}
		wtxn.Commit()
		pass(50*time.Millisecond - slack)
	}
}

func TestARowThatIsWrittenFasterThanAPassShowsItsConditionsAndIsRemoved(t *testing.T) {
	tick := func(b *bucket, n int) { b.SetAnnotation("tick", strconv.Itoa(n)) }
	each(t, func(e *env) {
		e.settle(1)
		e.slowly()
		e.cloud.fail("update", errRefused)
		e.want(2)
		e.keepsWriting(tick)
		e.is("ReconcileError", "Available")
		e.remove()
		e.keepsWriting(tick)
		e.gone(-1)
	}, noGrace)
}

func TestWaitReadyWaitsForTheUpdateOfAnEditedField(t *testing.T) {
	table(t, map[string]func(e *env){
		"Edit":  func(e *env) { e.edit(func(b *bucket) { b.Size = 2 }) },
		"Apply": func(e *env) { e.want(2) },
		"removed and applied during a pass": func(e *env) {
			e.cloud.before("observe", func(_ context.Context, b *bucket) error {
				e.cloud.fail("observe", nil)
				e.Write(func(wtxn statedb.WriteTxn) {
					_, _, err := e.Table.Delete(wtxn, named(b.Name))
					require.NoError(e, err)
					_, err = e.writer().Apply(wtxn, named(b.Name), func(b *bucket) { b.Size = 2 })
					require.NoError(e, err)
				})
				return nil
			})
			e.editOne(e.names[0], func(b *bucket) { managed.RequestReconcile(b, "now") })
			pass(0)
		},
	}, func(e *env, write func(e *env)) {
		e.settle(1)
		e.cloud.fail("update", errRefused)
		write(e)
		_, err := e.waitReady()
		require.ErrorIs(e, err, context.DeadlineExceeded)
		e.cloud.fail("update", nil)
		_, err = e.waitReady()
		require.NoError(e, err)
		require.Equal(e, []int{2}, e.cloud.holds(e.names[0]))
	})
}

func TestAPassEndsForARowThatHasOtherPoliciesMeanwhile(t *testing.T) {
	table(t, map[string]func(b *bucket){
		"paused":         func(b *bucket) { managed.SetPaused(b, true) },
		"without Create": func(b *bucket) { managed.SetManagementPolicies(b, "Observe", "Update", "Delete") },
	}, func(e *env, edit func(b *bucket)) {
		e.cloud.then("observe", func(_ context.Context, b *bucket) error {
			if len(e.get(b.Name).Annotations) == 0 {
				e.editOne(b.Name, edit)
			}
			return nil
		})
		e.want(1)
		pass(time.Second)
		e.holds(-1)
	})
}

func TestANameGivenDuringCreateStaysAndIsReported(t *testing.T) {
	each(t, func(e *env) {
		e.others()
		e.cloud.before("create", func(_ context.Context, b *bucket) error {
			e.editOne(b.Name, otherNamed)
			return nil
		})
		e.want(1)
		pass(time.Minute)
		e.rows(func(b *bucket) {
			require.Equal(e, "other-"+b.Name, managed.GetExternalName(b))
			require.Contains(e, e.events.take(b.Name), "Warning ExternalNameChanged")
		})
		e.is("ReconcileSuccess", "Available")
	})
}

func TestObservedValuesAreWrittenBesideTheStatusOfAnotherReconciler(t *testing.T) {
	table(t, map[string]string{"during Observe": "observe", "during Update": "update"}, func(e *env, op string) {
		e.settle(1)
		e.cloud.before(op, func(_ context.Context, b *bucket) error {
			e.share(b.Name)
			return nil
		})
		e.cloud.set(func() { e.cloud.lateRegion = true })
		e.drift(7)
		pass(70 * time.Second)
		e.rows(func(b *bucket) {
			require.Equal(e, 7, b.Seen)
			require.Equal(e, "north", b.Region)
			require.Equal(e, reconciler.StatusKindDone, b.Other.Kind)
			require.Equal(e, reconciler.StatusKindDone, b.Status.Kind)
		})
		e.is("ReconcileSuccess", "Available")
	})
}

func TestAnEditDuringObserveDropsWhatWasFilledIn(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		seen := map[string]bool{}
		e.cloud.then("observe", func(_ context.Context, b *bucket) error {
			var again bool
			e.cloud.set(func() { again, seen[b.Name] = seen[b.Name], true })
			if again {
				require.Equal(e, 1, e.get(b.Name).Seen, "what the overtaken pass has observed is not written")
				return nil
			}
			b.Seen = 99
			e.editOne(b.Name, func(b *bucket) { b.Size = 1 })
			return nil
		})
		pass(70 * time.Second)
		e.rows(func(b *bucket) { require.Equal(e, 1, b.Seen) })
	})
}
