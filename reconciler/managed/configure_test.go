// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// nil options have the same effect as options that are not given.
func TestDefaultOutsideSystemDoesNothing(t *testing.T) {
	each(t, func(e *env) {
		e.want(1)
		e.is("ReconcileSuccess", "Available")
		e.remove()
		e.gone(-1)
	}, managed.WithExternalConnecter[*bucket](nil), managed.WithFinalizer[*bucket](nil),
		managed.WithCriticalAnnotationUpdater[*bucket](nil),
		managed.WithPollIntervalHook[*bucket](nil), managed.WithLogger(nil))
}

// other is a row of another type.
type other struct{ managed.Meta }

// optionsOf returns options for rows of a type.
func optionsOf[T managed.Managed]() []any {
	return []any{
		managed.WithExternalConnecter(&managed.NopConnecter[T]{}),
		managed.WithExternalConnectDisconnecter(managed.NewNopDisconnecter(&managed.NopConnecter[T]{})),
		managed.WithFinalizer(managed.NewFinalizer[T]("x")),
		managed.WithCriticalAnnotationUpdater(managed.CriticalAnnotationUpdateFn[T](nil)),
		managed.WithPollIntervalHook(func(T, time.Duration) time.Duration { return 0 }),
		managed.WithConnectionPublishers[T](),
	}
}

func TestErrorNamesEveryWrongSetting(t *testing.T) {
	e := newEnv(t, 1)
	ops, err := managed.NewReconciler(e.config())
	require.NoError(t, err)
	_, err = e.configure(
		func(cfg *reconciler.Config[*bucket]) { cfg.Operations = ops },
		managed.WithTimeout(-1), managed.WithCreationGracePeriod(-2), managed.WithPollInterval(-3),
		managed.WithManagementPolicies("Fly"),
		managed.WithInitializers(managed.Initializer[*bucket](nil)), optionsOf[*other](),
	)
	for _, text := range []string{
		"Config.Operations is *managed.Reconciler[",
		"WithTimeout: -1ns must not be negative",
		"WithCreationGracePeriod: -2ns must not be negative",
		"WithPollInterval: -3ns must not be negative",
		`WithManagementPolicies: management action "Fly"`,
		"WithExternalConnecter: it is for rows of type *managed_test.other",
		"WithExternalConnectDisconnecter: it is for rows of type *managed_test.other",
		"WithFinalizer: it is for rows of type *managed_test.other",
		"WithCriticalAnnotationUpdater: it is for rows of type *managed_test.other",
		"WithPollIntervalHook: it is for rows of type *managed_test.other",
		"WithInitializers: initializer 0 is nil",
		"WithConnectionPublishers: it is for rows of type *managed_test.other",
	} {
		require.ErrorContains(t, err, text)
	}

	_, err = e.configure(managed.WithPollJitterHook(-1), managed.WithConnectionPublishers[*bucket](nil))
	require.ErrorContains(t, err, "WithPollJitterHook: -1ns must not be negative")
	require.ErrorContains(t, err, "WithConnectionPublishers: publisher 0 is nil")

	_, err = managed.NewReconciler(reconciler.Config[*bucket]{})
	for _, field := range []string{"DB", "Table", "Clone", "SetStatus", "GetStatus"} {
		require.ErrorContains(t, err, "Config."+field+" is nil")
	}
	require.True(t, strings.HasPrefix(err.Error(), "managed: "))
}

// Functions that are nil do nothing.
func TestFunctionsAreConnectersAndClients(t *testing.T) {
	ctx, b := t.Context(), named("a")
	var called []string
	did := func(call string) func(context.Context, *bucket) error {
		return func(context.Context, *bucket) error { called = append(called, call); return errRefused }
	}
	fns := managed.ExternalClientFns[*bucket]{
		ObserveFn: func(context.Context, *bucket) (managed.ExternalObservation, error) {
			return managed.ExternalObservation{}, errDown
		},
		CreateFn: did("create"), UpdateFn: did("update"), DeleteFn: did("delete"),
	}
	_, err := fns.Observe(ctx, b)
	require.ErrorIs(t, err, errDown)
	for _, call := range []func(context.Context, *bucket) error{fns.Create, fns.Update, fns.Delete} {
		require.ErrorIs(t, call(ctx, b), errRefused)
	}
	require.Equal(t, []string{"create", "update", "delete"}, called)

	connect := managed.ExternalConnectorFn[*bucket](
		func(context.Context, *bucket) (managed.ExternalClient[*bucket], error) { return fns, errDown })
	_, err = connect.Connect(ctx, b)
	require.ErrorIs(t, err, errDown)
	var connecter managed.ExternalConnecter[*bucket] = connect
	var with managed.ExternalConnectDisconnecter[*bucket] = managed.NewNopDisconnecter(connecter)
	nop, ok := with.(*managed.NopDisconnecter[*bucket])
	require.True(t, ok)
	_, err = nop.Connect(ctx, b)
	require.ErrorIs(t, err, errDown)
	require.NoError(t, nop.Disconnect(ctx))
	disconnect := managed.ExternalDisconnectorFn(func(context.Context) error { return errDown })
	var _ managed.ExternalDisconnecter = disconnect
	require.ErrorIs(t, disconnect.Disconnect(ctx), errDown)
	require.Equal(t, "managed/bucket", managed.ControllerName("Bucket"))

	none := managed.ExternalConnectDisconnecterFns[*bucket]{}
	require.NoError(t, none.Disconnect(ctx))
	fromNone, err := none.Connect(ctx, b)
	require.NoError(t, err)
	require.IsType(t, &managed.NopClient[*bucket]{}, fromNone)
	fromNop, err := (&managed.NopConnecter[*bucket]{}).Connect(ctx, b)
	require.NoError(t, err)
	client, ok := fromNop.(*managed.NopClient[*bucket])
	require.True(t, ok)
	require.NoError(t, errors.Join(client.Create(ctx, b), client.Update(ctx, b), client.Delete(ctx, b)))
	fns = managed.ExternalClientFns[*bucket]{}
	require.NoError(t, errors.Join(fns.Create(ctx, b), fns.Update(ctx, b), fns.Delete(ctx, b)))
	deleted := named("a")
	deleted.DeletionTime = time.Now()
	for _, observe := range []func(context.Context, *bucket) (managed.ExternalObservation, error){client.Observe, fns.Observe} {
		seen, err := observe(ctx, b)
		require.NoError(t, err)
		require.Equal(t, managed.ExternalObservation{ResourceExists: true, ResourceUpToDate: true}, seen)
		seen, err = observe(ctx, deleted)
		require.NoError(t, err)
		require.False(t, seen.ResourceExists)
	}
}

// The reconciler is the operations in the configuration of a loop.
func TestReconcilerImplementsOperations(t *testing.T) {
	e := newEnv(t, 1)
	var r *managed.Reconciler[*bucket]
	r, err := managed.NewReconciler(e.config())
	require.NoError(t, err)
	var _ reconciler.ObjectOperations[*bucket] = r

	// The default outside system does nothing.
	obj := named("a")
	require.NoError(t, r.Delete(t.Context(), e.DB.ReadTxn(), 1, obj), "it has no finalizer")
	err = r.Update(t.Context(), e.DB.ReadTxn(), 1, obj)
	require.Error(t, err, "no loop can write the row")

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
			require.Equal(e, e.cloud.exists(b.Name), b.Annotations[managed.AnnotationExternalName])
			for _, key := range []string{managed.AnnotationPrefix + "external-create-pending", managed.AnnotationPrefix + "external-create-succeeded"} {
				_, err := time.Parse(time.RFC3339Nano, b.Annotations[key])
				require.NoError(e, err, key)
			}
		})
		e.edit(func(b *bucket) { managed.RequestReconcile(b, "now-1") })
		e.called("connect", "observe")
		e.rows(func(b *bucket) {
			require.True(e, managed.ReconcileHandled(b, "now-1"))
			require.Equal(e, reconciler.StatusKindDone, b.Status.Kind)
		})
		e.edit(func(b *bucket) { b.SetAnnotation(managed.AnnotationPaused, "true") })
		e.is("ReconcilePaused", "Available")
		e.edit(func(b *bucket) { managed.RequestReconcile(b, "now-2") })
		e.rows(func(b *bucket) { require.False(e, managed.ReconcileHandled(b, "now-2")) })
		e.edit(func(b *bucket) {
			b.RemoveAnnotation(managed.AnnotationPaused)
			b.SetAnnotation(managed.AnnotationPrefix+"deletion-policy", "Orphan")
		})
		e.remove()
		e.gone(1)
	})
}
