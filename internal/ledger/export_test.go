// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger

import (
	"sync"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// users has, for each of the Tables of Open, the function that ends their user.
var users sync.Map

// Open is [OpenTables] for a user that [Tables.Close] ends. A nil keyOf stands for the bytes of the text.
func Open(db *statedb.DB, name string, keyOf func(text string) (index.Key, error)) (*Tables, error) {
	if keyOf == nil {
		keyOf = index.FromString
	}
	ended := make(chan struct{})
	t, err := OpenTables(db, name, ended, keyOf)
	users.Store(t, sync.OnceFunc(func() { close(ended) }))
	return t, err
}

// Close ends the user of the tables. It may be called again.
func (t *Tables) Close() {
	end, _ := users.Load(t)
	end.(func())()
}

// Read converts a text to a key, as the index of the outcomes does.
func (t *Tables) Read(text string) (index.Key, error) {
	return t.Outcomes.PrimaryIndexer().(outcomeIndex).FromString(text)
}

// MaxSamples is the bound of [Times.Len].
const MaxSamples = maxSamples

// Len returns the number of samples.
func (t *Times) Len() int { return len(t.samples) }
