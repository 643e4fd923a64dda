// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

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

func TestANameGivenDuringCreateStaysAndIsReported(t *testing.T) {
	each(t, func(e *env) {
		e.others()
		e.cloud.before("create", func(_ context.Context, b *bucket) error {
			wtxn := e.DB.WriteTxn(e.Table)
			defer wtxn.Commit()
			_, err := e.writer().Edit(wtxn, b, func(b *bucket) { managed.SetExternalName(b, "other-"+b.Name) })
			return err
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
			wtxn := e.DB.WriteTxn(e.Table)
			defer wtxn.Commit()
			_, err := e.writer().Edit(wtxn, named(b.Name), func(b *bucket) { b.Size = 1 })
			return err
		})
		pass(70 * time.Second)
		e.rows(func(b *bucket) { require.Equal(e, 1, b.Seen) })
	}, nil)
}
