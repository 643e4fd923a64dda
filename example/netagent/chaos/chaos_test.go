// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// target only counts, and returns err.
type target[S desired.Spec] struct {
	done int
	err  error
}

func (t *target[S]) Update(context.Context, statedb.ReadTxn, statedb.Revision, *desired.Row[S]) error {
	t.done++
	return t.err
}

func (t *target[S]) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *desired.Row[S]) error {
	t.done++
	return t.err
}

func (t *target[S]) List(context.Context, statedb.ReadTxn, func(*desired.Row[S]) bool) error {
	t.done++
	return t.err
}

// nth returns a name whose first call has the given mishap, and the delay if that is late.
func nth(t *testing.T, c *Chaos, want mishap) (name string, delay time.Duration) {
	for i := range 10_000 {
		name := fmt.Sprint(i)
		if what, delay := New(c.percent, c.seed, "").decide(name); what == want {
			return name, delay
		}
	}
	require.Fail(t, "this mishap never comes", "%d", want)
	return "", 0
}

func TestMishapsFailAsDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(50, 1, "")
		boom := errors.New("boom")
		for _, test := range []struct {
			what         mishap
			err          error // of the wrapped operation
			want         error
			done, panics bool
		}{
			{what: none, done: true},
			{what: none, err: boom, want: boom, done: true},
			{what: before, want: errBefore},
			{what: before, err: boom, want: errBefore},
			{what: after, want: errAfter, done: true},
			{what: after, err: boom, want: boom, done: true},
			{what: late, done: true},
			{what: late, err: boom, want: boom, done: true},
			{what: panics, done: true, panics: true},
		} {
			name, delay := nth(t, c, test.what)
			delete(c.calls, name)
			began, done := time.Now(), false
			call := func() {
				err := c.do(t.Context(), name, func() error { done = true; return test.err })
				assert.Equal(t, test.want, err, "%v", test)
			}
			if test.panics {
				assert.PanicsWithValue(t, "chaos: panics at "+name+", and did it all", call)
			} else {
				call()
			}
			assert.Equal(t, test.done, done, "%v", test)
			if test.what != late {
				delay = 0
			}
			assert.Equal(t, delay, time.Since(began), "%v", test)
		}
	})
}

func TestLateOperationEndsWithItsContext(t *testing.T) {
	c := New(50, 1, "")
	name, _ := nth(t, c, late)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := c.do(ctx, name, func() error { require.Fail(t, "it is too late for that"); return nil })
	assert.ErrorIs(t, err, context.Canceled)
}

func TestPercentageOfMishapsIsRespected(t *testing.T) {
	for _, percent := range []float64{0, 0.5, 30, 100} {
		c := New(percent, 42, "")
		count := make(map[mishap]int)
		const calls = 20_000
		for i := range calls {
			what, delay := c.decide(fmt.Sprint(i % 100))
			count[what]++
			assert.True(t, delay >= 0 && delay < maxDelay)
		}
		assert.InDelta(t, percent, 100*float64(calls-count[none])/calls, 1)
		if percent == 0 || percent == 100 {
			assert.Equal(t, percent == 0, count[none] == calls)
			assert.Equal(t, percent == 100, count[none] == 0)
		}
		if percent == 100 {
			assert.InDelta(t, 0.4*calls, count[before], 400)
			assert.InDelta(t, 0.4*calls, count[after], 400)
			assert.InDelta(t, 0.15*calls, count[late], 400)
			assert.InDelta(t, 0.05*calls, count[panics], 400)
		}
	}
}

func TestSameSeedGivesSameMishapsInAnyOrder(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	decide := func(seed uint64, order []string) map[string][]mishap {
		c := New(50, seed, "")
		all := make(map[string][]mishap)
		for range 20 {
			for _, name := range order {
				what, _ := c.decide(name)
				all[name] = append(all[name], what)
			}
		}
		return all
	}
	reversed := slices.Clone(names)
	slices.Reverse(reversed)
	assert.Equal(t, decide(1, names), decide(1, reversed))
	assert.NotEqual(t, decide(1, names), decide(2, names))
	assert.NotEqual(t, decide(1, names)["a"], decide(1, names)["b"])
}

func TestAllKindsOfOperationsGoWrong(t *testing.T) {
	links, addresses := &target[config.Link]{}, &target[config.Address]{}
	routes, sysctls := &target[config.Route]{}, &target[config.Sysctl]{}
	c := New(30, 7, "")
	wrapped := c.Target(desired.Target{Links: links, Addresses: addresses, Routes: routes, Sysctls: sysctls})
	const calls = 100
	failures := 0
	count := func(operation func() error) {
		defer func() {
			if recover() != nil {
				failures++
			}
		}()
		if operation() != nil {
			failures++
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		for range calls {
			count(func() error { return wrapped.Links.Update(ctx, nil, 1, &desired.Link{}) })
			count(func() error { return wrapped.Addresses.Delete(ctx, nil, 1, &desired.Address{}) })
			count(func() error { return wrapped.Routes.List(ctx, nil, nil) })
			count(func() error { return wrapped.Sysctls.Update(ctx, nil, 1, &desired.Sysctl{}) })
		}
	})
	for _, done := range []int{links.done, addresses.done, routes.done, sysctls.done} {
		assert.Less(t, done, calls, "some operations were skipped")
		assert.Greater(t, done, calls/2)
	}
	assert.InDelta(t, 0.3*0.85*4*calls, failures, 40)
}
