// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package text_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/text"
)

func TestCutTextShowsHowMuchWasLeftOut(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("é", 32), strings.Repeat("x", 1024), strings.Repeat("é", 1<<20), strings.Repeat("\xa9", 100)} {
		for _, most := range []int{64, 65, 1024} {
			cut := text.Cut(s, most)
			require.LessOrEqual(t, len(cut), most)
			if len(s) <= most {
				require.Equal(t, s, cut)
				continue
			}
			at, left := strings.LastIndex(cut, "... ("), 0
			_, err := fmt.Sscanf(cut[at:], "... (%d bytes left out)", &left)
			require.NoError(t, err)
			require.Equal(t, len(s), at+left)
			require.Equal(t, utf8.ValidString(s), utf8.ValidString(cut))
		}
	}
}

func TestFirstKeysAreInOrder(t *testing.T) {
	of := map[string]int{"c": 1, "a": 2, "d": 3, "b": 4}
	require.Equal(t, []string{"a", "b", "c"}, text.FirstKeys(of, 3))
	require.Equal(t, []string{"a", "b", "c", "d"}, text.FirstKeys(of, 5))
	require.Empty(t, text.FirstKeys(of, 0))
}
