// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package desired holds the statedb tables with the desired state of a network namespace, and the rules by
// which the state file and the HTTP API share them:
//
//   - The objects in the file belong to the file: the API changes and deletes only objects that it created.
//   - The objects of the API stay until the API deletes them, whatever else the file has.
//   - If the file comes to have an object of the API, the object belongs to the file from then on.
//
// Routes are not shared: each source, the owner, writes what it wants into the table routes-wanted, and the
// table routes has the best of it for each destination. See [NewBestRoutes].
package desired

// Spec is the desired state in a [Row]: one of the types of package config.
type Spec interface {
	comparable

	// Key is unique in the table that a reconciler works on.
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

// Row is an object of one of the tables: the desired state and its source. Every row that is written to a
// table with a reconciler is applied, also if it equals the one before; its status is in the [Loops]. Like
// every object of a statedb table, it must not be changed after it was inserted.
type Row[S Spec] struct {
	Spec S `json:"spec" yaml:"spec"`
	// Source is empty for an object that was found in the target.
	Source Source `json:"source" yaml:"source"`
	// Extra describes what an object that was found in the target has and no row can ask for, such as a lifetime, so
	// that it equals no row. Empty for every object of a source.
	Extra string `json:"-" yaml:"-"`
}
