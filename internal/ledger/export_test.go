// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger

import (
	"strings"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// RegisterOne registers one of the two tables of a ledger beside the table.
func RegisterOne(t *testing.T, db *statedb.DB, name string) {
	var err error
	if strings.HasSuffix(name, markSuffix) {
		_, err = statedb.NewTable(db, name, markIndex)
	} else {
		_, err = statedb.NewTable(db, name, newOutcomeIndex())
	}
	require.NoError(t, err)
}

// Register registers the tables of a ledger beside the table, and does not write them.
var Register = register

// ByID returns the query for the outcome of a key.
func (t *Tables) ByID(key index.Key) statedb.Query[*inspect.Outcome] {
	return t.Outcomes.PrimaryIndexer().(outcomeIndex).QueryFromKey(key)
}

// Read converts a text to a key, as the index of the outcomes does.
func (t *Tables) Read(text string) (index.Key, error) {
	return t.Outcomes.PrimaryIndexer().(outcomeIndex).FromString(text)
}

// MaxSamples is the bound of [Times.Len].
const MaxSamples = maxSamples

// Len returns the number of samples.
func (t *Times) Len() int { return len(t.samples) }
