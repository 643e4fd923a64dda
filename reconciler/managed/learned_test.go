// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// vault is a publisher that adds the details to what it has of the object. It fails as often as it is told to.
type vault struct {
	mu    sync.Mutex
	has   map[string]managed.ConnectionDetails
	fails map[string]int
	// broken reports whether the next call fails, too.
	broken func() bool
	// wants holds the passwords that it must have in the end, each with a number of its own.
	wants   map[string]string
	created int
}

func newVault() *vault {
	return &vault{
		has: map[string]managed.ConnectionDetails{}, fails: map[string]int{}, wants: map[string]string{},
		broken: func() bool { return false },
	}
}

// fault sets when calls fail.
func (v *vault) fault(broken func() bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.broken = broken
}

// isBroken reports whether the next call fails.
func (v *vault) isBroken() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.broken()
}

// expect returns a new password of an object, which it must have in the end.
func (v *vault) expect(name string) (password string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.created++
	v.wants[name] = fmt.Sprintf("secret %d", v.created)
	return v.wants[name]
}

// expected returns the password that it must have of an object; false if it need not have one.
func (v *vault) expected(name string) (password string, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	password, ok = v.wants[name]
	return password, ok
}

// restart forgets what the process has learned and not published.
func (v *vault) restart() {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.wants, func(name, password string) bool { return string(v.has[name]["password"]) != password })
}

func (v *vault) PublishConnection(_ context.Context, b *bucket, details managed.ConnectionDetails) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fails[b.Name] > 0 {
		v.fails[b.Name]--
		return errDown
	}
	if v.broken() {
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
	if v.broken() {
		return errDown
	}
	delete(v.has, b.Name)
	delete(v.wants, b.Name)
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
		managed.NoteConnection(ctx, managed.ConnectionDetails{"password": []byte(password + b.Name)})
		return nil
	})
}

func TestWhatCreateLearnedIsPublishedByALaterPass(t *testing.T) {
	var v *vault
	var critical sync.Map
	for why, fails := range map[string]func(e *env){
		"publisher fails once":  func(e *env) { v.failing(1, e.names...) },
		"publisher fails often": func(e *env) { v.failing(4, e.names...) },
		"critical updater fails once": func(e *env) {
			for _, name := range e.names {
				critical.Store(name, true)
			}
		},
		"publisher fails once, resource not visible yet": func(e *env) {
			v.failing(1, e.names...)
			e.cloud.set(func(c *cloud) { c.blind = true })
		},
	} {
		t.Run(why, func(t *testing.T) {
			each(t, func(e *env) {
				fails(e)
				e.learns("create", "secret of ")
				e.want(1)
				pass(20 * time.Second)
				e.rows(func(b *bucket) {
					require.Equal(e, "secret of "+b.Name, v.of(b.Name, "password"))
					text, err := json.Marshal(b)
					require.NoError(e, err)
					require.NotContains(e, string(text), "secret of")
				})
				e.cloud.set(func(c *cloud) { c.blind = false })
				pass(time.Minute)
				e.is("ReconcileSuccess", "Available")
				e.rows(func(b *bucket) { require.Equal(e, managed.GetExternalName(b), v.of(b.Name, "address")) })
			}, func(e *env) []managed.ReconcilerOption {
				v = newVault()
				updater := func(ctx context.Context, b *bucket) error {
					if _, is := critical.LoadAndDelete(b.Name); is {
						return errDown
					}
					usual := managed.NewRetryingCriticalAnnotationUpdater(e.DB, e.Table, (*bucket).Clone)
					return usual.UpdateCriticalAnnotations(ctx, b)
				}
				return []managed.ReconcilerOption{
					managed.WithConnectionPublishers[*bucket](v),
					managed.WithCriticalAnnotationUpdater[*bucket](managed.CriticalAnnotationUpdateFn[*bucket](updater)),
				}
			})
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
			wtxn := e.DB.WriteTxn(e.Table)
			defer wtxn.Commit()
			_, err := e.writer().Edit(wtxn, b, func(b *bucket) { managed.SetExternalName(b, "other-"+b.Name) })
			return err
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
