// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// remembering are the operations of docs/testing.md with the bug that the page tells of: how many slots there are is
// remembered, and forgotten at a restart.
type remembering struct {
	*store
	had map[string]int
}

func (o *remembering) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	for i, v := range e.Values {
		if err := o.set(ctx, fmt.Sprintf("%s/%d", e.Key, i), v); err != nil {
			return err
		}
	}
	return o.trim(ctx, e.Key, len(e.Values))
}

func (o *remembering) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	return o.trim(ctx, e.Key, 0)
}

func (o *remembering) trim(ctx context.Context, key string, n int) error {
	for i := n; i < o.had[key]; i++ {
		if err := o.remove(ctx, fmt.Sprintf("%s/%d", key, i)); err != nil {
			return err
		}
	}
	o.had[key] = n
	return nil
}

func (o *remembering) Prune(ctx context.Context, _ statedb.ReadTxn, entries iter.Seq2[*entry, statedb.Revision]) error {
	wanted := map[string]bool{}
	for e := range entries {
		wanted[e.Key] = true
	}
	for key := range o.dump() {
		if name, _, _ := strings.Cut(key, "/"); !wanted[name] {
			if err := o.remove(ctx, key); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestThePageShowsTheReport(t *testing.T) {
	s := subject(func(s *store) reconciler.Operations[*entry] { return &remembering{s, map[string]int{}} })
	s.States = func(*rand.Rand) [][]*entry {
		return [][]*entry{{{"a", []string{"A", "B"}}, {"b", []string{"A"}}}, {{"a", []string{"B"}}, {"b", []string{"A"}}}}
	}
	failure := check.Expect(t, "", func() { reconcilertest.Check(t, s) })
	require.NotNil(t, failure)
	t.Log(failure.Text)
	page, err := os.ReadFile("../../docs/testing.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "\n```\n"+failure.Text+"\n```\n")
}
