// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

func TestFailingInitializerSetsConditionRecordsEventAndBacksOff(t *testing.T) {
	each(t, func(e *env) {
		e.want(1)
		e.called()
		e.told("Warning CannotInitializeManagedResource")
		e.is(managed.ConditionReason("ReconcileError"), "")
		pass(time.Second)
		e.told("Warning CannotInitializeManagedResource")
	}, func(*env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{managed.WithInitializers(managed.NewNameAsExternalName[*bucket](),
			managed.Initializer[*bucket]((func(_ context.Context, b *bucket) error {
				if managed.GetExternalName(b) != b.Name {
					return errors.New("out of order")
				}
				return errors.New("no")
			})))}
	})
}

func TestObjectWakesAtOnceWhenItsReferenceAppears(t *testing.T) {
	each(t, func(e *env) {
		e.want(1)
		e.called()
		e.told("Warning CannotConnectToProvider")
		e.status(reconciler.StatusKindBlocked)
		e.is(managed.ConditionReason("ReconcileWaiting"), "")

		wtxn := e.DB.WriteTxn(e.Table)
		_, _, err := e.Table.Insert(wtxn, named("network"))
		require.NoError(e, err)
		wtxn.Commit()
		pass(0)
		e.called("observe", "create")
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Creating"))
		e.rows(func(b *bucket) { require.Equal(e, "that of network", b.Region) })

		// An object that is being deleted needs no references.
		wtxn = e.DB.WriteTxn(e.Table)
		_, _, err = e.Table.Delete(wtxn, named("network"))
		require.NoError(e, err)
		wtxn.Commit()
		pass(time.Second)
		e.remove()
		pass(time.Minute)
		e.gone()
		e.holds(-1)
	}, func(e *env) []managed.ReconcilerOption {
		return append(noGrace(e), managed.WithExternalConnecter(managed.ExternalConnectorFn[*bucket](
			func(ctx context.Context, b *bucket) (managed.ExternalClient[*bucket], error) {
				if managed.WasDeleted(b) {
					return e.cloud, nil
				}
				network, err := reconciler.Need(managed.Txn(ctx), e.Table, byName.Query("network"), "the network")
				if err == nil {
					b.Region = "that of " + network.Name
				}
				return e.cloud, err
			})))
	})
}

func TestConnectionDetailsArePublishedAndWithdrawn(t *testing.T) {
	var p *vault
	each(t, func(e *env) {
		e.cloud.then("create", func(ctx context.Context, _ *bucket) error {
			managed.NoteConnection(ctx, managed.ConnectionDetails{"password": []byte("wrong")})
			managed.NoteConnection(ctx, managed.ConnectionDetails{"password": []byte("secret")})
			return nil
		})
		e.want(1)
		for _, name := range e.names {
			require.Equal(e, "secret", p.of(name, "password"))
		}
		pass(time.Second)
		e.rows(func(b *bucket) { require.Equal(e, managed.GetExternalName(b), p.of(b.Name, "address")) })

		p.set(errors.New("no vault"))
		e.forget()
		pass(time.Minute)
		e.told("Warning CannotPublishConnectionDetails")
		e.is(managed.ConditionReason("ReconcileError"), managed.ConditionReason("Available"))
		p.set(nil)
		pass(time.Minute)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))

		e.remove()
		p.set(errors.New("no vault"))
		pass(5 * time.Second)
		e.is(managed.ConditionReason("ReconcileError"), managed.ConditionReason("Deleting"))
		e.holds(-1)
		p.set(nil)
		pass(time.Minute)
		e.gone()
		require.Empty(e, p.has)
	}, func(e *env) []managed.ReconcilerOption {
		p = newVault()
		return append(noGrace(e), managed.WithConnectionPublishers[*bucket](p))
	})
	// Outside of a pass there is no transaction, and NoteConnection does nothing.
	require.Nil(t, managed.Txn(t.Context()))
	managed.NoteConnection(t.Context(), managed.ConnectionDetails{"password": nil})
}

func TestLateInitializationIsWrittenBeforeTheUpdate(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.set(func(c *cloud) { c.lateRegion = true })
		e.cloud.before("update", func(_ context.Context, b *bucket) error {
			require.Equal(e, "north", e.get(b.Name).Region)
			return nil
		})
		e.want(2)
		e.called("connect", "observe", "update")
		e.rows(func(b *bucket) { require.Equal(e, "north", b.Region) })
		e.want(2)
		e.called()
	}, nil)
}

func TestClientMaySetUnavailable(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.then("observe", func(_ context.Context, b *bucket) error {
			b.SetConditions(managed.Unavailable().WithMessage("starting"))
			return nil
		})
		pass(time.Minute)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Unavailable"))
		at := e.revision()
		pass(time.Hour)
		require.Equal(e, at, e.revision(), "the same condition is not written again")
		e.cloud.then("observe", nil)
		pass(time.Minute)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
	}, nil)
}

func TestTwoReconcilersKeepEachOthersStatus(t *testing.T) {
	each(t, func(e *env) {
		meddle := func(_ context.Context, b *bucket) error {
			wtxn := e.DB.WriteTxn(e.Table)
			defer wtxn.Commit()
			row := e.get(b.Name).Clone()
			row.Other = reconciler.StatusDone()
			_, _, err := e.Table.Insert(wtxn, row)
			return err
		}
		for _, op := range []string{"connect", "observe", "create"} {
			e.cloud.then(op, meddle)
			e.cloud.before(op, meddle)
		}
		e.want(1)
		pass(time.Second)
		e.holds(1)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.rows(func(b *bucket) {
			require.Equal(e, reconciler.StatusKindDone, b.Status.Kind)
			require.Equal(e, reconciler.StatusKindDone, b.Other.Kind)
			require.True(e, slices.Contains(b.Finalizers, managed.FinalizerName))
			require.NotEmpty(e, managed.GetExternalName(b))
		})
	}, nil)
}
