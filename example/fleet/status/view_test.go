// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLogShowsEachChangeOnce(t *testing.T) {
	var out strings.Builder
	l := Log{Out: &out}
	for _, lines := range [][]string{{"a", "b"}, {"a", "b"}, {"a", "c"}, {"a", "b"}} {
		require.NoError(t, l.Show(lines))
	}
	var shown []string
	for line := range strings.Lines(out.String()) {
		assert.Regexp(t, `^\d\d:\d\d:\d\d  .\n$`, line)
		shown = append(shown, strings.TrimSpace(line[10:]))
	}
	assert.Equal(t, []string{"a", "b", "c", "b"}, shown)
}

func TestLinesSayWhatAnAgentHasNotApplied(t *testing.T) {
	f := Fleet{Revision: 7, Agents: []Agent{
		{Name: "a", Alive: true, Revision: 7, Applied: true},
		{Name: "b", Revision: 6},
		{Name: "c", Alive: true, Revision: 7, Problems: []string{"links x:\x1b[2J", "routes y"}},
		{Name: "d", Alive: true, Revision: 7},
	}}
	assert.Equal(t, []string{
		"AGENT       ALIVE  REVISION  STATUS (the store wants revision 7)",
		"a           yes    7         applied",
		"b           no     6         behind",
		"c           yes    7         links x: [2J; routes y",
		"d           yes    7         not applied",
	}, f.Lines())
	assert.False(t, f.Applied())
	f.Agents = f.Agents[:1]
	assert.True(t, f.Applied())
}
