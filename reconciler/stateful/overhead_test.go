// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/stateful"
)

// BenchmarkOverhead measures the cost of an update without the costs of extracting and applying,
// for a new object, one with a changed state, and one with the same state.
func BenchmarkOverhead(b *testing.B) {
	records := func(n int) [][]string {
		out := make([][]string, 2)
		for i := range n {
			out[0] = append(out[0], fmt.Sprintf("192.0.2.%d", i))
			out[1] = append(out[1], fmt.Sprintf("192.0.2.%d", i+1))
		}
		return out
	}
	for _, n := range []int{1, 3, 30} {
		states := records(n)
		b.Run(fmt.Sprintf("new/items=%d", n), func(b *testing.B) {
			bare := newBare(b)
			zones := make([]*zone, b.N)
			for i := range zones {
				zones[i] = named(fmt.Sprintf("zone%d", i), states[0]...)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for _, z := range zones {
				if err := bare.Update(b.Context(), nil, 0, z); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("changed/items=%d", n), func(b *testing.B) {
			bare, z := newBare(b), named("web")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				z.Records = states[i%2]
				if err := bare.Update(b.Context(), nil, 0, z); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("same/items=%d", n), func(b *testing.B) {
			bare, z := newBare(b), named("web", states[0]...)
			b.ReportAllocs()
			for b.Loop() {
				if err := bare.Update(b.Context(), nil, 0, z); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAnUnchangedStateDoesNotAllocate(t *testing.T) {
	ops, z := newBare(t), named("web", "a", "b", "c")
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := ops.Update(ctx, nil, 0, z); err != nil {
			t.Error(err)
		}
	}))
}

func newBare(tb testing.TB) reconciler.Operations[*zone] {
	cfg, err := stateful.Configure(reconciler.Config[*zone]{
		Clone: (*zone).Clone, SetStatus: (*zone).SetStatus, GetStatus: (*zone).GetStatus,
	}, bare{})
	require.NoError(tb, err)
	return cfg.Operations
}

// bare has a target that already has everything.
type bare struct{ stateful.SetDiff[string] }

func (bare) GetStateAnnotationKey() string                         { return annotation }
func (bare) ExtractCurrentState(z *zone) ([]string, error)         { return z.Records, nil }
func (bare) ApplyOperations(context.Context, *zone, changes) error { return nil }
