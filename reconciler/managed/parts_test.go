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

// vault is a publisher that adds the details to what it has of the object. It fails as often as it is told to.
type vault struct {
	mu    sync.Mutex
	has   map[string]managed.ConnectionDetails
	fails map[string]int
	// err is the error of every call.
	err error
}

func newVault() *vault {
	return &vault{has: map[string]managed.ConnectionDetails{}, fails: map[string]int{}}
}

// set sets the error of every call.
func (v *vault) set(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.err = err
}

func (v *vault) PublishConnection(_ context.Context, b *bucket, details managed.ConnectionDetails) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fails[b.Name] > 0 {
		v.fails[b.Name]--
		return errDown
	}
	if v.err != nil {
		return v.err
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
	if v.err == nil {
		delete(v.has, b.Name)
	}
	return v.err
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
	var v *vault
	for _, blind := range []bool{false, true} {
		each(t, func(e *env) {
			v.failing(2, e.names...)
			e.cloud.set(func(c *cloud) { c.blind = blind })
			e.learns("create", "secret of ")
			e.want(1)
			pass(20 * time.Second)
			e.rows(func(b *bucket) {
				require.Equal(e, "secret of "+b.Name, v.of(b.Name, "password"))
				text, err := json.Marshal(b)
				require.NoError(e, err)
				require.NotContains(e, string(text), "secret of")
				if !blind {
					require.Equal(e, managed.GetExternalName(b), v.of(b.Name, "address"), "what Observe returns counts more")
				}
			})
			e.cloud.set(func(c *cloud) { c.blind = false })
			pass(time.Minute)
			e.is("ReconcileSuccess", "Available")
			e.rows(func(b *bucket) { require.Equal(e, managed.GetExternalName(b), v.of(b.Name, "address")) })
		}, func(*env) []managed.ReconcilerOption {
			v = newVault()
			return []managed.ReconcilerOption{managed.WithConnectionPublishers[*bucket](v)}
		})
	}
}

func TestWhatUpdateLearnedIsPublishedByALaterPass(t *testing.T) {
	var v *vault
	each(t, func(e *env) {
		e.learns("create", "first of ")
		e.settle(1)
		e.learns("update", "second of ")
		e.want(2)
		e.rows(func(b *bucket) { require.Equal(e, "second of "+b.Name, v.of(b.Name, "password")) })
		e.learns("update", "third of ")
		e.cloud.before("update", func(_ context.Context, b *bucket) error {
			v.failing(1, b.Name)
			return nil
		})
		e.want(3)
		e.is("ReconcileError", "Available")
		pass(time.Minute)
		e.is("ReconcileSuccess", "Available")
		e.rows(func(b *bucket) { require.Equal(e, "third of "+b.Name, v.of(b.Name, "password")) })
	}, func(*env) []managed.ReconcilerOption {
		v = newVault()
		return []managed.ReconcilerOption{managed.WithConnectionPublishers[*bucket](v)}
	})
}

func TestWhatWasLearnedOfAnObjectThatIsGoneIsNotPublished(t *testing.T) {
	for how, away := range map[string]func(e *env){"deleted": (*env).remove, "removed directly": (*env).removeDirectly} {
		t.Run(how, func(t *testing.T) {
			var v *vault
			each(t, func(e *env) {
				v.failing(1000, e.names...)
				e.learns("create", "secret of ")
				e.want(1)
				away(e)
				pass(time.Minute)
				e.gone()
				e.holds(-1)
				v.failing(0, e.names...)
				e.cloud.then("create", nil)
				e.settle(1)
				pass(time.Minute)
				e.rows(func(b *bucket) {
					require.Empty(e, v.of(b.Name, "password"))
					require.NotEmpty(e, v.of(b.Name, "address"))
				})
			}, func(e *env) []managed.ReconcilerOption {
				v = newVault()
				return append(noGrace(e), managed.WithConnectionPublishers[*bucket](v))
			})
		})
	}
}

func TestWhatWasLearnedOfAnotherResourceIsNotPublished(t *testing.T) {
	var v *vault
	each(t, func(e *env) {
		e.others()
		v.failing(1, e.names...)
		e.learns("create", "secret of ")
		e.cloud.before("create", func(_ context.Context, b *bucket) error {
			e.editOne(b.Name, func(b *bucket) { managed.SetExternalName(b, "other-"+b.Name) })
			return nil
		})
		e.want(1)
		pass(time.Minute)
		e.is("ReconcileSuccess", "Available")
		e.rows(func(b *bucket) {
			require.Equal(e, "other-"+b.Name, v.of(b.Name, "address"))
			require.Empty(e, v.of(b.Name, "password"))
		})
	}, func(*env) []managed.ReconcilerOption {
		v = newVault()
		return []managed.ReconcilerOption{managed.WithConnectionPublishers[*bucket](v)}
	})
}
