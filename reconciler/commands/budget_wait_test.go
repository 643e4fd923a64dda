// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// escaped is an error text that is six times as long in JSON.
var escaped = strings.Repeat("\x01", reconciler.MaxErrorText)

func TestUnappliedListsAreBoundedInBytes(t *testing.T) {
	for _, text := range []string{large, escaped} {
		r := routes()
		for i := range 100 {
			r.Rest.Keys = append(r.Rest.Keys, inspect.Unreconciled{Key: fmt.Append(nil, "route-", i), Err: errors.New(text)})
		}
		s := newShell(t, r)
		out, err := s.run("reconciler/wait agent --format=json")
		require.NoError(t, err)
		require.Less(t, len(out), maxAnswer)
		var w struct {
			Unapplied []string
			More      int
		}
		require.NoError(t, json.Unmarshal([]byte(out), &w))
		require.NotEmpty(t, w.Unapplied)
		require.Equal(t, 100, len(w.Unapplied)+w.More)
		out, err = s.run("reconciler/wait agent")
		require.NoError(t, err)
		require.Less(t, len(out), maxAnswer)
		require.Regexp(t, `(?m)^and \d+ more$`, out)
	}
}

func TestReconcilerListCutsEveryText(t *testing.T) {
	r := routes()
	r.Shown.PruneFailure, r.Shown.Breaker = large, large
	out, err := newShell(t, r).run("reconciler --format=json")
	require.NoError(t, err)
	require.Less(t, len(out), 1<<14)
	require.Len(t, r.Shown.Breaker, len(large))
}
