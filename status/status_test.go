// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status_test

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/statekeel/statekeel/status"
)

func TestConstructorsSetKindTextTimeAndID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		earlier := now.Add(-time.Hour)
		text := "busy"
		for _, tc := range []struct {
			made  status.Status
			kind  status.Kind
			at    time.Time
			error string
			isNil bool
		}{
			{status.Pending(), status.KindPending, now, "", true},
			{status.Refreshing(), status.KindRefreshing, now, "", true},
			{status.RefreshingAt(earlier), status.KindRefreshing, earlier, "", true},
			{status.Done(), status.KindDone, now, "", true},
			{status.DoneAt(earlier), status.KindDone, earlier, "", true},
			{status.Error(errors.New("no route")), status.KindError, now, "no route", false},
			{status.Error(nil), status.KindError, now, "<nil>", false},
			{status.ErrorText(earlier, &text), status.KindError, earlier, "busy", false},
			{status.ErrorText(earlier, nil), status.KindError, earlier, "", true},
			{status.Blocked("device eth0"), status.KindBlocked, now, "device eth0", false},
			{status.BlockedText(earlier, &text), status.KindBlocked, earlier, "busy", false},
		} {
			assert.Equal(t, tc.kind, tc.made.Kind)
			assert.Equal(t, tc.at, tc.made.UpdatedAt, tc.kind)
			assert.Equal(t, tc.error, tc.made.GetError(), tc.kind)
			assert.Equal(t, tc.isNil, tc.made.Error == nil, tc.kind)
			assert.NotZero(t, tc.made.ID, tc.kind)
			assert.Equal(t, tc.kind == status.KindPending || tc.kind == status.KindRefreshing,
				tc.made.IsPendingOrRefreshing(), tc.kind)
		}
	})
}

func TestIDsAreUniqueAcrossGoroutines(t *testing.T) {
	const goroutines, each = 8, 1000
	ids := make([][]uint64, goroutines)
	var wg sync.WaitGroup
	for g := range ids {
		wg.Go(func() {
			for range each {
				ids[g] = append(ids[g], status.Pending().ID)
			}
		})
	}
	wg.Wait()
	seen := map[uint64]bool{0: true}
	for _, list := range ids {
		for _, id := range list {
			require.False(t, seen[id], "ID %d was given out twice", id)
			seen[id] = true
		}
	}
}

func TestStatusStringSaysKindTextAndAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ago := func(d time.Duration, st status.Status) status.Status {
			st.UpdatedAt = time.Now().Add(-d)
			return st
		}
		// The others are those of the peer.
		for want, st := range map[string]status.Status{
			"Error: <nil> (59.5m ago)":        ago(59*time.Minute+30*time.Second, status.Error(nil)),
			"Blocked: device eth0 (1.0h ago)": ago(time.Hour, status.Blocked("device eth0")),
			"Done (-1.5s ago)":                ago(-1500*time.Millisecond, status.Done()),
			"Kind(9) (0.0us ago)":             {UpdatedAt: time.Now(), Kind: 9},
			"Error:  (0.0us ago)":             status.ErrorText(time.Now(), nil),
			"Done (2562047.8h ago)":           {Kind: status.KindDone},
		} {
			assert.Equal(t, want, st.String())
		}
	})
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

var allKinds = []status.Kind{
	status.KindUnset, status.KindPending, status.KindRefreshing,
	status.KindDone, status.KindError, status.KindBlocked,
}

func TestKindReadsBackAsValueAndAsMapKey(t *testing.T) {
	type document struct {
		Value status.Kind
		Count map[status.Kind]int
	}
	for _, codec := range codecs {
		for _, kind := range allKinds {
			in := document{Value: kind, Count: map[status.Kind]int{kind: 7}}
			data, err := codec.marshal(in)
			require.NoError(t, err, codec)

			out := document{Value: status.KindDone}
			require.NoError(t, codec.unmarshal(data, &out), "%s %s", codec, data)
			assert.Equal(t, in, out, "%s %s", codec, data)
		}
	}
}

func TestUnknownKindWordIsAnErrorThatNamesIt(t *testing.T) {
	for name, unmarshal := range map[string]func(*status.Kind) error{
		"text":      func(k *status.Kind) error { return k.UnmarshalText([]byte("done")) },
		"JSON":      func(k *status.Kind) error { return json.Unmarshal([]byte(`"done"`), k) },
		"YAML":      func(k *status.Kind) error { return yaml.Unmarshal([]byte(`done`), k) },
		"JSON key":  func(*status.Kind) error { return json.Unmarshal([]byte(`{"done":1}`), &map[status.Kind]int{}) },
		"in Status": func(*status.Kind) error { return json.Unmarshal([]byte(`{"kind":"done"}`), &status.Status{}) },
		"in Set":    func(*status.Kind) error { return json.Unmarshal([]byte(`{"a":{"kind":"done"}}`), &status.Set{}) },
	} {
		kind := status.KindError
		assert.ErrorContains(t, unmarshal(&kind), `unknown status kind "done"`, name)
		assert.Equal(t, status.KindError, kind, "%s: a failed read changed the kind", name)
	}
	_, err := status.Kind(6).MarshalText()
	assert.ErrorContains(t, err, "status kind 6")
}
