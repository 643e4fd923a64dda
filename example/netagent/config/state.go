// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

// State is everything that is asked for: one file's worth, or what the tables
// hold. A veth pair appears as two links that name each other as peer.
type State struct {
	Links     []Located[Link]
	Addresses []Located[Address]
	Routes    []Located[Route]
	Sysctls   []Located[Sysctl]
}

// Located is a Spec and where it was written. Its zero Pos means that it was
// written nowhere: it comes from a table.
type Located[Spec any] struct {
	Spec   Spec
	Pos    Pos
	fields map[string]Pos
}

// At returns where a field of the object was written, or where the object begins
// if the field was left out.
func (l Located[Spec]) At(field string) Pos {
	if pos, ok := l.fields[field]; ok {
		return pos
	}
	return l.Pos
}

// Known returns spec as a part of a [State] that is beyond doubt and was written
// nowhere: [State.Check] reports nothing that is wrong with it.
func Known[Spec any](spec Spec) Located[Spec] { return Located[Spec]{Spec: spec} }
