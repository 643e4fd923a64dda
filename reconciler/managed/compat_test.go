// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// These tests use the names that programs bring along in the way those programs do.
// docs/COMPATIBILITY.md has a row for each name.

var errNo = errors.New("no")

func TestFunctionsAreConnecters(t *testing.T) {
	asked := 0
	client := managed.NopClient[*bucket]{}
	connect := managed.ExternalConnectorFn[*bucket](func(context.Context, *bucket) (managed.ExternalClient[*bucket], error) {
		asked++
		return &client, nil
	})
	var connecter managed.ExternalConnecter[*bucket] = connect
	got, err := connecter.Connect(t.Context(), named("a"))
	require.NoError(t, err)
	require.Same(t, &client, got)
	_, err = connect.Connect(t.Context(), named("a"))
	require.NoError(t, err)

	with := managed.NewNopDisconnecter(connecter)
	same, ok := with.(*managed.NopDisconnecter[*bucket])
	require.True(t, ok)
	got, err = same.Connect(t.Context(), named("a"))
	require.NoError(t, err)
	require.Same(t, &client, got)
	require.NoError(t, same.Disconnect(t.Context()))
	require.Equal(t, 3, asked)

	var disconnecter managed.ExternalDisconnecter = managed.ExternalDisconnectorFn(func(context.Context) error { return errNo })
	require.ErrorIs(t, disconnecter.Disconnect(t.Context()), errNo)
}

func TestNopClientReportsUpToDateResources(t *testing.T) {
	got, err := (&managed.NopConnecter[*bucket]{}).Connect(t.Context(), named("a"))
	require.NoError(t, err)
	c, ok := got.(*managed.NopClient[*bucket])
	require.True(t, ok)
	seen, err := c.Observe(t.Context(), named("a"))
	require.NoError(t, err)
	require.Equal(t, managed.ExternalObservation{ResourceExists: true, ResourceUpToDate: true}, seen)
	require.NoError(t, errors.Join(c.Create(t.Context(), named("a")), c.Update(t.Context(), named("a")), c.Delete(t.Context(), named("a"))))

	deleted := named("a")
	deleted.DeletionTime = time.Now()
	seen, err = c.Observe(t.Context(), deleted)
	require.NoError(t, err)
	require.False(t, seen.ResourceExists)
}

// The reconciler is the operations in the configuration of a loop.
func TestReconcilerImplementsOperations(t *testing.T) {
	e := newEnv(t, 1)
	var r *managed.Reconciler[*bucket]
	r, err := managed.NewReconciler(e.config())
	require.NoError(t, err)
	var ops reconciler.Operations[*bucket] = r

	// The default outside system does nothing.
	obj := named("a")
	require.NoError(t, r.Delete(t.Context(), e.DB.ReadTxn(), 1, obj), "it has no finalizer")
	err = r.Update(t.Context(), e.DB.ReadTxn(), 1, obj)
	require.Error(t, err, "no loop can write the row")
	require.NoError(t, ops.Prune(t.Context(), e.DB.ReadTxn(), nil))

	reconciled := named("a")
	managed.SetExternalName(reconciled, "name-1")
	reconciled.SetConditions(managed.Available())
	reconciled.Size = 3
	current := named("a")
	current.Size = 4
	merged := r.Merge(current.Clone(), reconciled)
	require.Equal(t, "name-1", managed.GetExternalName(merged))
	require.True(t, managed.IsReady(merged))
	require.Equal(t, 4, merged.Size, "the desired state of the program stays")
}

// Annotations written by hand have the same effect as the functions that set them.
func TestAnnotationsWrittenByHandEqualThoseOfFunctions(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.edit(func(b *bucket) { b.SetAnnotation(managed.AnnotationPrefix+"reconcile-requested-at", "now") })
		e.called("connect", "observe")
		e.rows(func(b *bucket) {
			require.Equal(e, "now", b.Annotations[managed.AnnotationPrefix+"reconcile-handled-at"])
			require.True(e, managed.ReconcileHandled(b, "now"))
			for _, key := range []string{managed.AnnotationPrefix + "external-create-pending", managed.AnnotationPrefix + "external-create-succeeded"} {
				_, err := time.Parse(time.RFC3339Nano, b.Annotations[key])
				require.NoError(e, err, key)
			}
		})
		e.edit(func(b *bucket) { b.SetAnnotation(managed.AnnotationPaused, "true") })
		e.is(managed.ConditionReason("ReconcilePaused"), managed.ConditionReason("Available"))
		e.edit(func(b *bucket) {
			b.RemoveAnnotation(managed.AnnotationPaused)
			b.SetAnnotation(managed.AnnotationPrefix+"deletion-policy", "Orphan")
		})
		e.remove()
		e.gone()
		e.holds(1)
	}, nil)
}
