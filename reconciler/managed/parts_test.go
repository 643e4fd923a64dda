// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
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

		e.cloud.fail("publish", errDown)
		e.forget()
		pass(time.Minute)
		e.told("Warning CannotPublishConnectionDetails")
		e.is("ReconcileError", "Available")
		e.cloud.fail("publish", nil)
		pass(time.Minute)
		e.is("ReconcileSuccess", "Available")

		e.cloud.fail("unpublish", errDown)
		e.remove()
		pass(5 * time.Second)
		e.is("ReconcileError", "Deleting")
		e.holds(-1)
		e.cloud.fail("unpublish", nil)
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

// vault is a publisher that adds the details to what it has of the object.
type vault struct {
	*cloud
	has map[string]managed.ConnectionDetails
}

func (v *vault) PublishConnection(ctx context.Context, b *bucket, details managed.ConnectionDetails) error {
	return v.call(ctx, "publish", b, func() error {
		if v.has[b.Name] == nil {
			v.has[b.Name] = managed.ConnectionDetails{}
		}
		maps.Copy(v.has[b.Name], details)
		return nil
	})
}

func (v *vault) UnpublishConnection(ctx context.Context, b *bucket, _ managed.ConnectionDetails) error {
	return v.call(ctx, "unpublish", b, func() error {
		delete(v.has, b.Name)
		return nil
	})
}

func (v *vault) of(name, key string) (value string) {
	v.set(func() { value = string(v.has[name][key]) })
	return value
}

// failSome makes these of the next calls for each object fail.
func (c *cloud) failSome(op string, from, to int) {
	calls := map[string]int{}
	c.before(op, func(_ context.Context, b *bucket) (err error) {
		c.set(func() {
			if calls[b.Name]++; from <= calls[b.Name] && calls[b.Name] <= to {
				err = errDown
			}
		})
		return err
	})
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
		e.cloud.failSome("publish", 1, 2)
		e.hide(blind)
		e.learns("create", "secret of ")
		e.want(1)
		pass(20 * time.Second)
		e.rows(func(b *bucket) {
			require.Equal(e, "secret of "+b.Name, e.vault.of(b.Name, "password"))
			text, err := json.Marshal(b)
			require.NoError(e, err)
			require.NotContains(e, string(text), "secret of")
			if !blind {
				require.Equal(e, managed.GetExternalName(b), e.vault.of(b.Name, "address"), "what Observe returns counts more")
			}
		})
		e.hide(false)
		pass(time.Minute)
		e.is("ReconcileSuccess", "Available")
		e.rows(func(b *bucket) { require.Equal(e, managed.GetExternalName(b), e.vault.of(b.Name, "address")) })
	}, published)
}

func TestWhatWasObservedOnceIsPublishedByALaterPass(t *testing.T) {
	table(t, map[string]func() error{
		"error": func() error { return errDown },
		"panic": func() error { panic("sealed") },
	}, func(e *env, fault func() error) {
		failed := map[string]bool{}
		e.cloud.before("publish", func(_ context.Context, b *bucket) error {
			was := false
			e.cloud.set(func() { was, failed[b.Name] = failed[b.Name], true })
			if !was {
				return fault()
			}
			return nil
		})
		e.want(1)
		pass(5 * time.Minute)
		e.rows(func(b *bucket) { require.Equal(e, "secret", e.vault.of(b.Name, "password")) })
	}, published, withClient(func(e *env) managed.ExternalClient[*bucket] { return &tellsOnce{e.cloud, map[string][]byte{}} }))
}

// tellsOnce is a client whose first observation of a resource has its password. The next one erases that.
type tellsOnce struct {
	*cloud
	passwords map[string][]byte
}

func (c *tellsOnce) Observe(ctx context.Context, b *bucket) (managed.ExternalObservation, error) {
	seen, err := c.cloud.Observe(ctx, b)
	seen.ConnectionDetails = nil
	c.set(func() {
		if password, told := c.passwords[b.Name]; told {
			clear(password)
		} else if seen.ResourceExists {
			c.passwords[b.Name] = []byte("secret")
			seen.ConnectionDetails = managed.ConnectionDetails{"password": c.passwords[b.Name]}
		}
	})
	return seen, err
}

func TestWhatWasLearnedOfAnObjectThatIsGoneIsNotPublished(t *testing.T) {
	table(t, aways, func(e *env, away func(e *env)) {
		e.cloud.fail("publish", errDown)
		e.learns("create", "secret of ")
		e.want(1)
		away(e)
		pass(time.Minute)
		e.gone(-1)
		e.cloud.fail("publish", nil)
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
		e.cloud.failSome("publish", 1, 1)
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
