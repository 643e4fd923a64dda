// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package desired holds the statedb tables of what a netagent is to keep in its
// network namespace, and the rules by which the state file and the HTTP API share
// them:
//
//   - What is in the file is the file's: the API changes and deletes only what came
//     by the API.
//   - What came by the API stays until it is deleted by the API, whatever the file
//     says of other things.
//   - If the file comes to ask for something that the API had asked for, it is the
//     file's from then on.
package desired

import (
	"github.com/statekeel/statekeel/reconciler"
)

// Spec is what a [Row] asks for: one of the types of package config.
type Spec interface {
	comparable

	// Key is unique in the table.
	Key() string

	// Needs is the name of a link without which this cannot be, or empty.
	Needs() string
}

// Source is where a row comes from, and so who may change it.
type Source string

// The sources.
const (
	File Source = "file"
	API  Source = "api"
)

// Row is an object of one of the tables: what is wanted, who wants it, and how far
// the kernel follows. Like every object of a statedb table, it must not be changed
// once it was inserted.
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

// SetStatus sets the status of a row that is not in a table yet, and returns it.
func (r *Row[S]) SetStatus(status reconciler.Status) *Row[S] {
	r.Status = status
	return r
}

// GetStatus returns the status.
func (r *Row[S]) GetStatus() reconciler.Status { return r.Status }
