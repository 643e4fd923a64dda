// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// All mistakes of a subject are reported together, each with the name of its field.
func TestMistakesOfASubjectAreNamed(t *testing.T) {
	s := Subject[*int, int]{
		Config: func(int) reconciler.Config[*int] { return reconciler.Config[*int]{} },
		Start:  func(*Env[*int], int) {}, Runs: -1, Timeout: -time.Second, Without: []string{"fire"},
		Further: []Further{nil, Rows[*int]{States: func(*rand.Rand) [][]*int { return nil }}},
	}
	err := s.validate()
	for _, says := range []string{
		"Subject lacks Dump, States, Table, Target",
		"Subject has both Config and Start",
		"Subject.Runs is -1, to be at least 0",
		"Subject.Timeout is -1s, to be at least 0",
		"Subject has both Further and Config: start the reconcilers of all tables in Start",
		"Subject.Further[0] is nil",
		"Subject.Further[1] lacks Table",
		`Subject.Without: there is no fault "fire"`,
	} {
		require.ErrorContains(t, err, says)
	}
}

func TestTablesOfASubjectHaveAsManyStates(t *testing.T) {
	states := func(n int) func(*rand.Rand) [][]*int { return func(*rand.Rand) [][]*int { return make([][]*int, n) } }
	for n, says := range map[int]string{
		0: "Subject.States returns no state",
		2: "Subject.Further[0].States returns 3 states, and Subject.States 2: each needs as many",
	} {
		s := Subject[*int, int]{States: states(n), Further: []Further{Rows[*int]{States: states(3)}}}
		_, err := s.tables()
		require.EqualError(t, err, says)
	}
	s := Subject[*int, int]{States: states(3), Further: []Further{Rows[*int]{States: states(3)}}}
	_, err := s.tables()
	require.NoError(t, err)
}
