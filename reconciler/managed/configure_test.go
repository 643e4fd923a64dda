// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
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
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 1)
		e.start(
			managed.WithExternalConnecter[*bucket](nil), managed.WithFinalizer[*bucket](nil),
			managed.WithCriticalAnnotationUpdater[*bucket](nil),
			managed.WithPollIntervalHook[*bucket](nil), managed.WithLogger(nil),
		)
		e.want(1)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.remove()
		e.gone()
	})
}

func TestErrorNamesEveryWrongSetting(t *testing.T) {
	e := newEnv(t, 1)
	ops, err := managed.NewReconciler(e.config())
	require.NoError(t, err)
	cfg := e.config()
	cfg.Operations = ops
	_, err = newLoop(cfg,
		managed.WithTimeout(-1), managed.WithCreationGracePeriod(-2), managed.WithPollInterval(-3),
		managed.WithManagementPolicies("Fly"),
		managed.WithExternalConnecter(&managed.NopConnecter[*wide]{}),
		managed.WithExternalConnectDisconnecter(managed.NewNopDisconnecter(&managed.NopConnecter[*wide]{})),
		managed.WithFinalizer(finalizerFns[*wide]{}),
		managed.WithCriticalAnnotationUpdater(managed.CriticalAnnotationUpdateFn[*wide](nil)),
		managed.WithPollIntervalHook(func(*wide, time.Duration) time.Duration { return 0 }),
		managed.WithInitializers(managed.Initializer[*bucket](nil)),
		managed.WithConnectionPublishers(managed.ConnectionPublisher[*wide](publisherFns[*wide]{})),
	)
	for _, text := range []string{
		"Config.Operations is *managed.Reconciler[",
		"WithTimeout: -1ns must not be negative",
		"WithCreationGracePeriod: -2ns must not be negative",
		"WithPollInterval: -3ns must not be negative",
		`WithManagementPolicies: management action "Fly"`,
		"WithExternalConnecter: it is for rows of type *managed_test.wide",
		"WithExternalConnectDisconnecter: it is for rows of type *managed_test.wide",
		"WithFinalizer: it is for rows of type *managed_test.wide",
		"WithCriticalAnnotationUpdater: it is for rows of type *managed_test.wide",
		"WithPollIntervalHook: it is for rows of type *managed_test.wide",
		"WithInitializers: initializer 0 is nil",
		"WithConnectionPublishers: it is for rows of type *managed_test.wide",
	} {
		require.ErrorContains(t, err, text)
	}

	_, err = newLoop(e.config(), managed.WithPollJitterHook(-1))
	require.ErrorContains(t, err, "WithPollJitterHook: -1ns must not be negative")

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
	}, func(*env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{managed.WithLogger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))}
	})
}

func TestConfigurationRunsInAHive(t *testing.T) {
	e := newEnv(t, 1)
	for _, connecter := range []managed.ExternalConnecter[*bucket]{e.cloud, nil} {
		var (
			db    *statedb.DB
			table statedb.RWTable[*bucket]
			loop  *reconciler.Loop[*bucket]
		)
		h := hive.New(statedb.Cell, job.Cell, cell.SimpleHealthCell,
			cell.Module("test", "test",
				cell.ProvidePrivate(job.Registry.NewGroup),
				cell.Provide(func(db *statedb.DB) (statedb.RWTable[*bucket], error) {
					return statedb.NewTable(db, "buckets", byName)
				}),
				cell.Invoke(func(d *statedb.DB, tbl statedb.RWTable[*bucket], params reconciler.Params) (err error) {
					db, table = d, tbl
					cfg, err := managed.Configure(reconciler.Config[*bucket]{
						DB: d, Table: tbl, Log: params.Log,
						Clone: (*bucket).Clone, SetStatus: (*bucket).SetStatus, GetStatus: (*bucket).GetStatus,
						Options: []reconciler.Option{reconciler.WithName(managed.ControllerName("bucket"))},
					}, managed.WithExternalConnecter(connecter))
					if err == nil {
						loop, err = reconciler.RegisterConfig(params, cfg)
					}
					return err
				})))
		log := hivetest.Logger(t)
		require.NoError(t, h.Start(log, t.Context()))
		wtxn := db.WriteTxn(table)
		row := named("a").SetStatus(reconciler.StatusPending())
		_, _, err := table.Insert(wtxn, row)
		require.NoError(t, err)
		at := table.Revision(wtxn)
		wtxn.Commit()
		_, _, err = loop.WaitUntilReconciled(t.Context(), at)
		require.NoError(t, err)
		b, _, _ := table.Get(db.ReadTxn(), byName.Query("a"))
		require.True(t, managed.IsSynced(b))
		require.NoError(t, h.Stop(log, context.Background()))
	}
	require.NotEmpty(t, e.cloud.holds("a"))
}

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
	var _ managed.ExternalConnectDisconnecter[*bucket] = with
	same, ok := with.(*managed.NopDisconnecter[*bucket])
	require.True(t, ok)
	got, err = same.Connect(t.Context(), named("a"))
	require.NoError(t, err)
	require.Same(t, &client, got)
	require.NoError(t, same.Disconnect(t.Context()))
	require.Equal(t, 3, asked)

	disconnect := managed.ExternalDisconnectorFn(func(context.Context) error { return errNo })
	var _ managed.ExternalDisconnecter = disconnect
	require.ErrorIs(t, disconnect.Disconnect(t.Context()), errNo)
}

func TestFunctionsAreAClient(t *testing.T) {
	var called []string
	did := func(call string) func(context.Context, *bucket) error {
		return func(context.Context, *bucket) error { called = append(called, call); return errNo }
	}
	var client managed.ExternalClient[*bucket] = managed.ExternalClientFns[*bucket]{
		CreateFn: did("create"), UpdateFn: did("update"), DeleteFn: did("delete"),
	}
	for _, call := range []func(context.Context, *bucket) error{client.Create, client.Update, client.Delete} {
		require.ErrorIs(t, call(t.Context(), named("a")), errNo)
	}
	require.Equal(t, []string{"create", "update", "delete"}, called)
}

// The updater of the critical annotations is called after a create, with the external name set.
func TestCriticalAnnotationsGoThroughTheUpdater(t *testing.T) {
	updater := func(u managed.CriticalAnnotationUpdater[*bucket]) managed.CriticalAnnotationUpdater[*bucket] {
		return managed.CriticalAnnotationUpdateFn[*bucket](func(ctx context.Context, b *bucket) error {
			if managed.GetExternalName(b) == "" {
				return errNo
			}
			return u.UpdateCriticalAnnotations(ctx, b)
		})
	}
	each(t, func(e *env) {
		e.settle(1)
		e.rows(func(b *bucket) { require.NotEmpty(e, b.Annotations[managed.AnnotationExternalName]) })

		var retrying *managed.RetryingCriticalAnnotationUpdater[*bucket] = managed.NewRetryingCriticalAnnotationUpdater(e.DB, e.Table, (*bucket).Clone)
		b := e.get(e.names[0]).Clone()
		managed.SetExternalName(b, "other")
		require.NoError(e, managed.CriticalAnnotationUpdateFn[*bucket](retrying.UpdateCriticalAnnotations).UpdateCriticalAnnotations(e.Context(), b))
		require.Equal(e, "other", managed.GetExternalName(e.get(e.names[0])))
		require.ErrorIs(e, retrying.UpdateCriticalAnnotations(e.Context(), named("none")), managed.ErrRowGone)
	}, func(e *env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{managed.WithCriticalAnnotationUpdater(
			updater(managed.NewRetryingCriticalAnnotationUpdater(e.DB, e.Table, (*bucket).Clone)))}
	})
}

// Programs store options as values, and write hooks as functions.
func TestOptionsAreValuesThatCanBeStored(t *testing.T) {
	var hook managed.PollIntervalHook[*bucket] = func(b *bucket, pollInterval time.Duration) time.Duration {
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
	}, func(*env) []managed.ReconcilerOption { return options })
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
