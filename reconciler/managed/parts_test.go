// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
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
		e.is("ReconcileError", "")
		pass(time.Second)
		e.told("Warning CannotInitializeManagedResource")
		e.rows(func(b *bucket) { require.Equal(e, "initialize: after "+b.Name, b.Status.GetError()) })
	}, managed.WithInitializers(managed.NewNameAsExternalName[*bucket](),
		managed.Initializer[*bucket](func(_ context.Context, b *bucket) error {
			return errors.New("after " + managed.GetExternalName(b))
		})))
}

func TestObjectWakesAtOnceWhenItsReferenceAppears(t *testing.T) {
	each(t, func(e *env) {
		e.want(1)
		e.called()
		e.told("Warning CannotConnectToProvider")
		e.status(reconciler.StatusKindBlocked)
		e.is("ReconcileWaiting", "")

		e.Insert(named("network"))
		pass(0)
		e.called("observe", "create")
		e.is("ReconcileSuccess", "Creating")
		e.rows(func(b *bucket) { require.Equal(e, "that of network", b.Region) })

		// An object that is being deleted needs no references.
		e.drop("network")
		pass(time.Second)
		e.removed(-1)
	}, noGrace, func(e *env) any {
		return managed.WithExternalConnecter(managed.ExternalConnectorFn[*bucket](
			func(ctx context.Context, b *bucket) (managed.ExternalClient[*bucket], error) {
				if managed.WasDeleted(b) {
					return e.cloud, nil
				}
				network, err := reconciler.Need(managed.Txn(ctx), e.Table, byName.Query("network"), "the network")
				if err == nil {
					b.Region = "that of " + network.Name
				}
				return e.cloud, err
			}))
	})
}

func TestConnectionDetailsArePublishedAndWithdrawn(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.then("create", func(ctx context.Context, _ *bucket) error {
			managed.NoteConnection(ctx, managed.ConnectionDetails{"password": []byte("wrong")})
			managed.NoteConnection(ctx, managed.ConnectionDetails{"password": []byte("secret")})
			return nil
		})
		e.want(1)
		for _, name := range e.names {
			require.Equal(e, "secret", e.vault.of(name, "password"))
		}
		pass(time.Second)
		e.rows(func(b *bucket) { require.Equal(e, managed.GetExternalName(b), e.vault.of(b.Name, "address")) })

		e.vault.failing(1000, e.names...)
		e.forget()
		pass(time.Minute)
		e.told("Warning CannotPublishConnectionDetails")
		e.is("ReconcileError", "Available")
		e.vault.failing(0, e.names...)
		pass(time.Minute)
		e.is("ReconcileSuccess", "Available")

		e.vault.failing(1000, e.names...)
		e.remove()
		pass(5 * time.Second)
		e.is("ReconcileError", "Deleting")
		e.holds(-1)
		e.vault.failing(0, e.names...)
		pass(time.Minute)
		e.gone(-1)
		require.Empty(e, e.vault.has)
	}, noGrace, published)
	// Outside of a pass there is no transaction, and NoteConnection does nothing.
	require.Nil(t, managed.Txn(t.Context()))
	managed.NoteConnection(t.Context(), managed.ConnectionDetails{"password": nil})
}

func TestLateInitializationIsWrittenBeforeTheUpdate(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.set(func() { e.cloud.lateRegion = true })
		e.cloud.before("update", func(_ context.Context, b *bucket) error {
			require.Equal(e, "north", e.get(b.Name).Region)
			return nil
		})
		e.want(2)
		e.called("connect", "observe", "update")
		e.rows(func(b *bucket) { require.Equal(e, "north", b.Region) })
		e.want(2)
		e.called()
	})
}

// A pass detects its own changes and leaves the status alone, however the program sets statuses.
func TestClientMaySetUnavailable(t *testing.T) {
	table(t, map[string]func(b *bucket, s reconciler.Status) *bucket{
		"status set in place":  (*bucket).SetStatus,
		"status set on a copy": func(b *bucket, s reconciler.Status) *bucket { return b.Clone().SetStatus(s) },
	}, func(e *env, set func(b *bucket, s reconciler.Status) *bucket) {
		e.Stop()
		e.start(func(cfg *reconciler.Config[*bucket]) { cfg.SetStatus = set })
		e.settle(1)
		e.cloud.then("observe", func(_ context.Context, b *bucket) error {
			b.SetConditions(managed.Unavailable().WithMessage("starting"))
			return nil
		})
		pass(time.Minute)
		e.is("ReconcileSuccess", "Unavailable")
		at := e.revision()
		pass(time.Hour)
		require.Equal(e, at, e.revision(), "the same condition is not written again")
		e.status(reconciler.StatusKindDone)
		e.cloud.then("observe", nil)
		pass(time.Minute)
		e.is("ReconcileSuccess", "Available")
	})
}

// vault is a publisher that adds the details to what it has of the object. It fails as often as it is told to.
type vault struct {
	mu    sync.Mutex
	has   map[string]managed.ConnectionDetails
	fails map[string]int
}

func (v *vault) PublishConnection(_ context.Context, b *bucket, details managed.ConnectionDetails) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fails[b.Name] > 0 {
		v.fails[b.Name]--
		return errDown
	}
	if v.has[b.Name] == nil {
		v.has[b.Name] = managed.ConnectionDetails{}
	}
	maps.Copy(v.has[b.Name], details)
	return nil
}

func (v *vault) UnpublishConnection(_ context.Context, b *bucket, _ managed.ConnectionDetails) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fails[b.Name] > 0 {
		v.fails[b.Name]--
		return errDown
	}
	delete(v.has, b.Name)
	return nil
}

func (v *vault) of(name, key string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return string(v.has[name][key])
}

// failing makes the next n calls for each object fail.
func (v *vault) failing(n int, names ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range names {
		v.fails[name] = n
	}
}

// learns lets an operation learn a password that Observe does not return.
func (e *env) learns(op, password string) {
	e.cloud.then(op, func(ctx context.Context, b *bucket) error {
		managed.NoteConnection(ctx, managed.ConnectionDetails{"password": []byte(password + b.Name), "address": nil})
		return nil
	})
}

func TestWhatCreateLearnedIsPublishedByALaterPass(t *testing.T) {
	table(t, map[string]bool{"seen": false, "not seen": true}, func(e *env, blind bool) {
		e.vault.failing(2, e.names...)
		e.hide(blind)
		e.learns("create", "secret of ")
		e.want(1)
		pass(20 * time.Second)
		e.rows(func(b *bucket) {
			require.Equal(e, "secret of "+b.Name, e.vault.of(b.Name, "password"))
			text, err := json.Marshal(b)
			require.NoError(e, err)
			require.NotContains(e, string(text), "secret of")
		})
		e.hide(false)
		pass(time.Minute)
		e.is("ReconcileSuccess", "Available")
		e.rows(func(b *bucket) {
			require.Equal(e, managed.GetExternalName(b), e.vault.of(b.Name, "address"), "what Observe returns counts more")
		})
	}, published)
}

func TestWhatUpdateLearnedIsPublishedByALaterPass(t *testing.T) {
	each(t, func(e *env) {
		e.learns("create", "first of ")
		e.settle(1)
		e.learns("update", "second of ")
		e.want(2)
		e.rows(func(b *bucket) { require.Equal(e, "second of "+b.Name, e.vault.of(b.Name, "password")) })
		e.learns("update", "third of ")
		e.cloud.before("update", func(_ context.Context, b *bucket) error {
			e.vault.failing(1, b.Name)
			return nil
		})
		e.want(3)
		e.is("ReconcileError", "Available")
		pass(time.Minute)
		e.is("ReconcileSuccess", "Available")
		e.rows(func(b *bucket) { require.Equal(e, "third of "+b.Name, e.vault.of(b.Name, "password")) })
	}, published)
}

func TestWhatWasLearnedOfAnObjectThatIsGoneIsNotPublished(t *testing.T) {
	table(t, aways, func(e *env, away func(e *env)) {
		e.vault.failing(1000, e.names...)
		e.learns("create", "secret of ")
		e.want(1)
		e.vault.failing(1, e.names...) // the next pass of each object deletes the resource
		away(e)
		pass(time.Minute)
		e.gone(-1)
		e.cloud.then("create", nil)
		e.settle(1)
		pass(time.Minute)
		e.rows(func(b *bucket) {
			require.Empty(e, e.vault.of(b.Name, "password"))
			require.NotEmpty(e, e.vault.of(b.Name, "address"))
		})
	}, noGrace, published)
}

func TestWhatWasLearnedOfAnotherResourceIsNotPublished(t *testing.T) {
	each(t, func(e *env) {
		e.others()
		e.vault.failing(1, e.names...)
		e.learns("create", "secret of ")
		e.cloud.before("create", func(_ context.Context, b *bucket) error {
			e.editOne(b.Name, otherNamed)
			return nil
		})
		e.want(1)
		pass(time.Minute)
		e.is("ReconcileSuccess", "Available")
		e.rows(func(b *bucket) {
			require.Equal(e, "other-"+b.Name, e.vault.of(b.Name, "address"))
			require.Empty(e, e.vault.of(b.Name, "password"))
		})
	}, published)
}
