// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/filled"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

func TestOutcomeIsShownInOneLine(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	for _, test := range []struct {
		outcome inspect.Outcome
		row     []string
	}{
		{inspect.Outcome{Key: "a", Kind: status.KindPending, Revision: 7, Since: since},
			[]string{"a", "Pending", "false", "7", "2026-01-02T03:04:05.006Z", ""}},
		{inspect.Outcome{Key: "a b", Kind: status.KindBlocked, Text: "a device", Revision: 8, Since: since, Deleted: true},
			[]string{"a b", "Blocked", "true", "8", "2026-01-02T03:04:05.006Z", "a device"}},
		{inspect.Outcome{Key: "a\n", Kind: status.KindError, Text: "\x1b[31m\n  no", Revision: 9, Since: since},
			[]string{`"a\n"`, "Error", "false", "9", "2026-01-02T03:04:05.006Z", `"\x1b[31m\n  no"`}},
		{inspect.Outcome{Kind: status.KindError, Text: "no", Since: since},
			[]string{`""`, "Error", "false", "0", "2026-01-02T03:04:05.006Z", "no"}},
	} {
		require.Len(t, test.outcome.TableHeader(), len(test.row))
		require.Equal(t, test.row, test.outcome.TableRow())
	}
	// The header is asked of a nil row.
	require.Equal(t, "Key", (*inspect.Outcome)(nil).TableHeader()[0])
}

func TestLongTextsOfAnOutcomeAreCut(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	row := (&inspect.Outcome{Key: long, Kind: status.KindError, Text: long}).TableRow()
	for _, cell := range row {
		require.LessOrEqual(t, len(cell), 300)
	}
	require.Contains(t, row[0], "bytes left out")
	require.Contains(t, row[5], "bytes left out")
}

func TestOutcomeReadsBackFromJSON(t *testing.T) {
	want := inspect.Outcome{
		ID: []byte{0, 1, 0xff}, Key: "a", Kind: status.KindError, Text: "no", Revision: 7,
		Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Deleted: true,
	}
	data, err := json.Marshal(want)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"AAH/","key":"a","kind":"Error","text":"no","revision":7,`+
		`"since":"2026-01-02T03:04:05Z","deleted":true}`, string(data))
	var got inspect.Outcome
	require.NoError(t, json.Unmarshal(data, &got))
	require.Equal(t, want, got)
}

var update = flag.Bool("update", false, "write the golden files")

// The tests of the commands and of the page compare their answers with the same golden files.
func TestJSONEqualsTheGoldenFiles(t *testing.T) {
	// The operations of a round do not repeat it.
	golden(t, "round", filled.Rounds()[0], "Round.Operations[0].Round", "Round.Operations[0].Started",
		"Round.Operations[1].Round", "Round.Operations[1].Started")
	golden(t, "operation", filled.Rounds()[1].Operations[0], "Operation.Round", "Operation.Started")
	golden(t, "explanation", filled.Value[inspect.Explanation]())
	golden(t, "snapshot", filled.Value[inspect.Snapshot]())
}

// golden compares the JSON of a value with a golden file. Only the fields in zero may be zero.
func golden[T any](t *testing.T, name string, value T, zero ...string) {
	require.Equal(t, zero, filled.Zeros(value), name)
	got, err := json.MarshalIndent(value, "", "\t")
	require.NoError(t, err)
	path := "testdata/" + name + ".json"
	if *update {
		require.NoError(t, os.WriteFile(path, append(got, '\n'), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got)+"\n", name)

	// The JSON can be decoded again.
	var read T
	require.NoError(t, json.Unmarshal(got, &read))
	require.Equal(t, value, read)
}
