// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

// State holds all desired objects: those of one file, or those of the tables. A veth pair is two links that
// name each other as peer.
type State struct {
	Links     []Located[Link]
	Addresses []Located[Address]
	Routes    []Located[Route]
	Sysctls   []Located[Sysctl]
}

// Located is a Spec with its position. A zero Pos means that it is not from a file but from a table.
type Located[Spec any] struct {
	Spec   Spec
	Pos    Pos
	fields map[string]Pos
}

// At returns the position of a field of the object, or of the object if the field is missing.
func (l Located[Spec]) At(field string) Pos {
	if pos, ok := l.fields[field]; ok {
		return pos
	}
	return l.Pos
}

// Known returns spec as a part of a [State] that is not from a file and is known to be valid: [State.Check]
// reports no problems of it.
func Known[Spec any](spec Spec) Located[Spec] { return Located[Spec]{Spec: spec} }
