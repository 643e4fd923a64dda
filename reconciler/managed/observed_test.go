// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// withoutLate sets policies that allow everything but LateInitialize.
func withoutLate(b *bucket) {
	managed.SetManagementPolicies(b, managed.ManagementActionObserve, managed.ManagementActionCreate,
		managed.ManagementActionUpdate, managed.ManagementActionDelete)
}

// seesRegion lets Observe set a region, and requires the other calls to receive it.
func (e *env) seesRegion(on ...string) {
	e.cloud.then("observe", func(_ context.Context, b *bucket) error {
		b.Region = "seen"
		return nil
	})
	for _, op := range on {
		e.cloud.before(op, func(_ context.Context, b *bucket) error {
			if b.Region != "seen" {
				e.Errorf("%s of %q received region %q", op, b.Name, b.Region)
			}
			b.SetAnnotation("example.com/"+op, "noted")
			return nil
		})
	}
}

func TestObservedValuesReachTheCallsOfThePass(t *testing.T) {
	each(t, func(e *env) {
		e.seesRegion("create", "update", "delete")
		e.settle(1, withoutLate)
		e.want(2, withoutLate)
		pass(time.Second)
		e.holds(2)
		e.rows(func(b *bucket) {
			require.Empty(e, b.Region, "the observed region is not written")
			require.Zero(e, b.Seen)
			require.Equal(e, "noted", b.Annotations["example.com/create"])
			require.Equal(e, "noted", b.Annotations["example.com/update"])
		})
		e.removed(-1)
	})
}

func TestWithObservedDecidesWhatIsWritten(t *testing.T) {
	each(t, func(e *env) {
		e.seesRegion("update")
		e.settle(1, withoutLate)
		e.rows(func(b *bucket) {
			require.Equal(e, 1, b.Seen)
			require.Empty(e, b.Region)
		})
		at := e.revision()
		pass(time.Hour)
		require.Equal(e, at, e.revision(), "polls write nothing")
		e.drift(5)
		e.edit(func(b *bucket) {
			managed.SetManagementPolicies(b, managed.ManagementActionObserve, managed.ManagementActionCreate)
		})
		e.rows(func(b *bucket) { require.Equal(e, 5, b.Seen) })
	}, managed.WithObserved(func(row, observed *bucket) *bucket {
		row.Seen = observed.Seen
		return row
	}))
}

func TestWithObservedMustReturnItsRow(t *testing.T) {
	each(t, func(e *env) {
		e.want(1, withoutLate)
		e.rows(func(b *bucket) { require.Contains(e, b.Status.GetError(), "WithObserved has to return the row") })
		e.holds(-1)
	}, managed.WithObserved(func(_, observed *bucket) *bucket { return observed }))
}

// What one of two reconcilers sets stays, even if both have their statuses in one field.
func TestFieldsThatTwoReconcilersSetDuringAPassAreAllWritten(t *testing.T) {
	statuses := func(cfg *reconciler.Config[*bucket]) {
		cfg.GetStatus = func(b *bucket) reconciler.Status { return b.All.Get("managed") }
		cfg.SetStatus = func(b *bucket, s reconciler.Status) *bucket {
			b.All = b.All.Set("managed", s)
			return b
		}
	}
	each(t, func(e *env) {
		at := time.Now()
		e.cloud.then("observe", func(_ context.Context, b *bucket) error {
			b.State.Load, b.State.At, b.note = 7, at, "observed"
			next := e.get(b.Name).Clone()
			next.All = next.All.Set("backup", reconciler.StatusDone())
			next.State.Backup = "done"
			next.Tags = map[string]string{"backup": "done"}
			e.Insert(next)
			return nil
		})
		e.there("there-", 1)
		for _, name := range e.names {
			b := named(name)
			b.Size = 1
			managed.SetExternalName(b, "there-"+name)
			b.All = reconciler.NewStatusSet().Set("managed", reconciler.StatusPending())
			e.Insert(b)
		}
		pass(0)
		e.is("ReconcileSuccess", "Available")
		e.rows(func(b *bucket) {
			require.Equal(e, reconciler.StatusKindDone, b.All.Get("managed").Kind)
			require.Equal(e, reconciler.StatusKindDone, b.All.Get("backup").Kind)
			require.Equal(e, 7, b.State.Load)
			require.Equal(e, at, b.State.At)
			require.Equal(e, "done", b.State.Backup)
			require.Equal(e, map[string]string{"backup": "done"}, b.Tags)
			require.Equal(e, "observed", b.note)
		})
	}, statuses)
}

// inPlace sets a value in what a deep clone has copied, and nothing in the struct itself.
var inPlace = map[string]func(b *bucket, value int){
	"map":     func(b *bucket, value int) { b.Tags["seen"] = strconv.Itoa(value) },
	"slice":   func(b *bucket, value int) { b.Zones[0] = strconv.Itoa(value) },
	"pointer": func(b *bucket, value int) { b.Disk.Size = value },
}

// filled has something of each kind to set.
func filled(b *bucket) { b.Tags, b.Zones, b.Disk = map[string]string{}, []string{""}, &disk{} }

func TestWhatAClientSetsInADeepCloneIsWritten(t *testing.T) {
	for _, op := range []string{"observe", "update"} {
		t.Run(op, func(t *testing.T) {
			table(t, inPlace, func(e *env, set func(b *bucket, value int)) {
				e.settle(1, filled)
				at := e.revision()
				pass(time.Hour)
				require.Equal(e, at, e.revision(), "a poll that finds nothing new writes nothing")
				e.changesInPlace(op, set)
				e.drift(5)
				pass(time.Minute)
				e.calledAlso("update")
				e.rows(func(b *bucket) { require.True(e, hasSet(b, set)) })
			}, deep)
		})
	}
}

// changesInPlace lets an operation set the value 7, and no field of the struct itself.
func (e *env) changesInPlace(op string, set func(b *bucket, value int)) {
	e.cloud.then("observe", func(_ context.Context, b *bucket) error {
		b.Seen = 1 // as before
		return nil
	})
	e.cloud.then(op, func(_ context.Context, b *bucket) error {
		b.Seen = 1
		set(b, 7)
		return nil
	})
}

// hasSet reports whether the value 7 was set.
func hasSet(b *bucket, set func(b *bucket, value int)) bool {
	want := named(b.Name)
	filled(want)
	set(want, 7)
	return b.holdsAs(want)
}

// holdsAs reports whether two rows hold the same values behind their pointers.
func (b *bucket) holdsAs(other *bucket) bool {
	return reflect.DeepEqual([]any{b.Tags, b.Zones, b.Disk}, []any{other.Tags, other.Zones, other.Disk})
}

func TestLateInitialisationOfADeepCloneIsWrittenBeforeTheUpdate(t *testing.T) {
	table(t, inPlace, func(e *env, set func(b *bucket, value int)) {
		e.settle(1, filled)
		e.drift(5)
		e.changesInPlace("observe", set)
		e.cloud.before("update", func(_ context.Context, b *bucket) error {
			if row := e.get(b.Name); !hasSet(row, set) {
				e.Errorf("at the update the row has %v %v %v", row.Tags, row.Zones, row.Disk)
			}
			return nil
		})
		pass(time.Minute)
		e.calledAlso("update")
	}, deep, withClient(func(e *env) managed.ExternalClient[*bucket] { return initializer{e.cloud} }))
}

// initializer is a client whose observations report that they have filled in something.
type initializer struct{ *cloud }

func (c initializer) Observe(ctx context.Context, b *bucket) (managed.ExternalObservation, error) {
	seen, err := c.cloud.Observe(ctx, b)
	seen.ResourceLateInitialized = true
	return seen, err
}

// withClient makes all passes use one client.
func withClient(client func(e *env) managed.ExternalClient[*bucket]) any {
	return func(e *env) any {
		is := client(e)
		return managed.WithExternalConnecter(managed.ExternalConnectorFn[*bucket](
			func(context.Context, *bucket) (managed.ExternalClient[*bucket], error) { return is, nil }))
	}
}
