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

// costs are the operations of every status write, with their allowed allocations.
func costs() []struct {
	name   string
	allocs float64
	run    func()
} {
	eight := status.NewSet("a", "b", "c", "d", "e", "f", "g", "h")
	seven := eight.Delete("d")
	now, text := time.Now(), "no route"
	done, failed := status.Done(), status.Error(errors.New(text))
	return []struct {
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
		{"Set/Pending", 1, func() { sinkSet = eight.Pending() }},
		{"Set/Pending/names", 1, func() { sinkSet = seven.Pending("d", "a") }},
		{"Set/Delete/unknown", 0, func() { sinkSet = eight.Delete("x") }},
		{"NewSet/8", 1, func() { sinkSet = status.NewSet("a", "b", "c", "d", "e", "f", "g", "h") }},
		{"NewSet/0", 0, func() { sinkSet = status.NewSet() }},
		{"Pending", 0, func() { sinkStatus = status.Pending() }},
		{"DoneAt", 0, func() { sinkStatus = status.DoneAt(now) }},
		{"ErrorText", 0, func() { sinkStatus = status.ErrorText(now, &text) }},
		{"BlockedText", 0, func() { sinkStatus = status.BlockedText(now, &text) }},
		{"Kind/Key", 0, func() { sinkByte = status.KindDone.Key()[0] }},
	}
}

func TestStatusWritesAllocateNoMoreThanTheyMust(t *testing.T) {
	for _, cost := range costs() {
		assert.Equal(t, cost.allocs, testing.AllocsPerRun(100, cost.run), cost.name)
	}
}

func BenchmarkStatus(b *testing.B) {
	for _, cost := range costs() {
		b.Run(cost.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				cost.run()
			}
		})
	}
}

// BenchmarkSetByReconcilers measures what happens to an object when it changes: each of its
// reconcilers reads its status and writes it.
func BenchmarkSetByReconcilers(b *testing.B) {
	names := []string{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"}
	now := time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var set status.Set
		for pb.Next() {
			set = set.Pending()
			for _, name := range names {
				if set.Get(name).IsPendingOrRefreshing() {
					set = set.Set(name, status.DoneAt(now))
				}
			}
			if !set.IsDone() {
				b.Error("a reconciler's status got lost")
			}
		}
	})
}
