// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package view shows how far the kernel follows: as a table that is redrawn in place
// on a terminal, and as a line for each change elsewhere.
package view

import (
	"strings"
	"time"

	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/reconciler"
)

// Row is an object as it is shown.
type Row struct {
	Kind, Key string

	// Status is the word for it; Since when it is that and Error what it is.
	Status string
	Since  time.Time

	// Error says why it is not Done, and is empty otherwise. It is one line.
	Error string
}

// Change is a row that is new, or has another status or error than before. Rows that
// are gone have the status "Deleted".
type Change = Row

const deleted = "Deleted"

// Model follows the items of the tables and remembers since when they are what they
// are. A refresh, which is a second look at what is Done, is no change.
type Model struct {
	rows  []Row // in the order of the items
	byKey map[[2]string]Row
}

// Rows returns what there is to show, in the order of the items. The slice is only
// good until the next Update.
func (m *Model) Rows() []Row { return m.rows }

// Update takes the items of a snapshot and returns what changed since the last one,
// new and changed rows in the order of the items and then those that are gone.
func (m *Model) Update(items []desired.Item, now time.Time) (changes []Change) {
	before := m.byKey
	rows := make([]Row, 0, len(items))
	byKey := make(map[[2]string]Row, len(items))
	for _, item := range items {
		key := [2]string{item.Kind, item.Key}
		row, known := before[key]
		if next := rowOf(item); !known || next.Status != row.Status || next.Error != row.Error {
			row = next
			changes = append(changes, row)
		}
		rows = append(rows, row)
		byKey[key] = row
	}
	for _, row := range m.rows {
		if _, still := byKey[[2]string{row.Kind, row.Key}]; !still {
			changes = append(changes, Change{Kind: row.Kind, Key: row.Key, Status: deleted, Since: now})
		}
	}
	m.rows, m.byKey = rows, byKey
	return changes
}

func rowOf(item desired.Item) Row {
	status := item.Status
	word := status.Kind.String()
	switch status.Kind {
	case reconciler.StatusKindRefreshing:
		word = reconciler.StatusKindDone.String()
	case reconciler.StatusKindUnset:
		word = "Unset" // of a row that somebody inserted without a status
	}
	return Row{
		Kind:   item.Kind,
		Key:    oneLine(item.Key),
		Status: word,
		Since:  status.UpdatedAt,
		Error:  oneLine(status.GetError()),
	}
}

// oneLine replaces what could move the cursor of a terminal.
func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			return ' '
		}
		return c
	}, text)
}
