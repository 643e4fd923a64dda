// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package text_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/text"
)

func TestTablesCutLongCellsButFieldsDoNot(t *testing.T) {
	long := strings.Repeat("é", 400)
	var table text.Table
	table.Row("Key", "Error", "Note")
	table.Row("a", long, "")
	table.Row("b", "", "x")
	want := strings.Repeat("é", 130) + "... (540 bytes left out)"
	require.Equal(t, ""+
		"Key   Error"+strings.Repeat(" ", len([]rune(want))-len("Error")+3)+"Note\n"+
		"a     "+want+"\n"+
		"b     "+strings.Repeat(" ", len([]rune(want))+3)+"x\n", table.String())
	require.Equal(t, strings.Repeat("é", 150), text.Cell(strings.Repeat("é", 150)))

	var fields text.Fields
	fields.Add("error", long)
	fields.Add("row", "none")
	var out strings.Builder
	fields.Append(&out)
	require.Equal(t, "  error   "+long+"\n  row     none\n", out.String())
}
