// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// documents records a value as JSON and YAML, and checks that both read back.
func documents[T any](t *testing.T, value T) {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	transcript(t, "json", string(text))
	var back T
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, value, back)

	text, err = yaml.Marshal(value)
	require.NoError(t, err)
	transcript(t, "yaml", string(text))
	var fromYAML T
	require.NoError(t, yaml.Unmarshal(text, &fromYAML))
	assert.Equal(t, value, fromYAML)
}

func TestKinds(t *testing.T) {
	var zero reconciler.StatusKind
	assert.Equal(t, zero, reconciler.StatusKindUnset, "the zero kind is Unset")
	for _, kind := range []reconciler.StatusKind{
		reconciler.StatusKindUnset, reconciler.StatusKindPending, reconciler.StatusKindRefreshing,
		reconciler.StatusKindDone, reconciler.StatusKindError,
	} {
		transcript(t, "text", fmt.Sprintf("%s %v", kind, kind.String()))
		transcript(t, "key", string(kind.Key()))
		transcript(t, "active", fmt.Sprint(reconciler.Status{Kind: kind}.IsPendingOrRefreshing()))
		documents(t, struct{ Kind reconciler.StatusKind }{kind})
	}
}

func TestConstructors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := map[uint64]bool{}
		for _, make := range []func() reconciler.Status{
			reconciler.StatusPending, reconciler.StatusRefreshing, reconciler.StatusDone,
			func() reconciler.Status { return reconciler.StatusError(errors.New("no room")) },
			func() reconciler.Status { return reconciler.StatusError(nil) },
		} {
			status := make()
			transcript(t, "status", fmt.Sprint(status.Kind, status.GetError(), status.Error == nil))
			assert.True(t, time.Now().Equal(status.UpdatedAt))
			assert.NotZero(t, status.ID)
			assert.False(t, ids[status.ID], "each status needs its own ID")
			ids[status.ID] = true
			for _, d := range []time.Duration{
				0, 1500 * time.Nanosecond, 2 * time.Millisecond, 3 * time.Second, 4 * time.Minute, 150 * time.Minute, 100 * time.Hour,
			} {
				time.Sleep(d)
				transcript(t, "text", status.String())
			}
		}
		transcript(t, "unset", reconciler.Status{UpdatedAt: time.Now()}.String())
	})
}

func TestStatusJSONAndYAML(t *testing.T) {
	at := time.Date(2001, 2, 3, 4, 5, 6, 789000000, time.UTC)
	for _, status := range []reconciler.Status{
		{},
		{Kind: reconciler.StatusKindPending, UpdatedAt: at, ID: 1},
		{Kind: reconciler.StatusKindRefreshing, UpdatedAt: at, ID: 1 << 60},
		{Kind: reconciler.StatusKindDone, UpdatedAt: at},
		{Kind: reconciler.StatusKindError, UpdatedAt: at, Error: ptr(`no "room": left`), ID: 4},
		{Kind: reconciler.StatusKindError, UpdatedAt: at, Error: ptr(""), ID: 5},
	} {
		documents(t, status)
	}
}

// The files that db/insert reads leave out fields.
func TestStatusReadsTerseYAML(t *testing.T) {
	for _, text := range []string{
		"kind: Pending\nid: 3", "kind: \"Done\"", "id: 4", "{kind: Refreshing}", "kind: ''\nerror: 'oops'", "kind: Error\nerror: ~",
	} {
		var s reconciler.Status
		require.NoError(t, yaml.Unmarshal([]byte(text), &s), text)
		documents(t, s)
	}
}

func ptr[T any](v T) *T { return &v }
