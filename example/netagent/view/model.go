// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package view shows the status of all objects: on a terminal as a table that is redrawn in place, elsewhere
// as a line for each change.
package view

import (
	"strings"
	"time"

	"github.com/statekeel/statekeel/example/netagent/desired"
)

// Row is an object as it is shown.
type Row struct {
	Kind, Key string

	// Status is the name of the status; Since is when it began.
	Status string
	Since  time.Time

	// Error is the reason why the object is not Done, in one line; empty if there is none.
	Error string
}

// Change is a row that is new, or whose status or error changed. Deleted rows have the status "Deleted".
type Change = Row

const deleted = "Deleted"

// Model follows the items of the tables and records when their status began.
type Model struct {
	rows  []Row // in the order of the items
	byKey map[[2]string]Row
}

// Rows returns the current rows, in the order of the items. The slice is valid until the next Update.
func (m *Model) Rows() []Row { return m.rows }

// Update takes the items of a snapshot and returns the changes since the last one: new and changed rows in
// the order of the items, then deleted ones.
func (m *Model) Update(items []desired.Item, now time.Time) (changes []Change) {
	before := m.byKey
	rows := make([]Row, 0, len(items))
	byKey := make(map[[2]string]Row, len(items))
	for _, item := range items {
		key := [2]string{item.Kind, item.Key}
		row, known := before[key]
		if next := rowOf(item, now); !known || next.Status != row.Status || next.Error != row.Error {
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

func rowOf(item desired.Item, now time.Time) Row {
	since := item.Status.UpdatedAt
	if since.IsZero() { // the reconciler does not know it, or not yet
		since = now
	}
	return Row{
		Kind:   item.Kind,
		Key:    oneLine(item.Key),
		Status: item.Status.Kind.String(),
		Since:  since,
		Error:  oneLine(item.Status.GetError()),
	}
}

// oneLine replaces characters that could move the cursor of a terminal.
func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			return ' '
		}
		return c
	}, text)
}
