// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package demo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/example/managed/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var slow, fast = api.Settings{Remote: "203.0.113.1", Bandwidth: 1}, api.Settings{Remote: "203.0.113.1", Bandwidth: 2}

func tunnel(name, id string, settings api.Settings) api.Tunnel {
	return api.Tunnel{ID: id, Request: api.Request{Name: name, Settings: settings}}
}

func TestMatchingTunnelsAreNoError(t *testing.T) {
	h := holds{
		tunnels: map[string]api.Tunnel{"a": tunnel("a", "1", slow), "b": tunnel("b", "4", fast)},
		audit:   map[string]api.Audit{"a": {Creates: 1, Repeats: 3}, "b": {Creates: 2, Lost: 1}, "c": {Creates: 1, Deletes: 1}},
	}
	w := wanted{"a": slow, "b": fast}
	require.True(t, h.same(w))
	require.NoError(t, h.check(w))
}

func TestDifferencesAreNamed(t *testing.T) {
	h := holds{
		tunnels: map[string]api.Tunnel{"differs": tunnel("differs", "1", slow), "leaked": tunnel("leaked", "2", slow), "twice": tunnel("twice", "3", slow)},
		audit: map[string]api.Audit{
			"differs": {Creates: 1}, "leaked": {Creates: 1}, "twice": {Creates: 2, Deletes: 1}, "missing": {Creates: 1, Deletes: 1},
		},
	}
	w := wanted{"differs": fast, "twice": slow, "missing": slow}
	require.False(t, h.same(w))
	require.EqualError(t, h.check(w), strings.Join([]string{
		`"differs" is {Remote:203.0.113.1 Bandwidth:1 Left:false}, wanted {Remote:203.0.113.1 Bandwidth:2 Left:false}`,
		`"leaked" (2) was leaked`,
		`"leaked" was deleted 0 times, not 1`,
		`"missing" is missing`,
		`"missing" was deleted 1 times, not 0`,
		`"twice" was created 2 times, and lost 0 times`,
		`"twice" was deleted 1 times, not 0`,
	}, "\n"))
}
