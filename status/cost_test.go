// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/statekeel/statekeel/status"
)

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
