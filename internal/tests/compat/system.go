// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

import (
	"slices"
	"strings"
	"unicode"
)

// systems are the sections of the page, in its order.
var systems = []system{statedbSystem, requestSystem, stepperSystem, statefulSystem, managedSystem}

// system maps the names of one reconciler that programs come from ("there") to names of this module
// ("here").
//
// Names are written in lists: "A, B" is two names, "T: M, N" is T, T.M and T.N, and ";" separates lists. A
// name here without a package belongs to the package pkg; any other has its package in front:
// "reconciler.Config".
type system struct {
	title string
	// pkg is the name of the package here, a key of packages.
	pkg string
	// about is the introduction of the section, in Markdown.
	about string
	// same lists the names that mean the same on both sides.
	same []string
	// rows have the other names there.
	rows []row
	// only lists names that exist only here. They are not on the page; the tests check that each is used.
	only []string
	// further is what follows the table, in Markdown; most have nothing.
	further string
}

// row maps names that differ between the two sides.
type row struct {
	// there and here are lists of names. here is empty if the names do not exist here.
	there, here string
	// why is the reason, in Markdown. Required.
	why string
}

// check returns what is wrong with a row; empty if nothing is.
func (r row) check() string {
	switch {
	case r.there == "":
		return "the name there is missing"
	case r.why == "":
		return "the reason is missing"
	case strings.Contains(r.there+r.here+r.why, "|"):
		return "a | would end the cell of the table"
	}
	return ""
}

// label names a row in messages.
func (r row) label() string { return r.there + " -> " + r.here }

// theirs returns all names of the other system that are mapped, in the order of the map.
func (s system) theirs() (all []string) {
	for _, list := range s.same {
		all = append(all, names(list)...)
	}
	for _, r := range s.rows {
		all = append(all, names(r.there)...)
	}
	return all
}

// ours returns the names here, each with its package.
func (s system) ours() (all []string) {
	for _, list := range slices.Concat(s.same, s.only) {
		all = append(all, names(list)...)
	}
	for _, r := range s.rows {
		all = append(all, names(r.here)...)
	}
	for i, name := range all {
		if !hasPackage(name) {
			all[i] = s.pkg + "." + name
		}
	}
	return all
}

// hasPackage reports whether a name here begins with its package: exported identifiers are upper case,
// packages are lower case.
func hasPackage(name string) bool { return unicode.IsLower(rune(name[0])) }

// names returns the names of a list.
func names(list string) (all []string) {
	if list == "" {
		return nil
	}
	for part := range strings.SplitSeq(list, "; ") {
		owner, members, grouped := strings.Cut(part, ": ")
		if !grouped {
			all = append(all, strings.Split(part, ", ")...)
			continue
		}
		all = append(all, owner)
		for member := range strings.SplitSeq(members, ", ") {
			all = append(all, owner+"."+member)
		}
	}
	return all
}
