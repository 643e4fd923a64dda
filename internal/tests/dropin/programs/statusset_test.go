// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// policy is an object with a set of statuses, for any number of reconcilers.
type policy struct {
	Name     string
	Statuses reconciler.StatusSet
}

func (p *policy) Clone() *policy {
	c := *p
	return &c
}

func (p *policy) TableHeader() []string { return []string{"Name", "Statuses"} }
func (p *policy) TableRow() []string    { return []string{p.Name, p.Statuses.String()} }

var policyByName = statedb.Index[*policy, string]{
	Name:       "name",
	FromObject: func(p *policy) index.KeySet { return index.NewKeySet(index.String(p.Name)) },
	FromKey:    index.String,
	Unique:     true,
}

type policyOps struct{ updates map[string]int }

func (ops *policyOps) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, p *policy) error {
	ops.updates[p.Name]++
	return nil
}

func (ops *policyOps) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *policy) error {
	return nil
}

func (ops *policyOps) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*policy, statedb.Revision]) error {
	return nil
}

type policyApp struct {
	*app
	policies statedb.RWTable[*policy]
}

func newPolicyApp(t *testing.T) *policyApp {
	a := &policyApp{app: newApp(t)}
	var err error
	a.policies, err = statedb.NewTable(a.db, "policies", policyByName)
	require.NoError(t, err)
	return a
}

// reconcile registers a reconciler that keeps its status in the set under a name.
func (a *policyApp) reconcile(name string) *policyOps {
	ops := &policyOps{updates: map[string]int{}}
	_, err := reconciler.Register(a.params, a.policies,
		(*policy).Clone,
		func(p *policy, s reconciler.Status) *policy {
			p.Statuses = p.Statuses.Set(name, s)
			return p
		},
		func(p *policy) reconciler.Status { return p.Statuses.Get(name) },
		ops, nil, reconciler.WithName(name))
	require.NoError(a.t, err)
	return ops
}

func (a *policyApp) put(p *policy) {
	wtxn := a.db.WriteTxn(a.policies)
	_, _, err := a.policies.Insert(wtxn, p)
	require.NoError(a.t, err)
	wtxn.Commit()
}

// kinds renders the statuses of the one policy, by name.
func (a *policyApp) kinds() map[string]string {
	kinds := map[string]string{}
	for p := range a.policies.All(a.db.ReadTxn()) {
		for name, s := range p.Statuses.All() {
			kinds[name] = s.Kind.String()
		}
	}
	return kinds
}

func (a *policyApp) awaitDone(names ...string) {
	a.t.Helper()
	eventually(a.t, func() bool {
		kinds := a.kinds()
		return len(kinds) == len(names) && !slices.ContainsFunc(names, func(n string) bool { return kinds[n] != "Done" })
	}, "%v to be done, they are %v", names, func() any { return a.kinds() })
}

func TestThreeReconcilersShareAStatusSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPolicyApp(t)
		x, y := a.reconcile("x"), a.reconcile("y")
		a.start()

		a.put(&policy{Name: "web", Statuses: reconciler.NewStatusSet()})
		a.awaitDone("x", "y")

		// The third is registered in a running hive. The object has no status of that name, which counts as
		// pending.
		z := a.reconcile("z")
		a.awaitDone("x", "y", "z")
		pass(time.Minute)
		for _, ops := range []*policyOps{x, y, z} {
			assert.Equal(t, 1, ops.updates["web"], "one change, one update")
		}

		// A change makes all three statuses pending.
		p, _, _ := a.policies.Get(a.db.ReadTxn(), policyByName.Query("web"))
		p = p.Clone()
		p.Statuses = p.Statuses.Pending()
		assert.Regexp(t, `^Pending: x y z \(`, p.Statuses.String(), "a pending set keeps the names")
		a.put(p)
		eventually(t, func() bool { return x.updates["web"] == 2 && y.updates["web"] == 2 && z.updates["web"] == 2 }, "three updates")
		a.awaitDone("x", "y", "z")
		pass(time.Minute)
		assert.Equal(t, []int{2, 2, 2}, []int{x.updates["web"], y.updates["web"], z.updates["web"]})
	})
}

func TestStatusSetIsAValue(t *testing.T) {
	s := reconciler.NewStatusSet()
	assert.Equal(t, "Pending", s.String())
	assert.Empty(t, maps.Collect(s.All()))
	assert.True(t, s.IsDone(), "nothing is required")
	unknown := s.Get("a")
	assert.Equal(t, reconciler.StatusKindPending, unknown.Kind)
	assert.NotZero(t, unknown.ID)
	assert.WithinDuration(t, time.Now(), unknown.UpdatedAt, time.Minute)

	one := s.Set("a", reconciler.StatusDone())
	two := one.Set("b", reconciler.StatusError(errors.New("no room")))
	three := two.Set("a", reconciler.StatusPending())
	assert.Empty(t, maps.Collect(s.All()), "Set must not change its receiver")
	assert.Equal(t, []string{"a"}, slices.Sorted(maps.Keys(maps.Collect(one.All()))))
	assert.Equal(t, reconciler.StatusKindDone, one.Get("a").Kind)
	assert.Equal(t, reconciler.StatusKindDone, two.Get("a").Kind, "Set must not change its receiver")
	assert.Equal(t, reconciler.StatusKindPending, three.Get("a").Kind)
	assert.Equal(t, "no room", three.Get("b").GetError())
	assert.Equal(t, unknown.ID, three.Get("c").ID, "all unknown names of a set have the same ID")
}

func TestPendingStatusSetHasAFreshID(t *testing.T) {
	done := reconciler.NewStatusSet().Set("a", reconciler.StatusDone()).Set("b", reconciler.StatusDone())
	pending := done.Pending()
	assert.Equal(t, reconciler.StatusKindDone, done.Get("a").Kind, "Pending must not change its receiver")
	a, b, c := pending.Get("a"), pending.Get("b"), pending.Get("c")
	assert.Equal(t, reconciler.StatusKindPending, a.Kind)
	assert.Equal(t, reconciler.StatusKindPending, b.Kind)
	assert.Equal(t, a.ID, b.ID)
	assert.Equal(t, a.ID, c.ID)
	assert.NotEqual(t, done.Get("c").ID, a.ID)
	assert.NotEqual(t, a.ID, pending.Pending().Get("a").ID)
	assert.True(t, pending.IsPendingOrRefreshing())
	assert.False(t, pending.IsDone())
}

func TestPendingAddsNamesAndDeleteRemovesThem(t *testing.T) {
	s := reconciler.NewStatusSet().Set("b", reconciler.StatusError(errors.New("no room"))).Pending("c", "a", "c")
	var names []string
	for name, status := range s.All() {
		names = append(names, name)
		assert.Equal(t, reconciler.StatusKindPending, status.Kind, name)
		assert.Nil(t, status.Error, name)
		assert.Equal(t, s.Get("other").ID, status.ID, name)
		assert.Equal(t, s.Get("other").UpdatedAt, status.UpdatedAt, name)
	}
	assert.Equal(t, []string{"a", "b", "c"}, names)

	less := s.Set("a", reconciler.StatusDone()).Delete("b").Delete("none").Delete("c")
	assert.True(t, less.IsDone())
	assert.False(t, less.IsPendingOrRefreshing())
	assert.Len(t, maps.Collect(s.All()), 3, "Delete must not change its receiver")
	pending := less.Pending()
	assert.Len(t, maps.Collect(pending.All()), 1, "a deleted name is not pending again")
}

func TestStatusSetYAMLIsAMap(t *testing.T) {
	at := time.Unix(1, 0).UTC()
	set := reconciler.StatusSet{}.
		Set("b", reconciler.Status{Kind: reconciler.StatusKindDone, UpdatedAt: at}).
		Set("a", reconciler.Status{Kind: reconciler.StatusKindRefreshing, UpdatedAt: at})
	value, err := set.MarshalYAML()
	require.NoError(t, err)
	assert.Len(t, value, 2)
	text, err := yaml.Marshal(set)
	require.NoError(t, err)
	var back map[string]reconciler.Status
	require.NoError(t, yaml.Unmarshal(text, &back), "%s", text)
	assert.Len(t, back, 2)
	assert.Equal(t, reconciler.StatusKindDone, back["b"].Kind)
	assert.Equal(t, reconciler.StatusKindRefreshing, back["a"].Kind)
	assert.True(t, at.Equal(back["a"].UpdatedAt))
}

func TestStatusSetString(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reconciler.NewStatusSet()
		s = s.Set("d", reconciler.StatusDone()).Set("c", reconciler.StatusDone())
		time.Sleep(time.Second)
		transcript(t, "done", s.String())
		s = s.Set("b", reconciler.StatusPending())
		time.Sleep(1500 * time.Millisecond)
		transcript(t, "pending", s.String())
		s = s.Set("a", reconciler.StatusError(errors.New("no room"))).Set("e", reconciler.StatusError(errors.New("no route")))
		time.Sleep(90 * time.Minute)
		transcript(t, "errored", s.String())
		transcript(t, "refreshing", s.Set("b", reconciler.StatusRefreshing()).String())
		assert.Equal(t, "Errored: a (no room) e (no route), Pending: b, Done: c d (1.5h ago)", s.String())
	})
}

func TestStatusSetJSONReadsBack(t *testing.T) {
	// Local time, as in the statuses that the constructors make.
	at := time.Unix(1, 0)
	done := reconciler.Status{Kind: reconciler.StatusKindDone, UpdatedAt: at, ID: 7}
	failed := reconciler.StatusError(errors.New("no room"))
	failed.UpdatedAt, failed.ID = at, 8
	s := reconciler.NewStatusSet().Set("b", done).Set("a", failed)

	text, err := json.Marshal(s)
	require.NoError(t, err)
	stamp := at.Format(time.RFC3339Nano)
	assert.Equal(t, `{"a":{"updated-at":"`+stamp+`","error":"no room","id":8,"kind":"Error"},`+
		`"b":{"updated-at":"`+stamp+`","id":7,"kind":"Done"}}`, string(text))

	var back reconciler.StatusSet
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, []string{"a", "b"}, slices.Sorted(maps.Keys(maps.Collect(back.All()))))
	assert.Equal(t, reconciler.StatusKindDone, back.Get("b").Kind)
	assert.Equal(t, uint64(7), back.Get("b").ID)
	assert.True(t, at.Equal(back.Get("b").UpdatedAt))
	assert.Equal(t, "no room", back.Get("a").GetError())
	again, err := back.MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, text, again)

	empty, err := reconciler.NewStatusSet().MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, `{}`, string(empty))
	assert.Error(t, back.UnmarshalJSON([]byte(`["a"]`)))
	require.NoError(t, back.UnmarshalJSON([]byte(`{}`)))
	assert.Empty(t, maps.Collect(back.All()))

	// Inside an object, as in db/show --format=json.
	text, err = json.Marshal(&policy{Name: "web", Statuses: s})
	require.NoError(t, err)
	transcript(t, "in an object", string(text))
}
