// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package desired holds the statedb tables with the desired state of a network namespace, and the rules by
// which the state file and the HTTP API share them:
//
//   - The objects in the file belong to the file: the API changes and deletes only objects that it created.
//   - The objects of the API stay until the API deletes them, whatever else the file has.
//   - If the file comes to have an object of the API, the object belongs to the file from then on.
package desired

import (
	"github.com/statekeel/statekeel/reconciler"
)

// Spec is the desired state in a [Row]: one of the types of package config.
type Spec interface {
	comparable

	// Key is unique in the table.
	Key() string

	// Needs returns the name of a link that this object depends on; empty if there is none.
	Needs() string
}

// Source is the origin of a row, which decides who may change it.
type Source string

// The sources.
const (
	File Source = "file"
	API  Source = "api"
)

// Row is an object of one of the tables: the desired state, its source, and its status. Like every object of
// a statedb table, it must not be changed after it was inserted.
type Row[S Spec] struct {
	Spec   S                 `json:"spec" yaml:"spec"`
	Source Source            `json:"source" yaml:"source"`
	Status reconciler.Status `json:"status" yaml:"status"`
}

func newRow[S Spec](spec S, source Source) *Row[S] {
	return &Row[S]{Spec: spec, Source: source, Status: reconciler.StatusPending()}
}

// Clone returns a copy.
func (r *Row[S]) Clone() *Row[S] {
	clone := *r
	return &clone
}

// SetStatus sets the status of a row that is not in a table yet, and returns the row.
func (r *Row[S]) SetStatus(status reconciler.Status) *Row[S] {
	r.Status = status
	return r
}

// GetStatus returns the status.
func (r *Row[S]) GetStatus() reconciler.Status { return r.Status }
