// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package observed holds the state that was last observed in the target, by whatever cause: the table of the
// kernel's links. Operations wait for its rows. The desired state is in package desired.
package observed

import (
	"fmt"
	"strconv"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// LinksTable is the name of the table.
const LinksTable = "kernel-links"

// Link is a network interface in the kernel. Links can be compared with ==.
type Link struct {
	// Name is unique in the table.
	Name string `json:"name" yaml:"name"`

	// Index is the kernel's number for the link, never zero. It is unique too, and changes when the link is
	// removed and created again.
	Index int `json:"index" yaml:"index"`

	// Kind is the kernel's type of the link: "bridge", "veth", and "device" for those that have none, such
	// as the loopback.
	Kind string `json:"kind" yaml:"kind"`

	// MTU is in bytes.
	MTU int `json:"mtu" yaml:"mtu"`

	// Up reports whether the link is administratively up. It may still have no carrier.
	Up bool `json:"up" yaml:"up"`
}

// TableHeader returns the column names of db/show.
func (*Link) TableHeader() []string { return []string{"Name", "Index", "Kind", "MTU", "Up"} }

// TableRow returns the columns of a link for db/show.
func (l *Link) TableRow() []string {
	return []string{l.Name, strconv.Itoa(l.Index), l.Kind, strconv.Itoa(l.MTU), strconv.FormatBool(l.Up)}
}

var (
	byName = statedb.Index[*Link, string]{
		Name:       "name",
		FromObject: func(l *Link) index.KeySet { return index.NewKeySet(index.String(l.Name)) },
		FromKey:    index.String,
		FromString: index.FromString,
		Unique:     true,
	}
	byIndex = statedb.Index[*Link, int]{
		Name:       "index",
		FromObject: func(l *Link) index.KeySet { return index.NewKeySet(index.Int(l.Index)) },
		FromKey:    index.Int,
		FromString: index.IntString,
		Unique:     true,
	}
)

// NewLinks creates the table of links and registers it with the database.
func NewLinks(db *statedb.DB) (statedb.RWTable[*Link], error) {
	links, err := statedb.NewTable(db, LinksTable, byName, byIndex)
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", LinksTable, err)
	}
	return links, nil
}

// ByName and ByIndex return the query for the link with a name, or an index.
var ByName, ByIndex = byName.Query, byIndex.Query
