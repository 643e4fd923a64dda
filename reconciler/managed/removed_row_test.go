// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// What the process remembers decides what happens to a resource, not the last version of its row.

// comeAndGo inserts rows and removes them before the loop sees them.
func (e *env) comeAndGo(prepare func(b *bucket)) {
	e.Helper()
	e.write(func(_ managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
		b := named(name).SetStatus(reconciler.StatusPending())
		prepare(b)
		_, _, err := e.Table.Insert(wtxn, b)
		require.NoError(e, err)
		_, _, err = e.Table.Delete(wtxn, b)
		require.NoError(e, err)
	})
}

func TestRowRemovedWithoutItsFinalizerLeaksNothing(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
			_, err := w.Edit(wtxn, named(name), func(b *bucket) { b.Finalizers = nil })
			require.NoError(e, err)
			_, _, err = e.Table.Delete(wtxn, named(name))
			require.NoError(e, err)
		})
		pass(time.Minute)
		e.holds(-1)
	}, noGrace)
}

func TestRowNamingAnotherResourceInAPlainInsertLeaksNothing(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.others()
		e.comeAndGo(func(b *bucket) { managed.SetExternalName(b, "other-"+b.Name) })
		pass(time.Minute)
		e.gone()
		e.holds(-1)
		for _, name := range e.names {
			require.Equal(e, []int{1}, e.cloud.holds("other-"+name), "it never belonged to the row")
			require.Contains(e, e.events.take(name), "Warning "+string(event.Reason("CannotTellIfManaged")))
		}
	}, noGrace)
}

// others adds a resource with another name for each object to the cloud.
func (e *env) others() {
	e.cloud.set(func(c *cloud) {
		for _, name := range e.names {
			c.buckets["other-"+name] = &stored{"other-" + name, 1}
		}
	})
}

// insertOther applies rows that name those resources.
func (e *env) insertOther() {
	e.Helper()
	e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
		_, err := w.Apply(wtxn, named(name), func(b *bucket) {
			b.Size = 1
			managed.SetExternalName(b, "other-"+name)
		})
		require.NoError(e, err)
	})
}

// manages requires the rows to manage those resources, and nothing else.
func (e *env) manages() {
	e.Helper()
	e.holds(-1)
	e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
	for _, name := range e.names {
		require.Equal(e, []int{1}, e.cloud.holds("other-"+name))
	}
	e.remove()
	pass(time.Minute)
	e.gone()
	for _, name := range e.names {
		require.Empty(e, e.cloud.holds("other-"+name))
	}
}

func TestRemovedRowBackUnderAnotherNameLeaksNothing(t *testing.T) {
	for name, trouble := range map[string]func(e *env) (over func()){
		"failing": func(e *env) func() {
			e.cloud.fail("delete", errors.New("busy"))
			return func() { e.cloud.before("delete", nil) }
		},
		"still deleting": func(e *env) func() {
			e.cloud.set(func(c *cloud) { c.sticky = true })
			return func() { e.cloud.set(func(c *cloud) { c.sticky = false }) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				e.settle(1)
				e.others()
				over := trouble(e)
				e.removeDirectly()
				e.insertOther()
				pass(time.Minute)
				e.holds(1)
				e.rows(func(b *bucket) { require.NotEqual(e, reconciler.StatusKindDone, b.Status.Kind) })
				over()
				pass(2 * time.Minute)
				e.manages()
			}, noGrace)
		})
	}
}

// The rows are Done when the second loop starts, so that it has no pass for them.
func TestRemovedRowThatReturnsAfterARestartKeepsItsResource(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		ids := map[string]string{}
		e.rows(func(b *bucket) { ids[b.Name] = managed.GetExternalName(b) })
		e.Stop()
		e.start(noGrace(e)...)
		e.cloud.fail("delete", errors.New("busy"))
		e.removeDirectly()
		pass(3 * time.Second)
		e.want(1)
		e.cloud.fail("delete", nil)
		e.forget()
		pass(5 * time.Minute)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.rows(func(b *bucket) {
			require.Equal(e, ids[b.Name], managed.GetExternalName(b))
			requireZone(e, b)
		})
		e.holds(1)
		for _, name := range e.names {
			require.NotContains(e, e.cloud.take(name), "delete")
		}
	}, noGrace)
}

// If the loop has seen neither version, it cannot tell whether the row was changed, or removed and
// inserted.
func TestRowNamingAnotherResourceReportsTheOldOne(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.others()
		e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
			_, _, err := e.Table.Delete(wtxn, named(name))
			require.NoError(e, err)
			b := named(name).SetStatus(reconciler.StatusPending())
			b.Size = 1
			managed.SetExternalName(b, "other-"+name)
			_, _, err = e.Table.Insert(wtxn, b)
			require.NoError(e, err)
		})
		pass(2 * time.Minute)
		e.told("Warning " + string(event.Reason("ExternalNameChanged")))
		e.holds(1)
	}, nil)
}
