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

func TestKinds(t *testing.T) {
	var zero reconciler.StatusKind
	assert.Equal(t, zero, reconciler.StatusKindUnset, "the zero kind is Unset")
	for _, test := range []struct {
		kind   reconciler.StatusKind
		text   string
		key    string
		active bool
	}{
		{reconciler.StatusKindUnset, "", "?", false},
		{reconciler.StatusKindPending, "Pending", "P", true},
		{reconciler.StatusKindRefreshing, "Refreshing", "R", true},
		{reconciler.StatusKindDone, "Done", "D", false},
		{reconciler.StatusKindError, "Error", "E", false},
	} {
		assert.Equal(t, test.text, test.kind.String())
		assert.Equal(t, "<"+test.text+">", fmt.Sprintf("<%s>", test.kind))
		assert.Equal(t, test.text, fmt.Sprint(test.kind))
		assert.Equal(t, test.key, string(test.kind.Key()))
		assert.Equal(t, test.active, reconciler.Status{Kind: test.kind}.IsPendingOrRefreshing(), test.text)

		text, err := json.Marshal(test.kind)
		require.NoError(t, err)
		assert.Equal(t, `"`+test.text+`"`, string(text))
		var back reconciler.StatusKind
		require.NoError(t, json.Unmarshal(text, &back))
		assert.Equal(t, test.kind, back)

		text, err = yaml.Marshal(struct{ Kind reconciler.StatusKind }{test.kind})
		require.NoError(t, err)
		transcript(t, "yaml", string(text))
		var inYAML struct{ Kind reconciler.StatusKind }
		require.NoError(t, yaml.Unmarshal(text, &inYAML))
		assert.Equal(t, test.kind, inYAML.Kind)
	}
}

func TestConstructors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := map[uint64]bool{}
		for _, test := range []struct {
			status reconciler.Status
			kind   reconciler.StatusKind
			err    string
		}{
			{reconciler.StatusPending(), reconciler.StatusKindPending, ""},
			{reconciler.StatusRefreshing(), reconciler.StatusKindRefreshing, ""},
			{reconciler.StatusDone(), reconciler.StatusKindDone, ""},
			{reconciler.StatusError(errors.New("no room")), reconciler.StatusKindError, "no room"},
			{reconciler.StatusError(nil), reconciler.StatusKindError, "<nil>"},
		} {
			assert.Equal(t, test.kind, test.status.Kind)
			assert.Equal(t, test.err, test.status.GetError())
			assert.Equal(t, test.err == "", test.status.Error == nil)
			assert.True(t, time.Now().Equal(test.status.UpdatedAt))
			assert.NotZero(t, test.status.ID)
			assert.False(t, ids[test.status.ID], "each status needs its own ID")
			ids[test.status.ID] = true
		}
	})
}

func TestStatusText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done, failed := reconciler.StatusDone(), reconciler.StatusError(errors.New("no room"))
		var texts []string
		for _, d := range []time.Duration{
			0, 1500 * time.Nanosecond, 2 * time.Millisecond, 3 * time.Second, 4 * time.Minute, 150 * time.Minute, 100 * time.Hour,
		} {
			time.Sleep(d)
			texts = append(texts, done.String(), failed.String())
		}
		assert.Equal(t, "Done (0.0us ago)", texts[0])
		assert.Equal(t, "Error: no room (3.0s ago)", texts[7])
		transcript(t, "texts", fmt.Sprint(texts))
		transcript(t, "others", fmt.Sprint(reconciler.StatusPending(), reconciler.StatusRefreshing(), reconciler.StatusError(nil)))
		transcript(t, "unset", reconciler.Status{UpdatedAt: time.Now()}.String())
	})
}

func TestStatusJSONAndYAML(t *testing.T) {
	at := time.Date(2001, 2, 3, 4, 5, 6, 789000000, time.UTC)
	const stamp = "2001-02-03T04:05:06.789Z"
	for _, test := range []struct {
		status reconciler.Status
		json   string
		yaml   string
	}{
		{
			reconciler.Status{},
			`{"updated-at":"0001-01-01T00:00:00Z","kind":""}`,
			"updated-at: 0001-01-01T00:00:00Z\nkind: \"\"\n",
		}, {
			reconciler.Status{Kind: reconciler.StatusKindPending, UpdatedAt: at, ID: 1},
			`{"updated-at":"` + stamp + `","id":1,"kind":"Pending"}`,
			"updated-at: " + stamp + "\nid: 1\nkind: Pending\n",
		}, {
			reconciler.Status{Kind: reconciler.StatusKindRefreshing, UpdatedAt: at, ID: 1 << 60},
			`{"updated-at":"` + stamp + `","id":1152921504606846976,"kind":"Refreshing"}`,
			"updated-at: " + stamp + "\nid: 1152921504606846976\nkind: Refreshing\n",
		}, {
			reconciler.Status{Kind: reconciler.StatusKindDone, UpdatedAt: at},
			`{"updated-at":"` + stamp + `","kind":"Done"}`,
			"updated-at: " + stamp + "\nkind: Done\n",
		}, {
			reconciler.Status{Kind: reconciler.StatusKindError, UpdatedAt: at, Error: ptr(`no "room": left`), ID: 4},
			`{"updated-at":"` + stamp + `","error":"no \"room\": left","id":4,"kind":"Error"}`,
			"updated-at: " + stamp + "\nerror: 'no \"room\": left'\nid: 4\nkind: Error\n",
		}, {
			reconciler.Status{Kind: reconciler.StatusKindError, UpdatedAt: at, Error: ptr(""), ID: 5},
			`{"updated-at":"` + stamp + `","error":"","id":5,"kind":"Error"}`,
			"updated-at: " + stamp + "\nerror: \"\"\nid: 5\nkind: Error\n",
		},
	} {
		text, err := json.Marshal(test.status)
		require.NoError(t, err)
		assert.Equal(t, test.json, string(text))
		var back reconciler.Status
		require.NoError(t, json.Unmarshal(text, &back))
		assert.Equal(t, test.status, back)

		text, err = yaml.Marshal(test.status)
		require.NoError(t, err)
		assert.Equal(t, test.yaml, string(text))
		back = reconciler.Status{}
		require.NoError(t, yaml.Unmarshal(text, &back))
		assert.Equal(t, test.status, back)
	}
}

// The files that db/insert reads leave out fields.
func TestStatusReadsTerseYAML(t *testing.T) {
	for text, want := range map[string]reconciler.Status{
		"kind: Pending\nid: 3":    {Kind: reconciler.StatusKindPending, ID: 3},
		"kind: \"Done\"":          {Kind: reconciler.StatusKindDone},
		"id: 4":                   {ID: 4},
		"{kind: Refreshing}":      {Kind: reconciler.StatusKindRefreshing},
		"kind: ''\nerror: 'oops'": {Error: ptr("oops")},
		"kind: Error\nerror: ~":   {Kind: reconciler.StatusKindError},
	} {
		var s reconciler.Status
		require.NoError(t, yaml.Unmarshal([]byte(text), &s), text)
		assert.Equal(t, want, s, text)
	}
}

func ptr[T any](v T) *T { return &v }
