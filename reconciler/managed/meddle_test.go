// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// insert writes a row as a program without a Writer does.
func (e *env) insert(b *bucket) {
	wtxn := e.DB.WriteTxn(e.Table)
	defer wtxn.Commit()
	_, _, err := e.Table.Insert(wtxn, b.SetStatus(reconciler.StatusPending()))
	require.NoError(e, err)
}

// exists returns the name of a resource of an object, empty if there is none.
func (e *env) exists(owner string) (found string) {
	e.cloud.set(func(c *cloud) {
		for name, s := range c.buckets {
			if s.owner == owner {
				found = name
			}
		}
	})
	return found
}

func TestWaitReadyOfARowThatReturnsWaitsForItsOwnPass(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.before("observe", func(_ context.Context, b *bucket) error {
			e.cloud.fail("observe", nil)
			wtxn := e.DB.WriteTxn(e.Table)
			defer wtxn.Commit()
			_, _, err := e.Table.Delete(wtxn, named(b.Name))
			require.NoError(e, err)
			_, err = e.writer().Apply(wtxn, named(b.Name), func(b *bucket) { b.Size = 2 })
			e.cloud.fail("update", errRefused)
			return err
		})
		e.edit(func(b *bucket) { managed.RequestReconcile(b, "now") })
		ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
		defer cancel()
		for _, name := range e.names {
			if e.get(name).Size == 2 {
				_, err := managed.WaitReady(ctx, e.DB, e.Table, named(name))
				require.ErrorIs(e, err, context.DeadlineExceeded)
			}
		}
	}, nil)
}

// meddle are the things that others do during a call.
var meddle = map[string]func(e *env, name string, first *bucket){
	"nothing": func(*env, string, *bucket) {},
	"edit":    func(e *env, name string, _ *bucket) { e.editOne(name, func(b *bucket) { b.Size = 2 }) },
	"fresh":   func(e *env, name string, _ *bucket) { b := named(name); b.Size = 2; e.insert(b) },
	"first":   func(e *env, _ string, first *bucket) { e.insert(first.Clone()) },
	"present": func(e *env, name string, _ *bucket) { e.ifRow(name, func(b *bucket) { e.insert(b) }) },
	"mapless": func(e *env, name string, _ *bucket) {
		e.ifRow(name, func(b *bucket) { b.Annotations = nil; e.insert(b) })
	},
	"remove":       func(e *env, name string, _ *bucket) { e.drop(name) },
	"remove fresh": func(e *env, name string, _ *bucket) { e.drop(name); b := named(name); b.Size = 2; e.insert(b) },
	"remove first": func(e *env, name string, first *bucket) { e.drop(name); e.insert(first.Clone()) },
	"remove present": func(e *env, name string, _ *bucket) {
		e.ifRow(name, func(b *bucket) { e.drop(name); e.insert(b) })
	},
	"fresh remove": func(e *env, name string, _ *bucket) { e.insert(named(name)); e.drop(name) },
	"first remove": func(e *env, name string, first *bucket) { e.insert(first.Clone()); e.drop(name) },
	"fresh other": func(e *env, name string, _ *bucket) {
		b := named(name)
		managed.SetExternalName(b, "other-"+name)
		e.insert(b)
	},
	"later fresh": func(e *env, name string, _ *bucket) {
		e.drop(name)
		go func() { time.Sleep(1500 * time.Millisecond); e.insert(named(name)) }()
	},
	"later other": func(e *env, name string, _ *bucket) {
		e.drop(name)
		go func() {
			time.Sleep(1500 * time.Millisecond)
			b := named(name)
			managed.SetExternalName(b, "other-"+name)
			e.insert(b)
		}()
	},
	"delete":       func(e *env, name string, _ *bucket) { e.deleteOne(name) },
	"delete fresh": func(e *env, name string, _ *bucket) { e.deleteOne(name); e.insert(named(name)) },
	"delete first": func(e *env, name string, first *bucket) { e.deleteOne(name); e.insert(first.Clone()) },
	"delete drop":  func(e *env, name string, _ *bucket) { e.deleteOne(name); e.drop(name) },
	"pause": func(e *env, name string, _ *bucket) {
		e.editOne(name, func(b *bucket) { managed.SetPaused(b, true) })
	},
	"pause delete": func(e *env, name string, _ *bucket) {
		e.editOne(name, func(b *bucket) { managed.SetPaused(b, true) })
		e.deleteOne(name)
	},
	"pause drop": func(e *env, name string, _ *bucket) {
		e.editOne(name, func(b *bucket) { managed.SetPaused(b, true) })
		e.drop(name)
	},
	"name": func(e *env, name string, _ *bucket) {
		e.editOne(name, func(b *bucket) { managed.SetExternalName(b, "other-"+name) })
	},
	"name delete": func(e *env, name string, _ *bucket) {
		e.editOne(name, func(b *bucket) { managed.SetExternalName(b, "other-"+name) })
		e.deleteOne(name)
	},
	"name drop": func(e *env, name string, _ *bucket) {
		e.editOne(name, func(b *bucket) { managed.SetExternalName(b, "other-"+name) })
		e.drop(name)
	},
	"decide other": func(e *env, name string, _ *bucket) {
		e.editOne(name, func(b *bucket) { managed.DecideCreate(b, "other-"+name) })
	},
	"share":      func(e *env, name string, _ *bucket) { e.share(name) },
	"share drop": func(e *env, name string, _ *bucket) { e.share(name); e.drop(name) },
	"policy": func(e *env, name string, _ *bucket) {
		e.editOne(name, func(b *bucket) { managed.SetManagementPolicies(b, "Observe", "Create", "Delete") })
	},
	"finalizer": func(e *env, name string, _ *bucket) {
		e.editOne(name, func(b *bucket) { b.Finalizers = append(b.Finalizers[:len(b.Finalizers):len(b.Finalizers)], "mine") })
	},
	"no finalizer": func(e *env, name string, _ *bucket) {
		e.editOne(name, func(b *bucket) { b.Finalizers = nil })
	},
	"no finalizer drop": func(e *env, name string, _ *bucket) {
		e.editOne(name, func(b *bucket) { b.Finalizers = nil })
		e.drop(name)
	},
}

func (e *env) ifRow(name string, f func(b *bucket)) {
	if b := e.get(name); b != nil {
		f(b.Clone())
	}
}

func (e *env) drop(name string) {
	wtxn := e.DB.WriteTxn(e.Table)
	defer wtxn.Commit()
	_, _, err := e.Table.Delete(wtxn, named(name))
	require.NoError(e, err)
}

func (e *env) editOne(name string, f func(b *bucket)) {
	wtxn := e.DB.WriteTxn(e.Table)
	defer wtxn.Commit()
	_, err := e.writer().Edit(wtxn, named(name), f)
	require.NoError(e, err)
}

func (e *env) deleteOne(name string) {
	wtxn := e.DB.WriteTxn(e.Table)
	defer wtxn.Commit()
	_, err := e.writer().Delete(wtxn, named(name))
	require.NoError(e, err)
}

// ends are how a call ends after that.
var ends = map[string]func() error{
	"ok":     func() error { return nil },
	"error":  func() error { return errRefused },
	"unsure": func() error { return fmt.Errorf("reset: %w", managed.ErrCreateUnsure) },
	"panic":  func() error { panic("broken") },
}

// settings are the options of the reconciler.
var settings = map[string]func(e *env) []managed.ReconcilerOption{
	"default":  nil,
	"no grace": noGrace,
	"deterministic": func(*env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{
			managed.WithDeterministicExternalName(), managed.WithInitializers(managed.NewNameAsExternalName[*bucket]()),
		}
	},
	"critical fails": func(*env) []managed.ReconcilerOption {
		n := 0
		return []managed.ReconcilerOption{
			managed.WithCriticalAnnotationUpdater[*bucket](managed.CriticalAnnotationUpdateFn[*bucket](func(context.Context, *bucket) error {
				if n++; n%3 == 0 {
					panic("no disk")
				}
				return errors.New("no disk")
			})),
		}
	},
	"no late": func(*env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{
			managed.WithManagementPolicies("Observe", "Create", "Update", "Delete"),
			managed.WithObserved(func(row, seen *bucket) *bucket { row.Seen = seen.Seen; return row }),
		}
	},
}

// Each run takes some of the 4,500 cases at random. With STATEKEEL_LONG=20 it takes all of them.
func TestMeddlingForgetsAndDuplicatesNothing(t *testing.T) {
	const all = 4500
	for set, opts := range settings {
		for _, op := range []string{"connect", "observe", "create", "update", "delete"} {
			for _, when := range []string{"before", "after"} {
				for what, do := range meddle {
					for how, end := range ends {
						if op == "connect" && when == "after" || op != "create" && how == "unsure" ||
							// A person who decides a create that still runs decides wrongly.
							what == "decide other" && how == "panic" {
							continue
						}
						if rand.IntN(all) >= long.Times(all/20) {
							continue
						}
						t.Run(fmt.Sprintf("%s/%s/%s/%s/%s", set, op, when, what, how), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) {
								e := newEnv(t, 1)
								var with []managed.ReconcilerOption
								if opts != nil {
									with = opts(e)
								}
								e.start(with...)
								e.meddled(op, when, do, end)
							})
						})
					}
				}
			}
		}
	}
}

// meddled lets somebody meddle in the first call of an operation, and settles everything afterwards.
func (e *env) meddled(op, when string, do func(e *env, name string, first *bucket), end func() error) {
	name := e.names[0]
	e.others()
	first := named(name)
	first.Size = 1
	done := 0
	f := func(_ context.Context, b *bucket) error {
		done++
		if done > 2 {
			return nil
		}
		if done == 1 {
			do(e, name, first)
		}
		return end()
	}
	if when == "before" {
		e.cloud.before(op, f)
	} else {
		e.cloud.then(op, f)
	}
	e.insert(first.Clone())
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
	e.resolve(name, first)
	pass(5 * time.Minute)
	e.resolve(name, first)
	pass(5 * time.Minute)
	told := e.events.take(name)
	e.judge(name, told)
	e.deleteOne(name)
	pass(5 * time.Minute)
	told = append(told, e.events.take(name)...)
	require.Nil(e, e.get(name), "%v", told)
	if left := e.cloud.holds(name); len(left) > 0 {
		require.True(e, reported(told), "left %v: %v", left, told)
	}
}

func (e *env) resolve(name string, first *bucket) {
	row := e.get(name)
	if row == nil && e.exists(name) != "" {
		e.insert(first.Clone())
		pass(time.Minute)
		row = e.get(name)
	}
	if row == nil {
		return
	}
	e.editOne(name, func(b *bucket) {
		managed.SetPaused(b, false)
		b.Finalizers = without(b.Finalizers, "mine")
		waits := b.GetCondition(managed.TypeSynced).Reason == "ReconcileWaiting" && e.exists(name) != ""
		if managed.IsCreateIncomplete(b) || waits {
			managed.DecideCreate(b, e.exists(name))
		}
	})
}

func without(names []string, name string) (rest []string) {
	for _, n := range names {
		if n != name {
			rest = append(rest, n)
		}
	}
	return rest
}

func reported(told []string) bool {
	for _, t := range told {
		switch t {
		case "Warning ExternalNameChanged", "Warning CannotTellIfManaged", "Warning CannotTellIfCreated":
			return true
		}
	}
	return false
}

func (e *env) judge(name string, told []string) {
	holds := e.cloud.holds(name)
	if reported(told) {
		return
	}
	require.LessOrEqual(e, len(holds), 1, "%v", told)
	if row := e.get(name); row == nil && len(holds) > 0 {
		require.True(e, reported(told), "%v", told)
	} else if row != nil && len(holds) > 0 && managed.GetExternalName(row) != e.exists(name) {
		require.True(e, reported(told), "row names %q: %v", managed.GetExternalName(row), told)
	}
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

func TestARowThatIsWrittenFasterThanAPassIsCreated(t *testing.T) {
	for name, write := range map[string]func(b *bucket, n int){
		"annotation": func(b *bucket, n int) { b.SetAnnotation("tick", strconv.Itoa(n)) },
		"field":      func(b *bucket, n int) { b.Size = 1 + n },
		"plain insert": func(b *bucket, n int) {
			fresh := named(b.Name)
			fresh.Size = 1 + n
			*b = *fresh
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				e.slowly()
				e.want(1)
				e.keepsWriting(write)
				e.rows(func(b *bucket) {
					require.Len(e, e.cloud.holds(b.Name), 1)
					require.Equal(e, reconciler.StatusKindPending, b.Status.Kind)
				})
				pass(time.Minute)
				e.is("ReconcileSuccess", "Available")
				e.rows(func(b *bucket) { require.Equal(e, []int{b.Size}, e.cloud.holds(b.Name)) })
			}, nil)
		})
	}
}

func TestARowThatIsWrittenFasterThanAPassShowsItsConditions(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.slowly()
		e.cloud.fail("update", errRefused)
		e.want(2)
		e.keepsWriting(func(b *bucket, n int) { b.SetAnnotation("tick", strconv.Itoa(n)) })
		e.is("ReconcileError", "Available")
	}, nil)
}

func TestARowThatIsWrittenFasterThanAPassIsRemoved(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.slowly()
		e.remove()
		e.keepsWriting(func(b *bucket, n int) { b.SetAnnotation("tick", strconv.Itoa(n)) })
		e.gone()
		e.holds(-1)
	}, noGrace)
}

func TestWaitReadyWaitsForTheUpdateOfAnEditedField(t *testing.T) {
	for name, write := range map[string]func(e *env){
		"Edit":  func(e *env) { e.edit(func(b *bucket) { b.Size = 2 }) },
		"Apply": func(e *env) { e.want(2) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				e.settle(1)
				e.cloud.fail("update", errRefused)
				write(e)
				ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
				defer cancel()
				_, err := managed.WaitReady(ctx, e.DB, e.Table, named(e.names[0]))
				require.ErrorIs(e, err, context.DeadlineExceeded)
				e.cloud.fail("update", nil)
				_, err = managed.WaitReady(e.Context(), e.DB, e.Table, named(e.names[0]))
				require.NoError(e, err)
				require.Equal(e, []int{2}, e.cloud.holds(e.names[0]))
			}, nil)
		})
	}
}

func TestAPassEndsForARowThatHasOtherPoliciesMeanwhile(t *testing.T) {
	for name, edit := range map[string]func(b *bucket){
		"paused":         func(b *bucket) { managed.SetPaused(b, true) },
		"without Create": func(b *bucket) { managed.SetManagementPolicies(b, "Observe", "Update", "Delete") },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				e.cloud.then("observe", func(_ context.Context, b *bucket) error {
					e.editOne(b.Name, edit)
					return nil
				})
				e.want(1)
				pass(time.Second)
				e.holds(-1)
			}, nil)
		})
	}
}

func TestANameGivenDuringCreateStaysAndIsReported(t *testing.T) {
	each(t, func(e *env) {
		e.others()
		e.cloud.before("create", func(_ context.Context, b *bucket) error {
			e.editOne(b.Name, func(b *bucket) { managed.SetExternalName(b, "other-"+b.Name) })
			return nil
		})
		e.want(1)
		pass(time.Minute)
		e.rows(func(b *bucket) {
			require.Equal(e, "other-"+b.Name, managed.GetExternalName(b))
			require.Contains(e, e.events.take(b.Name), "Warning ExternalNameChanged")
		})
		e.is("ReconcileSuccess", "Available")
	}, nil)
}

// sharedDuring lets another reconciler write its own status on the row during each call of op.
func (e *env) sharedDuring(op string) {
	e.cloud.before(op, func(_ context.Context, b *bucket) error {
		e.share(b.Name)
		return nil
	})
}

// share writes a row as another reconciler does, if there is one.
func (e *env) share(name string) {
	wtxn := e.DB.WriteTxn(e.Table)
	defer wtxn.Commit()
	if row, _, found := e.Table.Get(wtxn, byName.Query(name)); found {
		next := row.Clone()
		next.Other = reconciler.StatusDone()
		_, _, err := e.Table.Insert(wtxn, next)
		require.NoError(e, err)
	}
}

func TestObservedValuesAreWrittenBesideTheStatusOfAnotherReconciler(t *testing.T) {
	for _, op := range []string{"observe", "update"} {
		t.Run(op, func(t *testing.T) {
			each(t, func(e *env) {
				e.settle(1)
				e.sharedDuring(op)
				e.cloud.set(func(c *cloud) {
					c.lateRegion = true
					for _, s := range c.buckets {
						s.size = 7
					}
				})
				pass(70 * time.Second)
				e.rows(func(b *bucket) {
					require.Equal(e, 7, b.Seen)
					require.Equal(e, "north", b.Region)
					require.Equal(e, reconciler.StatusKindDone, b.Other.Kind)
					require.Equal(e, reconciler.StatusKindDone, b.Status.Kind)
				})
				e.is("ReconcileSuccess", "Available")
			}, nil)
		})
	}
}

func TestAnEditDuringObserveDropsWhatWasFilledIn(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		seen := map[string]bool{}
		e.cloud.then("observe", func(_ context.Context, b *bucket) error {
			var again bool
			e.cloud.set(func(*cloud) { again, seen[b.Name] = seen[b.Name], true })
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
	}, nil)
}
