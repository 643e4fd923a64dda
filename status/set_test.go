// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status_test

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/statekeel/statekeel/status"
)

// cilium/statedb#185: a set counted as done as soon as one of its reconcilers had reported.
func TestSetIsNotDoneBeforeEveryRequiredReconcilerHasReported(t *testing.T) {
	set := status.NewSet("device", "route")
	assert.False(t, set.IsDone())

	set = set.Set("device", status.Done())
	assert.False(t, set.IsDone(), "route has not reported")
	assert.Contains(t, set.String(), "Pending: route, Done: device")

	set = set.Set("route", status.Done())
	assert.True(t, set.IsDone())

	set = set.Set("sysctl", status.Pending())
	assert.False(t, set.IsDone(), "sysctl was required later")
	assert.True(t, set.Delete("sysctl").IsDone(), "sysctl is not required any more")
}

func TestSetIsDoneOnlyIfAllItsEntriesAre(t *testing.T) {
	assert.True(t, status.Set{}.IsDone(), "nothing is required")
	assert.False(t, status.Set{}.IsPendingOrRefreshing())
	for _, kind := range allKinds {
		set := status.NewSet().Set("a", status.Done()).Set("b", status.Status{Kind: kind})
		assert.Equal(t, kind == status.KindDone, set.IsDone(), kind)
		assert.Equal(t, kind == status.KindPending || kind == status.KindRefreshing, set.IsPendingOrRefreshing(), kind)
	}
}

func TestNewSetHasPendingEntriesWithOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := status.NewSet("b", "a", "b")
		all := maps.Collect(set.All())
		assert.Len(t, all, 2)
		for name, st := range all {
			assert.Equal(t, status.KindPending, st.Kind, name)
			assert.Equal(t, set.Get("unknown"), st, name)
			assert.True(t, time.Now().Equal(st.UpdatedAt), name)
			assert.NotZero(t, st.ID, name)
		}
		assert.NotEqual(t, set.Get("a").ID, status.NewSet("a").Get("a").ID)
	})
}

func TestPendingSetHasFreshIDAndNoErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := status.NewSet("a").Set("b", status.Error(errors.New("full")))
		time.Sleep(time.Minute)
		set := old.Pending("c", "a", "c")

		want := set.Get("unknown")
		assert.Equal(t, status.KindPending, want.Kind)
		assert.Nil(t, want.Error)
		assert.True(t, time.Now().Equal(want.UpdatedAt))
		for _, id := range []uint64{0, old.Get("unknown").ID, old.Get("a").ID, old.Get("b").ID} {
			assert.NotEqual(t, id, want.ID)
		}
		assert.Equal(t, map[string]status.Status{"a": want, "b": want, "c": want}, maps.Collect(set.All()))
	})
}

func TestDeleteForgetsWhatWasReported(t *testing.T) {
	set := status.NewSet("a", "b").Set("c", status.Error(errors.New("full")))
	less := set.Delete("c").Delete("a").Delete("unknown")
	assert.Equal(t, map[string]status.Status{"b": set.Get("b")}, maps.Collect(less.All()))
	assert.Equal(t, set.Get("unknown"), less.Get("c"))
	assert.Equal(t, set, set.Delete("unknown"))
	assert.Equal(t, "Pending", less.Delete("b").String())
	assert.Len(t, maps.Collect(less.Pending().All()), 1, "a deleted name is not required again")
}

func TestAllYieldsInTheOrderOfNamesUntilTold(t *testing.T) {
	set := status.NewSet("c", "a", "b")
	var names []string
	for name := range set.All() {
		if names = append(names, name); len(names) == 2 {
			break
		}
	}
	assert.Equal(t, []string{"a", "b"}, names)
}

func TestZeroSetIsUsable(t *testing.T) {
	var set status.Set
	assert.Equal(t, status.Status{Kind: status.KindPending}, set.Get("a"))
	assert.Equal(t, "Pending", set.String())
	assert.Equal(t, map[string]status.Status{}, maps.Collect(set.All()))
	assert.Equal(t, map[string]status.Status{"a": {Kind: status.KindPending}}, maps.Collect(set.Set("a", set.Get("a")).All()))
	assert.Equal(t, set, set.Delete("a"))
	assert.NotZero(t, set.Pending().Get("a").ID)
	assert.Equal(t, status.KindDone, set.Set("a", status.Done()).Get("a").Kind)
}

// Sets derived from one Set, in both directions, must not share memory.
func TestSetsDerivedFromOneDoNotShareEntries(t *testing.T) {
	base := status.NewSet("b")
	before := base.Get("b")

	one := base.Set("c", status.Done())
	two := base.Set("c", status.Error(errors.New("two")))
	three := base.Set("b", status.Done())
	four := one.Set("c", status.Blocked("four"))

	assert.Equal(t, map[string]status.Status{"b": before}, maps.Collect(base.All()))
	assert.Equal(t, status.KindDone, one.Get("c").Kind)
	assert.Equal(t, "two", two.Get("c").GetError())
	assert.Equal(t, status.KindDone, three.Get("b").Kind)
	assert.Equal(t, before, one.Get("b"))
	assert.Equal(t, "four", four.Get("c").GetError())
}

func TestSetStringPutsTheWorstFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(ago time.Duration, kind status.Kind, text string) status.Status {
			return status.Status{Kind: kind, UpdatedAt: time.Now().Add(-ago), Error: &text}
		}
		set := status.NewSet().
			Set("g", at(time.Hour, status.KindDone, "")).
			Set("f", at(time.Second, status.KindDone, "")).
			Set("e", at(time.Hour, status.KindUnset, "")).
			Set("d", at(time.Hour, status.KindPending, "")).
			Set("h", at(time.Hour, status.KindRefreshing, "")).
			Set("c", at(time.Hour, status.KindBlocked, "eth0")).
			Set("b", at(time.Hour, status.KindError, "full")).
			Set("a", at(time.Hour, status.KindError, "busy"))
		assert.Equal(t, "Errored: a (busy) b (full), Blocked: c (eth0), Pending: d e h, Done: f g (1.0s ago)", set.String())
		assert.Equal(t, "Blocked: c (eth0) (1.0h ago)", set.Delete("a").Delete("b").Delete("d").Delete("e").Delete("f").Delete("g").Delete("h").String())
	})
}

func TestSetKeepsTimesToTheNanosecond(t *testing.T) {
	for _, tc := range []struct{ in, out time.Time }{
		{time.Time{}, time.Time{}},
		{time.Unix(0, 0), time.Unix(0, 0)},
		{time.Unix(-1, 1), time.Unix(-1, 1)},
		{time.Unix(1e9, 123456789).UTC(), time.Unix(1e9, 123456789)},
		{time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Unix(0, math.MinInt64+1)},
		{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, math.MaxInt64)},
	} {
		st := status.DoneAt(tc.in)
		got := status.NewSet().Set("a", st).Get("a")
		assert.Equal(t, tc.out, got.UpdatedAt)
		assert.Equal(t, st.ID, got.ID)
		assert.Equal(t, st.Kind, got.Kind)
	}
}

func TestSetStaysSmall(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(status.Set{}), uintptr(48))
}

func TestSetTextIsAMapOfStatuses(t *testing.T) {
	set := status.Set{}.
		Set("b", status.Status{Kind: status.KindDone, UpdatedAt: time.Time{}, ID: 4}).
		Set("a", status.Status{Kind: status.KindPending})

	data, err := json.Marshal(set)
	require.NoError(t, err)
	assert.Equal(t, `{"a":{"updated-at":"0001-01-01T00:00:00Z","kind":"Pending"},`+
		`"b":{"updated-at":"0001-01-01T00:00:00Z","id":4,"kind":"Done"}}`, string(data))

	data, err = yaml.Marshal(set)
	require.NoError(t, err)
	assert.Equal(t, "a:\n    updated-at: 0001-01-01T00:00:00Z\n    kind: Pending\n"+
		"b:\n    updated-at: 0001-01-01T00:00:00Z\n    id: 4\n    kind: Done\n", string(data))
}

func TestSetThatWasReadHasAnIDOfItsOwn(t *testing.T) {
	for name, read := range map[string]func(*status.Set) error{
		"JSON": func(s *status.Set) error { return json.Unmarshal([]byte(`{}`), s) },
		"YAML": func(s *status.Set) error { return yaml.Unmarshal([]byte(`{}`), s) },
	} {
		var one, two status.Set
		require.NoError(t, read(&one), name)
		require.NoError(t, read(&two), name)
		assert.NotZero(t, one.Get("a").ID, name)
		assert.NotZero(t, one.Get("a").UpdatedAt, name)
		assert.NotEqual(t, one.Get("a").ID, two.Get("a").ID, name)
	}
}

func TestNullAndBrokenTextLeaveASetAsItWas(t *testing.T) {
	set := status.NewSet("a").Set("b", status.Done())
	was, copied := maps.Collect(set.All()), set

	require.NoError(t, json.Unmarshal([]byte(`null`), &set))
	assert.Equal(t, was, maps.Collect(set.All()))
	assert.Error(t, json.Unmarshal([]byte(`{"a":{"kind":"Done"},"b":1}`), &set))
	assert.Equal(t, was, maps.Collect(set.All()))
	assert.Error(t, yaml.Unmarshal([]byte(`[a, b]`), &set))
	assert.Equal(t, was, maps.Collect(set.All()))

	require.NoError(t, json.Unmarshal([]byte(`{"c":{"kind":"Done"}}`), &set))
	assert.True(t, set.IsDone())
	assert.Equal(t, was, maps.Collect(copied.All()), "reading changed a copy")
}
