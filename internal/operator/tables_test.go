// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package operator

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// A terminal executes some control characters. Names and errors come from outside, and may have them.
func TestListsEscapeControlCharacters(t *testing.T) {
	const evil = "a\x1b[2J\r\n\u009b1m\u202eb"
	night := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for name, table := range map[string]text.Table{
		"objects": objectsTable([]inspect.ObjectLine{{Key: evil, Status: evil, State: evil, Error: evil, BlockedOn: evil}}, night),
		"rounds":  roundsTable([]inspect.Round{{Reason: evil, Prune: &inspect.Prune{Error: evil}}, {Resync: &inspect.Resync{Error: evil}}}, night),
		"reconcilers": snapshotsTable([]inspect.Snapshot{{
			ID: inspect.ID{Module: evil, Name: evil, Table: evil}, Condition: evil, PruneFailure: evil, Breaker: evil,
		}}),
		"sources": sourcesTable([]inspect.SourceSnapshot{{Name: evil, Problems: []string{evil}, Rejected: 1}}),
	} {
		report := text.Report{Tables: []text.Table{table}}
		rendered := report.String()
		require.Contains(t, rendered, `\x1b[2J`, name)
		for _, r := range strings.ReplaceAll(rendered, "\n", "") {
			require.True(t, unicode.IsPrint(r), "%q in %q", r, rendered)
		}
	}
}

// The names of states are those of package inspect, which the texts do not import.
func TestEachStateHasItsKind(t *testing.T) {
	for kind, states := range map[text.Kind][]inspect.State{
		text.KindGood: {inspect.StateDone, inspect.StateRequeue},
		text.KindWork: {inspect.StateInFlight, inspect.StateReady},
		text.KindBad:  {inspect.StateRetry, inspect.StateTerminal, inspect.StateStuck, inspect.StateTripped},
		text.KindWait: {inspect.StateUnseen, inspect.StateQueued, inspect.StateHeld, inspect.StateBlocked},
		text.KindHeld: {inspect.StatePaused},
		"":            {inspect.StateAbsent, inspect.StateNoStatus, inspect.StateUnknown},
	} {
		for _, state := range states {
			require.Equal(t, kind, text.StateKind(string(state)), state)
		}
	}
}
