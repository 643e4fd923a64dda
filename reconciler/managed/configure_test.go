// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/hivetest"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// nil options have the same effect as options that are not given.
func TestDefaultOutsideSystemDoesNothing(t *testing.T) {
	each(t, func(e *env) {
		e.want(1)
		e.is("ReconcileSuccess", "Available")
		e.remove()
		e.gone()
	}, managed.WithExternalConnecter[*bucket](nil), managed.WithFinalizer[*bucket](nil),
		managed.WithCriticalAnnotationUpdater[*bucket](nil),
		managed.WithPollIntervalHook[*bucket](nil), managed.WithLogger(nil))
}

// other is a row of another type.
type other struct{ managed.Meta }

func TestErrorNamesEveryWrongSetting(t *testing.T) {
	e := newEnv(t, 1)
	ops, err := managed.NewReconciler(e.config())
	require.NoError(t, err)
	_, err = e.configure(
		func(cfg *reconciler.Config[*bucket]) { cfg.Operations = ops },
		managed.WithTimeout(-1), managed.WithCreationGracePeriod(-2), managed.WithPollInterval(-3),
		managed.WithManagementPolicies("Fly"),
		managed.WithExternalConnecter(&managed.NopConnecter[*other]{}),
		managed.WithExternalConnectDisconnecter(managed.NewNopDisconnecter(&managed.NopConnecter[*other]{})),
		managed.WithFinalizer(managed.NewFinalizer[*other]("x")),
		managed.WithCriticalAnnotationUpdater(managed.CriticalAnnotationUpdateFn[*other](nil)),
		managed.WithPollIntervalHook(func(*other, time.Duration) time.Duration { return 0 }),
		managed.WithInitializers(managed.Initializer[*bucket](nil)),
		managed.WithConnectionPublishers[*other](),
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

func TestStepsAreLoggedAtLevelDebug(t *testing.T) {
	log := &testlog.Buffer{}
	each(t, func(e *env) {
		e.settle(1)
		e.want(2)
		require.Contains(e, log.String(), `msg="the external resource differs" table=buckets object=b00 diff="size 1, want 2"`)
		require.Contains(e, log.String(), "reason=CreatedExternalResource")
	}, managed.WithLogger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
}

func TestConfigurationRunsInAHive(t *testing.T) {
	client := newCloud(&outside{buckets: map[string]stored{}})
	h := hive.New(statedb.Cell, job.Cell, cell.SimpleHealthCell,
		cell.Module("test", "test",
			cell.ProvidePrivate(job.Registry.NewGroup),
			cell.Provide(newBuckets),
			cell.Invoke(func(db *statedb.DB, table statedb.RWTable[*bucket], params reconciler.Params, lc cell.Lifecycle) error {
				cfg, err := managed.Configure(reconciler.Config[*bucket]{
					DB: db, Table: table, Log: params.Log,
					Clone: (*bucket).Clone, SetStatus: (*bucket).SetStatus, GetStatus: (*bucket).GetStatus,
					Options: []reconciler.Option{reconciler.WithName(managed.ControllerName("bucket"))},
				}, managed.WithExternalConnecter(client))
				if err != nil {
					return err
				}
				loop, err := reconciler.RegisterConfig(params, cfg)
				lc.Append(cell.Hook{OnStart: func(ctx cell.HookContext) error {
					wtxn := db.WriteTxn(table)
					_, _, err := table.Insert(wtxn, named("a").SetStatus(reconciler.StatusPending()))
					_, _, waitErr := loop.WaitUntilReconciled(ctx, table.Revision(wtxn.Commit()))
					return errors.Join(err, waitErr)
				}})
				return err
			})))
	log := hivetest.Logger(t)
	require.NoError(t, h.Start(log, t.Context()))
	require.NoError(t, h.Stop(log, context.Background()))
	require.NotEmpty(t, client.holds("a"))
	require.Equal(t, "managed/bucket", managed.ControllerName("Bucket"))
}

// These tests use the names that programs bring along in the way those programs do.
// docs/COMPATIBILITY.md has a row for each name.

// TestFunctionsAreConnectersAndClients calls each function, and those that are nil, which do nothing.
func TestFunctionsAreConnectersAndClients(t *testing.T) {
	ctx, b := t.Context(), named("a")
	var called []string
	did := func(call string) func(context.Context, *bucket) error {
		return func(context.Context, *bucket) error { called = append(called, call); return errRefused }
	}
	var client managed.ExternalClient[*bucket] = managed.ExternalClientFns[*bucket]{
		CreateFn: did("create"), UpdateFn: did("update"), DeleteFn: did("delete"),
	}
	for _, call := range []func(context.Context, *bucket) error{client.Create, client.Update, client.Delete} {
		require.ErrorIs(t, call(ctx, b), errRefused)
	}
	require.Equal(t, []string{"create", "update", "delete"}, called)

	var connecter managed.ExternalConnecter[*bucket] = managed.ExternalConnectorFn[*bucket](
		func(context.Context, *bucket) (managed.ExternalClient[*bucket], error) { return client, errDown })
	var with managed.ExternalConnectDisconnecter[*bucket] = managed.NewNopDisconnecter(connecter)
	require.IsType(t, &managed.NopDisconnecter[*bucket]{}, with)
	_, err := with.Connect(ctx, b)
	require.ErrorIs(t, err, errDown)
	require.NoError(t, with.Disconnect(ctx))
	var disconnect managed.ExternalDisconnecter = managed.ExternalDisconnectorFn(func(context.Context) error { return errDown })
	require.ErrorIs(t, disconnect.Disconnect(ctx), errDown)

	none := managed.ExternalConnectDisconnecterFns[*bucket]{}
	require.NoError(t, none.Disconnect(ctx))
	nothing, err := none.Connect(ctx, b)
	require.NoError(t, err)
	require.IsType(t, &managed.NopClient[*bucket]{}, nothing)
	for _, nop := range []managed.ExternalClient[*bucket]{nothing, managed.ExternalClientFns[*bucket]{}} {
		seen, err := nop.Observe(ctx, b)
		require.NoError(t, err)
		require.Equal(t, managed.ExternalObservation{ResourceExists: true, ResourceUpToDate: true}, seen)
		require.NoError(t, errors.Join(nop.Create(ctx, b), nop.Update(ctx, b), nop.Delete(ctx, b)))
		deleted := named("a")
		deleted.DeletionTime = time.Now()
		seen, err = nop.Observe(ctx, deleted)
		require.NoError(t, err)
		require.False(t, seen.ResourceExists)
	}
}

// The updater of the critical annotations is called after a create, with the external name set.
func TestCriticalAnnotationsGoThroughTheUpdater(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.rows(func(b *bucket) { require.NotEmpty(e, b.Annotations[managed.AnnotationExternalName]) })
	}, func(e *env) any {
		var retrying *managed.RetryingCriticalAnnotationUpdater[*bucket] = managed.NewRetryingCriticalAnnotationUpdater(e.DB, e.Table, (*bucket).Clone)
		return critical(func(ctx context.Context, b *bucket) error {
			if managed.GetExternalName(b) == "" {
				return errRefused
			}
			return managed.CriticalAnnotationUpdateFn[*bucket](retrying.UpdateCriticalAnnotations).UpdateCriticalAnnotations(ctx, b)
		})
	})
}

// Programs store options as values, and write hooks as functions.
func TestOptionsAreValuesThatCanBeStored(t *testing.T) {
	var hook managed.PollIntervalHook[*bucket] = func(_ *bucket, pollInterval time.Duration) time.Duration {
		return pollInterval / 2
	}
	options := []managed.ReconcilerOption{
		managed.WithPollInterval(time.Hour),
		managed.WithPollIntervalHook(hook),
		managed.WithFinalizer[*bucket](managed.Finalizer[*bucket](managed.NewFinalizer[*bucket]("mine"))),
	}
	each(t, func(e *env) {
		e.settle(1)
		e.rows(func(b *bucket) { require.Equal(e, []string{"mine"}, b.Finalizers) })
		pass(29 * time.Minute)
		e.called()
		pass(2 * time.Minute)
		e.called("connect", "observe")
	}, options[0], options[1], options[2])
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
		e.is("ReconcilePaused", "Available")
		e.edit(func(b *bucket) {
			b.RemoveAnnotation(managed.AnnotationPaused)
			b.SetAnnotation(managed.AnnotationPrefix+"deletion-policy", "Orphan")
		})
		e.remove()
		e.gone()
		e.holds(1)
	})
}
