// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inputs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/inputs"
)

func TestRowsCountFromTheRoundThatWroteThem(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	var o inputs.Origins
	require.False(t, known(&o, 1))
	require.False(t, known(nil, 1))
	o.Note(0, at(1))
	o.Note(5, at(2))
	o.Note(5, at(3)) // the round before has written nothing
	for revision, want := range map[uint64]int{1: 1, 5: 1, 6: 3, 100: 3} {
		got, is := o.Of(revision)
		require.True(t, is)
		require.Equal(t, at(want), got, revision)
	}
	for i := range 1000 {
		o.Note(uint64(10+i), at(10+i))
	}
	require.False(t, known(&o, 10), "it is too old")
	got, _ := o.Of(1000)
	require.Equal(t, at(999), got)
}

func known(o *inputs.Origins, revision uint64) bool {
	_, is := o.Of(revision)
	return is
}
