// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package follow_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/follow"
)

type change = statedb.Change[string]

var errNo = errors.New("no")

func at(revision statedb.Revision) change {
	return change{Object: fmt.Sprint("version ", revision), Revision: revision}
}

func TestErrorsOfTheOldestFailuresAreNamed(t *testing.T) {
	k := follow.NewKept[string]()
	for i := range 12 {
		k.Keep(fmt.Sprint(i), at(statedb.Revision(i)), fmt.Errorf("error %02d", i), 0, time.Duration(100-i))
	}
	err := k.Errors()
	require.ErrorContains(t, err, "error 00\nerror 01\n")
	require.ErrorContains(t, err, "error 09\n2 further errors omitted")
	k.Forget("0", 100)
	err = k.Errors()
	require.NotContains(t, err.Error(), "error 00")
	require.ErrorContains(t, err, "error 10\n1 further errors omitted")
}

func TestLongestWaitDoesNotOverflow(t *testing.T) {
	require.EqualValues(t, 30, follow.After(10, 20))
	require.EqualValues(t, math.MaxInt64, follow.After(10, math.MaxInt64))
	k := follow.NewKept[string]()
	k.Keep("a", at(1), errNo, 10, follow.After(10, math.MaxInt64))
	require.True(t, k.Supersede("a", at(2), math.MaxInt64))
	require.Empty(t, k.TakeDue(math.MaxInt64-1, 1))
}

// There is at most one kept change for a row, the last that was kept or superseded it, and it is due
// at the time that was given for it.
func TestRandomWalkOfKeptChanges(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	type model struct {
		change    change
		last, due time.Duration
		waits     bool
		failures  int
	}
	k, want := follow.NewKept[string](), map[string]*model{}
	var now time.Duration
	for revision := range statedb.Revision(20_000) {
		now += time.Duration(dice.IntN(5))
		key := fmt.Sprint(dice.IntN(20))
		m := want[key]
		switch dice.IntN(4) {
		case 0:
			if m == nil {
				m = &model{}
				want[key] = m
			}
			m.change, m.last, m.due, m.waits = at(revision), now, now+time.Duration(dice.IntN(30)), true
			m.failures++
			k.Keep(key, m.change, errNo, now, m.due)
		case 1:
			waits := m != nil && m.waits
			require.Equal(t, waits, k.Supersede(key, at(revision), 7))
			if waits {
				m.change, m.due = at(revision), m.last+7
			}
		case 2:
			most := dice.IntN(5)
			taken := k.TakeDue(now, most)
			require.LessOrEqual(t, len(taken), most)
			last := time.Duration(0)
			for _, c := range taken {
				found := false
				for _, m := range want {
					if m.change == c {
						require.True(t, m.waits && m.due <= now && m.due >= last)
						m.waits, found, last = false, true, m.due
					}
				}
				require.True(t, found)
			}
		default:
			dealt := statedb.Revision(dice.Uint64N(revision + 1))
			if m != nil && dice.IntN(2) == 0 {
				dealt = m.change.Revision
			}
			if m != nil && (m.change.Revision < dealt || m.change.Revision == dealt && !m.waits) {
				delete(want, key)
			}
			k.Forget(key, dealt)
		}
		require.Equal(t, len(want), k.Len())
		next, waits := time.Duration(math.MaxInt64), false
		for key, m := range want {
			require.Equal(t, m.failures, k.Failures(key))
			if m.waits {
				next, waits = min(next, m.due), true
			}
		}
		due, ok := k.NextDue()
		require.Equal(t, waits, ok)
		if waits {
			require.Equal(t, next, due)
		}
		require.Equal(t, len(want) > 0, k.Errors() != nil)
	}
}
