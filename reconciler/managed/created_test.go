// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

const (
	zone = "example.com/zone"
	hint = "example.com/hint"
)

// createsInZone lets Create set a zone and remove a hint, and then calls then.
func (e *env) createsInZone(then func(name string)) {
	e.cloud.then("create", func(_ context.Context, b *bucket) error {
		b.SetAnnotation(zone, "north-1")
		b.RemoveAnnotation(hint)
		then(b.Name)
		return nil
	})
}

// hasZone requires every row to have the annotations that Create has set.
func (e *env) hasZone(when string) {
	e.Helper()
	e.rows(func(b *bucket) {
		require.Equal(e, "north-1", b.Annotations[zone], "%s: %v", when, b.Annotations)
		require.NotEmpty(e, managed.GetExternalName(b), when)
		require.Contains(e, b.Annotations[managed.AnnotationPrefix+"external-create-changes"], zone, when)
	})
}

func hinted(b *bucket) { b.SetAnnotation(hint, "north") }

func TestAnnotationsSetInCreateSurviveAConcurrentChange(t *testing.T) {
	each(t, func(e *env) {
		e.createsInZone(func(name string) {
			wtxn := e.DB.WriteTxn(e.Table)
			defer wtxn.Commit()
			_, err := e.writer().Edit(wtxn, named(name), func(b *bucket) { b.Size = 2 })
			require.NoError(e, err)
		})
		e.want(1, hinted)
		pass(time.Second)
		e.hasZone("after the create")
		e.rows(func(b *bucket) { require.NotContains(e, b.Annotations, hint) })
		e.holds(2)
	}, nil)
}

func TestAnnotationsSetInCreateSurviveApply(t *testing.T) {
	each(t, func(e *env) {
		e.createsInZone(func(string) {})
		e.settle(1, hinted)
		e.want(1, hinted)
		e.hasZone("applied again")
		e.want(2)
		pass(time.Second)
		e.hasZone("applied without the hint")
		e.want(2, func(b *bucket) { b.SetAnnotation(zone, "south-1") })
		e.rows(func(b *bucket) { require.Equal(e, "south-1", b.Annotations[zone], "the program's latest value") })
	}, nil)
}

func TestAnnotationsSetInCreateSurviveAPlainInsert(t *testing.T) {
	each(t, func(e *env) {
		e.createsInZone(func(string) {})
		e.settle(1)
		e.replace(2)
		pass(time.Second)
		e.hasZone("after the insert")
		e.holds(2)
		e.edit(func(b *bucket) { b.RemoveAnnotation(zone) })
		pass(time.Minute)
		e.rows(func(b *bucket) { require.NotContains(e, b.Annotations, zone, "a person removed it") })
	}, nil)
}

func TestMergeLeavesConditionsOfOthersAlone(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1, func(b *bucket) { b.SetConditions(managed.Condition{Type: "Backup", Status: managed.ConditionFalse}) })
		e.cloud.then("update", func(_ context.Context, b *bucket) error {
			wtxn := e.DB.WriteTxn(e.Table)
			defer wtxn.Commit()
			next := e.get(b.Name).Clone()
			next.SetConditions(managed.Condition{Type: "Backup", Status: managed.ConditionTrue})
			_, _, err := e.Table.Insert(wtxn, next)
			return err
		})
		e.want(2)
		pass(time.Second)
		e.rows(func(b *bucket) {
			require.Equal(e, managed.ConditionTrue, b.GetCondition("Backup").Status, "%+v", b.Conditions)
			require.True(e, managed.IsSynced(b))
		})
	}, nil)
}
