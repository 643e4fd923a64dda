// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package client

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/example/managed/api"
	"github.com/statekeel/statekeel/example/managed/broker"
	"github.com/statekeel/statekeel/reconciler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect returns a client of a broker with these faults.
func connect(t *testing.T, lag time.Duration, faults broker.Faults) (*Client, *broker.Store) {
	store, err := broker.Open(filepath.Join(t.TempDir(), "broker.db"), lag)
	require.NoError(t, err)
	handler, err := broker.NewHandler(store, faults)
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	c := New(server.URL)
	t.Cleanup(func() {
		c.Close()
		server.Close()
		require.NoError(t, store.Close())
	})
	return c, store
}

var (
	settings = api.Settings{Remote: "203.0.113.1", Bandwidth: 100}
	request  = api.Request{Name: "web", Owner: "me", Settings: settings}
)

// outcome returns as text what an error asks the loop to do next, empty if nothing. Only a loop can
// read that, so outcome finds it by its type.
func outcome(err error) string {
	directive := reflect.TypeOf(reconciler.TerminalError(errors.New("any")))
	switch inner := err.(type) {
	case nil:
		return ""
	case interface{ Unwrap() []error }:
		var all string
		for _, e := range inner.Unwrap() {
			all += outcome(e)
		}
		return all
	}
	if v := reflect.ValueOf(err); v.Type() == directive {
		return fmt.Sprintf("kind %v delay %v", v.Elem().FieldByName("Kind"), v.Elem().FieldByName("Delay"))
	}
	return outcome(errors.Unwrap(err))
}

func retryAfter(d time.Duration) string { return outcome(reconciler.RetryAfter(errors.New("any"), d)) }

var terminal = outcome(reconciler.TerminalError(errors.New("any")))

func TestCreatedTunnelIsListedChangedAndDeleted(t *testing.T) {
	c, _ := connect(t, 0, broker.Faults{})
	created, err := c.Create(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, api.Tunnel{ID: "tun-0001", Request: request, Address: "100.64.0.1"}, created)

	there, found, err := c.Find(t.Context(), "me", "web")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, created, there)
	_, found, err = c.Find(t.Context(), "another owner", "web")
	require.NoError(t, err)
	require.False(t, found)

	require.NoError(t, c.Update(t.Context(), created.ID, api.Settings{Remote: "203.0.113.2", Bandwidth: 7}))
	all, err := c.List(t.Context(), "me")
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, 7, all[0].Bandwidth)

	require.NoError(t, c.Drift(t.Context(), api.Drift{Name: "web", Settings: settings}))
	require.NoError(t, c.Delete(t.Context(), created.ID))
	truth, err := c.Truth(t.Context())
	require.NoError(t, err)
	require.Empty(t, truth)
	audit, err := c.Audit(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]api.Audit{"web": {Creates: 1, Updates: 1, Drifts: 1, Deletes: 1}}, audit)
}

func TestOutcomeHelperDistinguishesErrors(t *testing.T) {
	require.NotEmpty(t, terminal)
	require.NotEqual(t, terminal, retryAfter(time.Second))
	require.NotEqual(t, retryAfter(time.Minute), retryAfter(time.Second))
	require.Empty(t, outcome(ErrNotFound))
}

func TestBusyBrokerReturnsRetryAfter(t *testing.T) {
	c, _ := connect(t, 0, broker.Faults{Busy: 1})
	_, err := c.Create(t.Context(), request)
	require.EqualError(t, err, "POST /v1/tunnels: 429 Too Many Requests: the broker is busy")
	require.Equal(t, retryAfter(time.Second), outcome(err))
}

func TestNameBeingDeletedIsRetried(t *testing.T) {
	c, _ := connect(t, time.Hour, broker.Faults{})
	created, err := c.Create(t.Context(), request)
	require.NoError(t, err)
	require.NoError(t, c.Delete(t.Context(), created.ID))
	_, err = c.Create(t.Context(), request)
	require.ErrorContains(t, err, "409 Conflict: a tunnel of this name is being deleted")
	require.Equal(t, retryAfter(time.Second), outcome(err))
}

func TestRejectedTunnelIsATerminalError(t *testing.T) {
	c, _ := connect(t, 0, broker.Faults{})
	_, err := c.Create(t.Context(), api.Request{Name: "web", Owner: "me", Settings: api.Settings{Remote: "nowhere"}})
	require.EqualError(t, err, "POST /v1/tunnels: 422 Unprocessable Entity: remote \"nowhere\" is not an address\\nbandwidth 0 is not from 1 to 10000")
	require.Equal(t, terminal, outcome(err))
	_, err = c.Create(t.Context(), api.Request{Settings: settings})
	require.EqualError(t, err, "POST /v1/tunnels: 400 Bad Request: name and owner are needed")
	require.Equal(t, terminal, outcome(err))
}

func TestBrokerServerErrorIsRetriedWithBackoff(t *testing.T) {
	c, store := connect(t, 0, broker.Faults{Unavailable: 1})
	_, err := c.Create(t.Context(), request)
	require.EqualError(t, err, "POST /v1/tunnels: 503 Service Unavailable: the broker is out of order")
	require.NotErrorIs(t, err, ErrNoAnswer)
	require.Empty(t, outcome(err))
	requireHolds(t, store, 0)
}

func TestResetComesAfterTheEffect(t *testing.T) {
	c, store := connect(t, 0, broker.Faults{Reset: 1})
	_, err := c.Create(t.Context(), request)
	require.ErrorIs(t, err, ErrNoAnswer)
	require.NotContains(t, err.Error(), "127.0.0.1", "the text is the same each time")
	require.Empty(t, outcome(err))
	requireHolds(t, store, 1)
}

func TestSlowBrokerAnswers(t *testing.T) {
	c, store := connect(t, 0, broker.Faults{Slow: 1, SlowBy: time.Millisecond})
	_, err := c.Create(t.Context(), request)
	require.NoError(t, err)
	requireHolds(t, store, 1)
}

func TestMissingTunnelIsNotFound(t *testing.T) {
	c, _ := connect(t, 0, broker.Faults{})
	require.ErrorIs(t, c.Delete(t.Context(), "tun-0001"), ErrNotFound)
	err := c.Update(t.Context(), "tun-0001", settings)
	require.ErrorIs(t, err, ErrNotFound)
	require.Empty(t, outcome(err), "the next pass observes that it is missing")
}

func TestSameSeedMakesTheSameFaults(t *testing.T) {
	run := func(seed uint64) (failed []bool) {
		c, _ := connect(t, 0, broker.Faults{Unavailable: 0.5, Seed: seed})
		for range 32 {
			_, err := c.List(t.Context(), "me")
			failed = append(failed, err != nil)
		}
		return failed
	}
	one := run(1)
	require.Equal(t, one, run(1))
	require.NotEqual(t, one, run(2))
	require.Contains(t, one, true)
	require.Contains(t, one, false)
}

func requireHolds(t *testing.T, store *broker.Store, count int) {
	t.Helper()
	all, err := store.Truth()
	require.NoError(t, err)
	require.Len(t, all, count)
}
