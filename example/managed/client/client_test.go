// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

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

func TestErrorsOfTheBrokerTellTheLoopWhatToDo(t *testing.T) {
	create := func(request api.Request) func(ctx context.Context, c *Client) error {
		return func(ctx context.Context, c *Client) error {
			_, err := c.Create(ctx, request)
			return err
		}
	}
	for name, tt := range map[string]struct {
		faults  broker.Faults
		call    func(ctx context.Context, c *Client) error
		err     string
		is      error
		outcome string
		holds   int
	}{
		"busy": {broker.Faults{Busy: 1}, create(request),
			"POST /v1/tunnels: 429 Too Many Requests: the broker is busy", nil, retryAfter(time.Second), 0},
		"name being deleted": {broker.Faults{}, func(ctx context.Context, c *Client) error {
			created, err := c.Create(ctx, request)
			if err = errors.Join(err, c.Delete(ctx, created.ID)); err != nil {
				return err
			}
			return create(request)(ctx, c)
		}, "POST /v1/tunnels: 409 Conflict: a tunnel of this name is being deleted", nil, retryAfter(time.Second), 0},
		"wrong settings": {broker.Faults{}, create(api.Request{Name: "web", Owner: "me", Settings: api.Settings{Remote: "nowhere"}}),
			"POST /v1/tunnels: 422 Unprocessable Entity: remote \"nowhere\" is not an address\\nbandwidth 0 is not from 1 to 10000", nil, terminal, 0},
		"no name": {broker.Faults{}, create(api.Request{Settings: settings}),
			"POST /v1/tunnels: 400 Bad Request: name and owner are needed", nil, terminal, 0},
		"out of order": {broker.Faults{Unavailable: 1}, create(request),
			"POST /v1/tunnels: 503 Service Unavailable: the broker is out of order", nil, "", 0},
		"no answer": {broker.Faults{Reset: 1}, create(request), "", ErrNoAnswer, "", 1},
		"slow":      {broker.Faults{Slow: 1, SlowBy: time.Millisecond}, create(request), "", nil, "", 1},
		"missing, deleted": {broker.Faults{}, func(ctx context.Context, c *Client) error {
			return c.Delete(ctx, "tun-0001")
		}, "", ErrNotFound, "", 0},
		"missing, updated": {broker.Faults{}, func(ctx context.Context, c *Client) error {
			return c.Update(ctx, "tun-0001", settings)
		}, "", ErrNotFound, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, store := connect(t, time.Hour, tt.faults)
			err := tt.call(t.Context(), c)
			require.Equal(t, tt.err != "" || tt.is != nil, err != nil, err)
			require.Equal(t, tt.is == ErrNoAnswer, errors.Is(err, ErrNoAnswer))
			require.Equal(t, tt.is == ErrNotFound, errors.Is(err, ErrNotFound))
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
			}
			require.NotContains(t, fmt.Sprint(err), "127.0.0.1", "the text is the same each time")
			require.Equal(t, tt.outcome, outcome(err))
			all, err := store.Truth()
			require.NoError(t, err)
			require.Len(t, all, tt.holds)
		})
	}
}

// The error does not contain the broker's text unescaped.
func TestHostileAnswersAreEscaped(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(api.Problem{Error: "refused a\x1b[31m\n<<end>>\x00"})
	}))
	defer server.Close()
	c := New(server.URL)
	defer c.Close()
	_, err := c.Create(t.Context(), request)
	require.ErrorContains(t, err, "refused")
	require.False(t, strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }), "%q", err)
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
