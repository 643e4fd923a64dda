// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
		e.remove()
		pass(time.Minute)
		e.gone()
		e.holds(-1)
	}, nil)
}

func TestRowThatIsOnlyObservedIsWrittenWhole(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.set(func(c *cloud) {
			for _, name := range e.names {
				c.buckets["there-"+name] = &stored{name, 7}
			}
		})
		e.seesRegion()
		e.want(1, func(b *bucket) {
			managed.SetManagementPolicies(b, managed.ManagementActionObserve)
			managed.SetExternalName(b, "there-"+b.Name)
		})
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.rows(func(b *bucket) {
			require.Equal(e, 7, b.Seen)
			require.Equal(e, "seen", b.Region)
		})
		at := e.revision()
		pass(time.Hour)
		require.Equal(e, at, e.revision(), "polls write nothing")
	}, nil)
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
		e.cloud.set(func(c *cloud) {
			for _, s := range c.buckets {
				s.size = 5
			}
		})
		e.edit(func(b *bucket) {
			managed.SetManagementPolicies(b, managed.ManagementActionObserve, managed.ManagementActionCreate)
		})
		e.rows(func(b *bucket) { require.Equal(e, 5, b.Seen) })
	}, func(*env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{managed.WithObserved(func(row, observed *bucket) *bucket {
			row.Seen = observed.Seen
			return row
		})}
	})
}

func TestWithObservedMustReturnItsRow(t *testing.T) {
	each(t, func(e *env) {
		e.want(1, withoutLate)
		e.rows(func(b *bucket) { require.Contains(e, b.Status.GetError(), "WithObserved has to return the row") })
		e.holds(-1)
	}, func(*env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{managed.WithObserved(func(_, observed *bucket) *bucket { return observed })}
	})
}
