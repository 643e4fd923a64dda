// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/filled"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

var update = flag.Bool("update", false, "write the golden files")

// The tests of the commands and of the page compare their answers with the same golden files.
func TestJSONEqualsTheGoldenFiles(t *testing.T) {
	golden(t, "round", filled.Value[inspect.Round]())
	golden(t, "operation", filled.Value[inspect.Operation]())
	golden(t, "explanation", filled.Value[inspect.Explanation]())
	golden(t, "snapshot", filled.Value[inspect.Snapshot]())
}

func golden[T any](t *testing.T, name string, value T) {
	require.Empty(t, filled.Zeros(value), name)
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
