// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package observed holds what the target was last seen to have, whoever made it, so
// that operations can wait for it: the table of the kernel's links. Nobody asks for
// anything here; package desired is for that.
package observed

import (
	"fmt"
	"strconv"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// LinksTable is the name of the table.
const LinksTable = "kernel-links"

// Link is a network interface as the kernel has it. Links are equal if == says so.
type Link struct {
	// Name is unique in the table.
	Name string `json:"name" yaml:"name"`

	// Index is the kernel's number for the link, never zero. It is unique too, and
	// another one when the link was removed and made again.
	Index int `json:"index" yaml:"index"`

	// Kind is what the kernel calls its type: "bridge", "veth", and "device" for
	// those that have none, such as the loopback.
	Kind string `json:"kind" yaml:"kind"`

	// MTU in bytes.
	MTU int `json:"mtu" yaml:"mtu"`

	// Up is whether somebody set it up. It may have no carrier even so.
	Up bool `json:"up" yaml:"up"`
}

// TableHeader returns what db/show prints above the links.
func (*Link) TableHeader() []string { return []string{"Name", "Index", "Kind", "MTU", "Up"} }

// TableRow returns what db/show prints of a link.
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

// NewLinks makes the table of links and registers it with the database.
func NewLinks(db *statedb.DB) (statedb.RWTable[*Link], error) {
	links, err := statedb.NewTable(db, LinksTable, byName, byIndex)
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", LinksTable, err)
	}
	return links, nil
}

// ByName is the query for the link of a name.
func ByName(name string) statedb.Query[*Link] { return byName.Query(name) }

// ByIndex is the query for the link with an index.
func ByIndex(ifindex int) statedb.Query[*Link] { return byIndex.Query(ifindex) }
