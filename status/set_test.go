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

// Sinks for results, so that the compiler does not remove the calls.
var (
	sinkSet    status.Set
	sinkStatus status.Status
	sinkBool   bool
	sinkByte   byte
)

func TestStatusWritesAllocateNoMoreThanTheyMust(t *testing.T) {
	eight := status.NewSet("a", "b", "c", "d", "e", "f", "g", "h")
	seven := eight.Delete("d")
	now, text := time.Now(), "no route"
	done, failed := status.Done(), status.Error(errors.New(text))
	for _, cost := range []struct {
		name   string
		allocs float64
		run    func()
	}{
		{"Set/change", 1, func() { sinkSet = eight.Set("h", done) }},
		{"Set/error", 1, func() { sinkSet = eight.Set("a", failed) }},
		{"Set/add", 1, func() { sinkSet = seven.Set("d", done) }},
		{"Set/first", 1, func() { sinkSet = status.Set{}.Set("a", done) }},
		{"Set/Get", 0, func() { sinkStatus = eight.Get("h") }},
		{"Set/Get/unknown", 0, func() { sinkStatus = eight.Get("x") }},
		{"Set/IsDone", 0, func() { sinkBool = eight.IsDone() }},
		{"Set/IsPendingOrRefreshing", 0, func() { sinkBool = eight.IsPendingOrRefreshing() }},
		{"Set/Pending/names", 1, func() { sinkSet = seven.Pending("d", "a") }},
		{"Set/Delete/unknown", 0, func() { sinkSet = eight.Delete("x") }},
		{"NewSet/8", 1, func() { sinkSet = status.NewSet("a", "b", "c", "d", "e", "f", "g", "h") }},
		{"NewSet/0", 0, func() { sinkSet = status.NewSet() }},
		{"Pending", 0, func() { sinkStatus = status.Pending() }},
		{"DoneAt", 0, func() { sinkStatus = status.DoneAt(now) }},
		{"ErrorText", 0, func() { sinkStatus = status.ErrorText(now, &text) }},
		{"BlockedText", 0, func() { sinkStatus = status.BlockedText(now, &text) }},
		{"Kind/Key", 0, func() { sinkByte = status.KindDone.Key()[0] }},
	} {
		assert.Equal(t, cost.allocs, testing.AllocsPerRun(100, cost.run), cost.name)
	}
}

func TestPendingMakesANewID(t *testing.T) {
	set := status.NewSet().Pending("a")
	require.NotEqual(t, set.Get("a").ID, set.Pending().Get("a").ID)
}
