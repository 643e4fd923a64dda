// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader converts YAML nodes to values and collects the problems. Its methods return a zero value for an
// invalid node: the problem is then in the list.
type reader struct {
	file     string
	problems Problems
}

func posOf(file string, n *yaml.Node) Pos { return Pos{file, n.Line, n.Column} }

func (r *reader) pos(n *yaml.Node) Pos { return posOf(r.file, n) }

func (r *reader) addf(n *yaml.Node, format string, args ...any) {
	r.problems.addf(r.pos(n), format, args...)
}

// mapping calls the reader of each field, in the order of the file, and returns the positions of the values.
// Unknown and duplicate fields are problems.
func (r *reader) mapping(what string, n *yaml.Node, fields map[string]func(*yaml.Node)) map[string]Pos {
	at := make(map[string]Pos)
	r.pairs(what, n, func(key, value *yaml.Node) {
		read, known := fields[key.Value]
		if !known {
			names := slices.Sorted(maps.Keys(fields))
			r.addf(key, "%s: unknown field %q; known are %s", what, key.Value, strings.Join(names, ", "))
			return
		}
		at[key.Value] = r.pos(value)
		read(value)
	})
	return at
}

// pairs calls each with the keys and values of a mapping, in the order of the file.
func (r *reader) pairs(what string, n *yaml.Node, each func(key, value *yaml.Node)) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		r.addf(n, "%s: a mapping is needed, not %s", what, describe(n))
		return
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(n.Content) && !r.problems.full(); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if first, twice := lines[key.Value]; twice {
			r.addf(key, "%s: %q is given twice, first on line %d", what, key.Value, first)
			continue
		}
		lines[key.Value] = key.Line
		each(key, value)
	}
}

// sequence calls each with the items of a list; null counts as an empty list.
func (r *reader) sequence(what string, n *yaml.Node, each func(*yaml.Node)) {
	n = resolve(n)
	if n.ShortTag() == "!!null" {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.addf(n, "%s: a list is needed, not %s", what, describe(n))
		return
	}
	for i := 0; i < len(n.Content) && !r.problems.full(); i++ {
		each(n.Content[i])
	}
}

// text returns a scalar as written: names such as 10 need no quotes.
func (r *reader) text(what string, n *yaml.Node) string {
	n = resolve(n)
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.addf(n, "%s: a text is needed, not %s", what, describe(n))
		return ""
	}
	return n.Value
}

func (r *reader) boolean(what string, n *yaml.Node) bool {
	n = resolve(n)
	value := false
	if n.ShortTag() != "!!bool" || n.Decode(&value) != nil {
		r.addf(n, "%s: true or false is needed, not %s", what, describe(n))
	}
	return value
}

// number returns an integer between least and most, both included.
func (r *reader) number(what string, n *yaml.Node, least, most uint64) uint64 {
	n = resolve(n)
	value, err := strconv.ParseUint(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || err != nil || value < least || value > most {
		r.addf(n, "%s: a number from %d to %d is needed, not %s", what, least, most, describe(n))
		return least
	}
	return value
}

// resolve returns the node that an alias refers to.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.ShortTag() == "!!null" {
		return "nothing"
	}
	return fmt.Sprintf("%q", n.Value)
}
