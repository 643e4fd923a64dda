// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// walk is a program that changes its desired state at random while the cloud fails now and then. Its
// loops are stopped and started again.
type walk struct {
	*env
	rnd  *rand.Rand
	opts []managed.ReconcilerOption
	// known: external names are known before the create.
	known bool
	// backups holds the latest message that another program has set in a condition of its own, for each
	// row.
	backups map[string]string
	// vault is the publisher. shared: another reconciler writes its own status during each call. breaks:
	// each Disconnect panics.
	vault          *vault
	shared, breaks bool
}

// others is the annotation with the ID of the status that another reconciler has written.
const others = "example.com/other"

// share writes a row as another reconciler does, if there is one.
func (w *walk) share(name string) {
	wtxn := w.DB.WriteTxn(w.Table)
	defer wtxn.Commit()
	if row, _, found := w.Table.Get(wtxn, byName.Query(name)); found {
		next := row.Clone()
		next.Other = reconciler.StatusDone()
		next.SetAnnotation(others, fmt.Sprint(next.Other.ID))
		_, _, err := w.Table.Insert(wtxn, next)
		require.NoError(w, err)
	}
}

// learn notes a new password of a bucket.
func (w *walk) learn(ctx context.Context, b *bucket) {
	managed.NoteConnection(ctx, managed.ConnectionDetails{"password": []byte(w.vault.expect(b.Name))})
}

// Connect is that of the cloud.
func (w *walk) Connect(ctx context.Context, b *bucket) (managed.ExternalClient[*bucket], error) {
	return w.cloud.Connect(ctx, b)
}

// Disconnect panics in some walks.
func (w *walk) Disconnect(context.Context) error {
	if w.breaks {
		panic("double close")
	}
	return nil
}

// faults makes calls fail at random, before or after they take effect.
func (w *walk) faults() {
	for _, op := range []string{"connect", "observe", "create", "update", "delete"} {
		before := rand.New(rand.NewPCG(w.rnd.Uint64(), 0))
		w.cloud.before(op, func(ctx context.Context, b *bucket) error {
			w.during(b)
			if (op == "update" || op == "delete") && apart(b) && b.Region != "seen" {
				w.Errorf("%s of %q did not receive the observed object: %+v", op, b.Name, b)
			}
			switch w.roll(before, 14) {
			case 0:
				return errors.New("503")
			case 12, 13:
				w.edited(b)
			case 1:
				return reconciler.RetryAfter(errors.New("429"), 3*time.Second)
			case 2:
				return w.slow(ctx)
			}
			return nil
		})
		after := rand.New(rand.NewPCG(w.rnd.Uint64(), 1))
		w.cloud.then(op, func(ctx context.Context, b *bucket) error {
			if op == "observe" && apart(b) {
				b.Region = "seen"
			}
			if w.roll(after, 8) == 0 {
				return fmt.Errorf("connection reset: %w", managed.ErrCreateUnsure)
			}
			if op == "create" || op == "update" {
				w.learn(ctx, b)
			}
			return nil
		})
	}
	publish := rand.New(rand.NewPCG(w.rnd.Uint64(), 2))
	w.vault.fault(func() bool { return w.roll(publish, 6) == 0 })
}

// UpdateCriticalAnnotations fails when the publisher does.
func (w *walk) UpdateCriticalAnnotations(ctx context.Context, b *bucket) error {
	if w.vault.isBroken() {
		return errDown
	}
	return managed.NewRetryingCriticalAnnotationUpdater(w.DB, w.Table, (*bucket).Clone).UpdateCriticalAnnotations(ctx, b)
}

// during does what other writers do during each call, also when there are no faults.
func (w *walk) during(b *bucket) {
	if w.shared {
		w.share(b.Name)
	}
}

// edited lets a person edit a row while a call for it is made.
func (w *walk) edited(b *bucket) {
	wtxn := w.DB.WriteTxn(w.Table)
	defer wtxn.Commit()
	_, err := w.writer().Edit(wtxn, b, func(b *bucket) { b.SetAnnotation("example.com/edit", time.Now().String()) })
	require.NoError(w, err)
}

// apart reports whether observed values are not written into the row.
func apart(b *bucket) bool {
	_, own := b.GetAnnotations()[managed.AnnotationPrefix+"management-policies"]
	return own
}

// roll returns a random number. Several goroutines may call it.
func (w *walk) roll(rnd *rand.Rand, n int) int {
	w.cloud.mu.Lock()
	defer w.cloud.mu.Unlock()
	return rnd.IntN(n)
}

// slow takes a while, or until the context ends.
func (w *walk) slow(ctx context.Context) error {
	select {
	case <-time.After(700 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// calm ends all faults.
func (w *walk) calm() {
	w.cloud.set(func(c *cloud) {
		clear(c.faults)
		clear(c.effects)
	})
	w.cloud.before("observe", func(_ context.Context, b *bucket) error {
		w.during(b)
		return nil
	})
	for _, op := range []string{"create", "update"} {
		w.cloud.then(op, func(ctx context.Context, b *bucket) error {
			w.learn(ctx, b)
			return nil
		})
	}
	w.vault.fault(func() bool { return false })
}

// one makes one random change.
func (w *walk) one() {
	name := w.names[w.rnd.IntN(len(w.names))]
	b := named(name)
	b.Size = 1 + w.rnd.IntN(3)
	late := w.rnd.IntN(2) == 0
	set := func(row *bucket) {
		row.Size = b.Size
		row.RemoveAnnotation(managed.AnnotationPrefix + "management-policies")
		if !late {
			withoutLate(row)
		}
	}
	set(b)
	wtxn := w.DB.WriteTxn(w.Table)
	defer wtxn.Abort()
	var err error
	switch action := w.rnd.IntN(25); {
	case action < 10:
		_, err = w.writer().Apply(wtxn, b, set)
	case action < 14:
		_, err = w.writer().Delete(wtxn, b)
	case action < 15:
		_, err = w.writer().Edit(wtxn, b, func(b *bucket) { managed.SetPaused(b, true) })
	case action < 17:
		_, err = w.writer().Edit(wtxn, b, func(b *bucket) { managed.SetPaused(b, false) })
	case action < 18:
		// This program does not know the notes.
		delete(w.backups, name)
		_, _, err = w.Table.Insert(wtxn, b.SetStatus(reconciler.StatusPending()))
	case action < 19:
		delete(w.backups, name)
		_, _, err = w.Table.Delete(wtxn, b)
	case action < 20:
		// This one knows only the name, and removes the row at once.
		if row := w.get(name); row != nil && managed.GetExternalName(row) != "" {
			delete(w.backups, name)
			managed.SetExternalName(b, managed.GetExternalName(row))
			_, _, err = w.Table.Insert(wtxn, b.SetStatus(reconciler.StatusPending()))
			require.NoError(w, err)
			_, _, err = w.Table.Delete(wtxn, b)
		}
	case action < 22:
		err = w.backUp(wtxn, name)
	case action < 24:
		// Another resource would be created beside this one if its name were not known.
		if w.known {
			_, err = w.writer().Edit(wtxn, b, ways["observe"])
			require.NoError(w, err)
			_, err = w.writer().Delete(wtxn, b)
		}
	default:
		wtxn.Abort()
		w.drift()
		return
	}
	requireApplied(w, err)
	wtxn.Commit()
}

// requireApplied requires that an object was written, unless it is being deleted.
func requireApplied(w *walk, err error) {
	if !errors.Is(err, managed.ErrTerminating) {
		require.NoError(w, err)
	}
}

// backUp sets a condition of another program on a row.
func (w *walk) backUp(wtxn statedb.WriteTxn, name string) error {
	row, _, found := w.Table.Get(wtxn, byName.Query(name))
	if !found {
		return nil
	}
	w.backups[name] = time.Now().String()
	next := row.Clone()
	next.SetConditions(managed.Condition{Type: "Backup", Status: managed.ConditionTrue, Message: w.backups[name]})
	_, _, err := w.Table.Insert(wtxn, next)
	return err
}

// drift changes the buckets of the cloud.
func (w *walk) drift() {
	w.cloud.set(func(c *cloud) {
		for _, s := range c.buckets {
			s.size = 1 + w.rnd.IntN(3)
		}
	})
}

// decide acts as the person who decides unsure creates after looking at the cloud.
func (w *walk) decide() {
	for _, name := range w.names {
		b := w.get(name)
		if b == nil || !managed.IsCreateIncomplete(b) {
			continue
		}
		found := ""
		w.cloud.set(func(c *cloud) {
			for id, s := range c.buckets {
				if s.owner == name {
					found = id
				}
			}
		})
		wtxn := w.DB.WriteTxn(w.Table)
		_, err := w.writer().Edit(wtxn, b, func(b *bucket) {
			managed.DecideCreate(b, found)
			if found != "" {
				noteZone(b, found)
			}
		})
		require.NoError(w, err)
		wtxn.Commit()
	}
}

// never requires what must hold at any time: no object has two resources.
func (w *walk) never() {
	for _, name := range w.names {
		require.LessOrEqual(w, len(w.cloud.holds(name)), 1, "resources of %q", name)
		if b := w.get(name); b != nil && b.Annotations[others] != "" {
			is := fmt.Sprint(b.Other.ID)
			require.Equal(w, b.Annotations[others], is, "%q: the status of another reconciler is stale", name)
		}
		if b := w.get(name); b != nil && b.GetCondition("Backup").Message != "" {
			require.Equal(w, w.backups[name], b.GetCondition("Backup").Message, "%q: the condition of another program is stale", name)
		}
	}
}

// settled ends the faults, puts removed rows back, and waits until everything is done.
func (w *walk) settled() {
	w.calm()
	for range 3 {
		w.decide()
		wtxn := w.DB.WriteTxn(w.Table)
		for _, name := range w.names {
			found, err := w.writer().Edit(wtxn, named(name), func(b *bucket) { managed.SetPaused(b, false) })
			require.NoError(w, err)
			if !found {
				_, err := w.writer().Apply(wtxn, named(name), asItIs)
				require.NoError(w, err)
			}
		}
		wtxn.Commit()
		pass(3 * time.Minute)
	}
	w.never()
	for _, name := range w.names {
		b := w.get(name)
		require.NotNil(w, b, "%q", name)
		require.Equal(w, []int{b.Size}, w.cloud.holds(name), "of %q: %s %+v", name, b.Status, b.Meta)
		require.True(w, managed.IsReady(b), "%q: %+v", name, b.Conditions)
		require.True(w, managed.IsSynced(b), "%q: %+v", name, b.Conditions)
		require.Equal(w, reconciler.StatusKindDone, b.Status.Kind, "%q: %s", name, b.Status)
		if !apart(b) {
			require.Equal(w, b.Size, b.Seen, "%q: what Observe has filled in is not written", name)
		}
		require.Equal(w, managed.GetExternalName(b), w.vault.of(name, "address"), "published of %q", name)
		if want, learned := w.vault.expected(name); learned {
			require.Equal(w, want, w.vault.of(name, "password"), "published of %q", name)
		}
		if !w.known {
			requireZone(w, b)
		}
	}
}

// restart stops the loop at a random moment, and starts another one on the same table. Only the old
// loop knows the rows that are gone already, so these are settled first.
func (w *walk) restart() {
	w.settled()
	w.faults()
	for range 3 {
		name := w.names[w.rnd.IntN(len(w.names))]
		size := 1 + w.rnd.IntN(3)
		wtxn := w.DB.WriteTxn(w.Table)
		_, err := w.writer().Apply(wtxn, named(name), func(b *bucket) { b.Size = size })
		requireApplied(w, err)
		wtxn.Commit()
		time.Sleep(time.Duration(w.rnd.IntN(1000)) * time.Millisecond)
	}
	w.Stop()
	w.vault.restart()
	w.start(w.opts...)
	// The next loop knows about the rows only what they contain.
	w.settled()
	w.faults()
}

// end settles everything, and then deletes all objects.
func (w *walk) end() {
	w.settled()
	w.remove()
	pass(3 * time.Minute)
	w.gone()
	w.holds(-1)
}

func TestRandomFailuresLeakAndDuplicateNothing(t *testing.T) {
	for _, known := range []bool{false, true} {
		for _, workers := range []int{1, 8} {
			for seed := range uint64(20) {
				t.Run(fmt.Sprintf("known=%t/workers=%d/seed=%d", known, workers, seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := &walk{
							env: newEnv(t, workers), rnd: rand.New(rand.NewPCG(seed, 7)), known: known, backups: map[string]string{},
							vault: newVault(), shared: seed%4 == 1, breaks: seed%3 == 0,
						}
						w.opts = []managed.ReconcilerOption{
							managed.WithTimeout(time.Second), managed.WithCreationGracePeriod(2 * time.Second),
							managed.WithExternalConnectDisconnecter[*bucket](w), managed.WithConnectionPublishers[*bucket](w.vault),
							managed.WithCriticalAnnotationUpdater[*bucket](w),
							managed.WithLeaveHook(func(_ context.Context, b *bucket) error {
								w.Errorf("%q may only be observed", b.Name)
								return nil
							}),
						}
						if known {
							w.opts = append(w.opts, deterministic(w.env)...)
						}
						w.start(w.opts...)
						w.faults()
						for step := range 120 {
							w.one()
							time.Sleep(time.Duration(w.rnd.IntN(800)) * time.Millisecond)
							w.never()
							switch {
							case step%40 == 39:
								w.restart()
							case step%15 == 14:
								w.decide()
							}
						}
						w.end()
					})
				})
			}
		}
	}
}
