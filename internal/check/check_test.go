// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package check_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/check"
)

// randomPlan returns a plan for three states.
func randomPlan(r *rand.Rand) (p check.Plan) {
	for range 1 + r.IntN(4) {
		p.Steps = append(p.Steps, check.Step{State: r.IntN(4) - 1, Reversed: r.IntN(3) == 0, Squashed: r.IntN(3) == 0})
	}
	points := []string{"update a", `update "b", set x; y`, "prune at 2", "delete \n"}
	for range r.IntN(3) {
		f := check.Fault{Kind: check.Kind(r.IntN(len(check.Names()))), Point: points[r.IntN(len(points))], N: 1 + r.IntN(20)}
		if f.Kind == check.Outside {
			f.Outside = points[r.IntN(len(points))]
		}
		p.Faults = append(p.Faults, f)
	}
	return p
}

func TestAPlanIsReadAsItIsWritten(t *testing.T) {
	for seed := range uint64(2000) {
		p := randomPlan(rand.New(rand.NewPCG(seed, 0)))
		read, err := check.Parse(p.String(), 3)
		require.NoError(t, err, p)
		require.Equal(t, p, read, p.String())
	}
}

func TestAPlanWithAMistakeIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                                  "no state",
		"; error at \"a\" 1":                "no state",
		"0 3":                               `"3" is no state`,
		"x":                                 `"x" is no state`,
		"0; mistake at \"a\" 1":             "does not begin with a kind of fault",
		"0; error":                          "does not begin with a kind of fault",
		"0; error at a 1":                   "does not begin with a quoted text",
		"0; error at \"a\" one":             "the number of the point",
		"0; change from outside at \"a\" 1": "does not begin with a quoted text",
	} {
		_, err := check.Parse(text, 3)
		require.ErrorContains(t, err, says, text)
	}
}

func TestNoWayIsRepeated(t *testing.T) {
	for states := 1; states <= 5; states++ {
		seen := map[string]bool{}
		for i, way := range check.Ways(states) {
			text := check.Plan{Steps: way}.String()
			require.False(t, seen[text], text)
			seen[text] = true
			require.False(t, way[len(way)-1].Squashed, text)
			if i == 0 {
				require.Len(t, way, states)
			}
		}
		for s := range states {
			require.True(t, seen[fmt.Sprint(s)])
		}
	}
}

func TestEachKindOfWayCanBeLeftOut(t *testing.T) {
	for _, name := range check.WayNames() {
		require.Less(t, len(check.Ways(3, name)), len(check.Ways(3)), name)
	}
}

// A plan fails if a fault comes after a state that it needs.
func TestMinimiseKeepsWhatTheFailureNeeds(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 0))
		p := randomPlan(r)
		for range 5 {
			p.Steps = append(p.Steps, randomPlan(r).Steps...)
			p.Faults = append(p.Faults, randomPlan(r).Faults...)
		}
		state := p.Steps[r.IntN(len(p.Steps))].State
		needed := p.Faults[:min(1, len(p.Faults))]
		fails := func(p check.Plan) bool {
			return slices.ContainsFunc(p.Steps, func(s check.Step) bool { return s.State == state }) &&
				(len(needed) == 0 || slices.Contains(p.Faults, needed[0]))
		}
		text := p.String()
		less := check.Minimise(p, fails)
		require.Equal(t, check.Plan{Steps: []check.Step{{State: state}}, Faults: less.Faults}, less)
		require.Len(t, less.Faults, len(needed))
		require.True(t, fails(less))
		require.Equal(t, text, p.String(), "the plan that was given is changed")
	}
}

type inner struct {
	Values map[string][]int
	any    any
	next   *inner
}

type row struct {
	Name   string
	number int
	inner  *inner
	by     map[inner2]*inner
	float  float64
	mu     sync.Mutex
	count  atomic.Int64
	f      func()
	c      chan int
}

type inner2 struct{ a, b uint8 }

func newRow() *row {
	return &row{
		Name: "a", number: 1, float: 1.5, by: map[inner2]*inner{{1, 2}: {any: 1}, {2, 1}: {any: 2}},
		inner: &inner{Values: map[string][]int{"x": {1, 2}, "y": nil}, any: "s", next: &inner{any: true}},
	}
}

func TestTheHashChangesWithEachField(t *testing.T) {
	for i, change := range []func(r *row){
		func(r *row) { r.Name = "b" },
		func(r *row) { r.number++ },
		func(r *row) { r.float = -r.float },
		func(r *row) { r.inner.Values["x"][1]++ },
		func(r *row) { r.inner.Values["z"] = nil },
		func(r *row) { r.inner.Values["y"] = []int{0} },
		func(r *row) { delete(r.inner.Values, "y") },
		func(r *row) { r.inner.any = 's' },
		func(r *row) { r.inner.next.any = false },
		func(r *row) { r.inner.next = nil },
		func(r *row) { r.by[inner2{1, 2}].any = 3 },
		func(r *row) { r.by[inner2{1, 2}], r.by[inner2{2, 1}] = r.by[inner2{2, 1}], r.by[inner2{1, 2}] },
		func(r *row) { r.inner.next = r.inner },
	} {
		r := newRow()
		before := check.Hash(r)
		require.Equal(t, before, check.Hash(r))
		change(r)
		require.NotEqual(t, before, check.Hash(r), "change %d", i)
	}
}

func TestTheHashIgnoresLocksFunctionsAndChannels(t *testing.T) {
	r := newRow()
	before := check.Hash(r)
	r.mu.Lock()
	r.count.Add(1)
	r.f, r.c = func() {}, make(chan int)
	require.Equal(t, before, check.Hash(r))
	r.mu.Unlock()
}

// With more plans than runs, no kind of fault at no point is left out for the sake of one that comes often.
func TestEachKindOfFaultComesAtEachPoint(t *testing.T) {
	var calls []check.Call
	for n := range 60 {
		p := check.Point{Class: check.Operation, Name: "update often", N: n + 1}
		if n%6 == 5 {
			p.Name, p.N = fmt.Sprintf("update %d", n), 1
		}
		calls = append(calls, check.Call{Point: p})
	}
	type place struct {
		kind  check.Kind
		point string
	}
	seen := map[place]bool{}
	want := 11 * (len(check.Operation.Kinds()) - 1) // a rewrite needs another state
	require.Nil(t, check.Find(&check.Subject{
		States: 1, Runs: want, Logf: t.Logf, Name: func(int) string { return "" },
		Run: func(p check.Plan) *check.Record {
			for _, f := range p.Faults {
				seen[place{f.Kind, f.Point}] = true
			}
			return &check.Record{Journal: [][]check.Call{calls}}
		},
	}))
	require.Len(t, seen, want)
}
