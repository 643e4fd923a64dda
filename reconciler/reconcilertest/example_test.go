// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest_test

import (
	"math/rand/v2"
	"testing"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// Operations on a target in memory.
func ExampleCheck() {
	_ = func(t *testing.T) {
		reconcilertest.Check(t, reconcilertest.Subject[*entry, *store]{
			Target: func(testing.TB) *store { return &store{data: map[string]string{}} },
			Dump:   (*store).dump,
			Table:  newEntries,
			States: func(*rand.Rand) [][]*entry {
				return [][]*entry{{{"a", []string{"1", "2"}}, {"b", nil}}, {{"a", []string{"2"}}}}
			},
			Config: func(s *store) reconciler.Config[*entry] {
				return reconciler.Config[*entry]{Operations: healthy{s}}
			},
		})
	}
}

// A derivation, and the reconciler of its output.
func ExampleStart() {
	_ = func(e *reconcilertest.Env[*entry], s *store) {
		places := reconciled(e, s) // calls reconcilertest.Start for a table of its own
		each, err := derive.Each(derive.Config[*entry]{DB: e.DB, Registry: e.Registry}, e.Table, places,
			func(row *entry) ([]*entry, error) { return []*entry{{row.Key + "/copy", row.Values}}, nil })
		if err != nil {
			e.Fatal(err)
		}
		e.Cleanup(each.Close)
		reconcilertest.Go(e, each.Run)
	}
}
