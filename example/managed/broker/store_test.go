// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package broker

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/example/managed/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const lag = time.Second

// clocked is a store whose clock the test controls.
type clocked struct {
	*testing.T
	*Store
	at time.Time
}

func open(t *testing.T) *clocked {
	store, err := Open(filepath.Join(t.TempDir(), "broker.db"), lag)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	c := &clocked{T: t, Store: store, at: time.Unix(1000, 0)}
	store.now = func() time.Time { return c.at }
	return c
}

func (c *clocked) pass(d time.Duration) { c.at = c.at.Add(d) }

func (c *clocked) create(name string) api.Tunnel {
	t, created, err := c.Create(api.Request{Name: name, Owner: "me", Settings: slow})
	require.NoError(c, err)
	require.True(c, created)
	return t
}

func (c *clocked) require(seen, truth map[string]int) {
	c.Helper()
	of := func(all []api.Tunnel, err error) map[string]int {
		require.NoError(c, err)
		bandwidths := map[string]int{}
		for _, t := range all {
			bandwidths[t.Name] = t.Bandwidth
		}
		return bandwidths
	}
	require.Equal(c, seen, of(c.List()), "as reads show it")
	require.Equal(c, truth, of(c.Truth()), "as it is")
}

var slow, fast = api.Settings{Remote: "203.0.113.1", Bandwidth: 1}, api.Settings{Remote: "203.0.113.1", Bandwidth: 2}

func TestReadsLagBehindWrites(t *testing.T) {
	c := open(t)
	none, isSlow, isFast := map[string]int{}, map[string]int{"web": 1}, map[string]int{"web": 2}
	created := c.create("web")
	c.require(none, isSlow)
	c.pass(lag)
	c.require(isSlow, isSlow)

	_, err := c.Store.Update(created.ID, fast)
	require.NoError(t, err)
	c.require(isSlow, isFast)
	c.pass(lag / 2)
	_, err = c.Store.Update(created.ID, fast)
	require.NoError(t, err)
	c.pass(lag / 2)
	c.require(isFast, isFast) // the second update changed nothing, so it did not extend the lag

	_, err = c.Store.Delete(created.ID)
	require.NoError(t, err)
	c.require(isFast, none)
	c.pass(lag)
	c.require(none, none)

	_, err = c.Store.Delete(c.create("web").ID)
	require.NoError(t, err)
	c.require(none, none) // it is never visible
}

func TestNameIsCreatedOnceUntilItIsGone(t *testing.T) {
	c := open(t)
	request := api.Request{Name: "web", Owner: "me", Settings: fast}
	first := c.create("web")
	again, created, err := c.Create(request)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, first, again)

	_, err = c.Store.Delete(first.ID)
	require.NoError(t, err)
	_, err = c.Store.Delete(first.ID)
	require.ErrorIs(t, err, errNotFound)
	_, err = c.Store.Update(first.ID, fast)
	require.ErrorIs(t, err, errNotFound)
	_, err = c.Drift(api.Drift{Name: "web", Lose: true})
	require.ErrorIs(t, err, errNotFound)
	_, _, err = c.Create(request)
	require.ErrorIs(t, err, errGoing)
	c.pass(lag)
	require.NotEqual(t, first.ID, c.create("web").ID)
}

func TestDriftIsVisibleAtOnce(t *testing.T) {
	c := open(t)
	c.create("web")
	_, err := c.Drift(api.Drift{Name: "web", Settings: fast})
	require.NoError(t, err)
	c.require(map[string]int{"web": 2}, map[string]int{"web": 2})
	_, err = c.Drift(api.Drift{Name: "web", Lose: true})
	require.NoError(t, err)
	c.require(map[string]int{}, map[string]int{})
}

func TestAuditCountsEveryCall(t *testing.T) {
	c := open(t)
	id := c.create("web").ID
	for range 2 {
		_, _, err := c.Create(api.Request{Name: "web", Owner: "me", Settings: slow})
		require.NoError(t, err)
	}
	for range 3 {
		_, err := c.Store.Update(id, fast)
		require.NoError(t, err)
	}
	_, err := c.Drift(api.Drift{Name: "web", Settings: slow})
	require.NoError(t, err)
	_, err = c.Store.Delete(id)
	require.NoError(t, err)
	c.pass(lag)
	c.create("web")
	_, err = c.Drift(api.Drift{Name: "web", Lose: true})
	require.NoError(t, err)

	audit, err := c.Audit()
	require.NoError(t, err)
	require.Equal(t, map[string]api.Audit{"web": {Creates: 2, Repeats: 2, Updates: 3, Deletes: 1, Lost: 1, Drifts: 1}}, audit)
}

func TestStoreKeepsItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broker.db")
	store, err := Open(path, 0)
	require.NoError(t, err)
	first, _, err := store.Create(api.Request{Name: "web", Owner: "me", Settings: slow})
	require.NoError(t, err)
	require.NoError(t, store.Close())
	store, err = Open(path, 0)
	require.NoError(t, err)
	all, err := store.List()
	require.NoError(t, err)
	require.Equal(t, []api.Tunnel{first}, all)
	require.NoError(t, store.Close())
}
