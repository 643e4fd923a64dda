// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package desired holds the statedb tables with the desired state of a network namespace, and fills them from
// the state file. Routes are written to the table routes-wanted, and the table routes has the best of them for
// each destination: see [NewBestRoutes].
package desired

import (
	"fmt"
	"reflect"
	"time"
)

// Spec is the desired state in a [Row]: one of the types of package config.
type Spec interface {
	comparable

	// Key is unique in the table that a reconciler works on.
	Key() string

	// Needs returns the name of a link that this object depends on; empty if there is none.
	Needs() string
}

// Source is the origin of a row.
type Source string

// File is the source of what the state file has.
const File Source = "file"

// Row is an object of one of the tables: the desired state and its source. Every row that is written to a
// table with a reconciler is applied, even if it equals the one before; its status is in the [Loops]. Like
// every object of a statedb table, it must not be changed after it was inserted.
type Row[S Spec] struct {
	Spec S `json:"spec" yaml:"spec"`
	// Source is empty for an object that was found in the target.
	Source Source `json:"source" yaml:"source"`
	// Extra describes what an object that was found in the target has and no row can ask for, such as a lifetime, so
	// that it equals no row. Empty for every object of a source.
	Extra string `json:"-" yaml:"-"`
	// At is when an operation on another object may have undone this one, see [Tables.Undid]; zero for none. For an object
	// that was found in the target it is when the look at the target began.
	At time.Time `json:"-" yaml:"-"`
}

// Same reports whether two rows want the same, from the same place.
func (r *Row[S]) Same(other *Row[S]) bool { return r.Spec == other.Spec && r.Source == other.Source }

// TableHeader returns the column names of db/show: the fields of the spec, and the source.
func (*Row[S]) TableHeader() (names []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[S]()) {
		names = append(names, field.Name)
	}
	return append(names, "Source")
}

// TableRow returns the columns of a row for db/show.
func (r *Row[S]) TableRow() (texts []string) {
	spec := reflect.ValueOf(r.Spec)
	for i := range spec.NumField() {
		text := fmt.Sprint(spec.Field(i))
		if field := spec.Field(i); field.Kind() == reflect.Struct && field.IsZero() {
			text = "" // no gateway
		}
		texts = append(texts, text)
	}
	return append(texts, string(r.Source))
}
