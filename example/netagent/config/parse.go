// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package config reads the desired state of a network namespace: links, addresses, routes and sysctls, from
// YAML or JSON.
//
// It is pure: the input is bytes, the output a [State] or a list of [Problems], each with its place
// in the file. The package finds everything that can be found without a kernel: syntax errors, misspelt
// fields, and objects that can never work, such as a route whose gateway no address reaches.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxSize is the largest size of a file in bytes.
const MaxSize = 1 << 20

// State holds all desired objects of a file. A veth pair is two links that name each other as peer.
type State struct {
	Links     []Located[Link]
	Addresses []Located[Address]
	Routes    []Located[Route]
	Sysctls   []Located[Sysctl]
}

// Located is a Spec with its position: that of the object in the file. Both ends of a veth have that of the first.
type Located[Spec any] struct {
	Spec Spec
	Pos  Pos
}

// Parse reads a whole file; problems are reported with the given name. The returned State has been checked.
// The error is always of type [Problems] and lists all problems, not only the first, but at most a hundred.
//
// An empty file is a problem, since editors write one for a moment. To ask for nothing, write {}.
func Parse(file string, data []byte) (State, error) {
	if len(data) > MaxSize {
		return State{}, Problems{{Pos: Pos{File: file}, Message: "larger than a megabyte"}}
	}
	var sections struct {
		Links, Addresses, Routes []yaml.Node
		Sysctls                  yaml.Node
	}
	root, err := parseDocument(data)
	if err == nil {
		err = decode(root, "state", &sections)
	}
	var problems Problems
	if err != nil {
		problems.add(posOf(file, root), err)
		return State{}, problems
	}
	var state State
	for _, ends := range readAll(&problems, file, sections.Links, readLinks) {
		for _, link := range ends.Spec {
			state.Links = append(state.Links, Located[Link]{link, ends.Pos})
		}
	}
	state.Addresses = readAll(&problems, file, sections.Addresses, readAddress)
	state.Routes = readAll(&problems, file, sections.Routes, readRoute)
	state.Sysctls = readSysctls(&problems, file, &sections.Sysctls)
	// An object that refers only to invalid objects gets no second problem.
	if err := problems.err(); err != nil {
		return state, err
	}
	return state, state.Check()
}

// readAll reads the objects of a section.
func readAll[Spec any](problems *Problems, file string, nodes []yaml.Node, read func(*yaml.Node) (Spec, error)) (all []Located[Spec]) {
	for i := 0; i < len(nodes) && !problems.full(); i++ {
		pos := posOf(file, &nodes[i])
		spec, err := read(&nodes[i])
		if err != nil {
			problems.add(pos, err)
		}
		all = append(all, Located[Spec]{spec, pos})
	}
	return all
}

// ParseLink reads one link, in the form of the list of links; problems are reported with the given name. A
// veth is returned with its peer. Like the functions below, it does not check the link against a State, and
// accepts JSON as well as YAML.
func ParseLink(file string, data []byte) ([]Link, error) { return parseObject(file, data, readLinks) }

// ParseAddress reads one address, in the form of the list of addresses.
func ParseAddress(file string, data []byte) (Address, error) {
	return parseObject(file, data, readAddress)
}

// ParseRoute reads one route, in the form of the list of routes.
func ParseRoute(file string, data []byte) (Route, error) { return parseObject(file, data, readRoute) }

// ParseSysctl reads one sysctl: a mapping with a name and a value.
func ParseSysctl(file string, data []byte) (Sysctl, error) {
	return parseObject(file, data, readSysctl)
}

func parseObject[T any](file string, data []byte, read func(*yaml.Node) (T, error)) (object T, err error) {
	root, err := parseDocument(data)
	if err == nil {
		object, err = read(root)
	}
	var problems Problems
	if err != nil {
		problems.add(posOf(file, root), err)
	}
	return object, problems.err()
}

// parseDocument returns the root node of the only document in data.
func parseDocument(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	switch {
	case err == io.EOF, err == nil && isNull(doc.Content[0]):
		return nil, errors.New("is empty; to ask for nothing at all, write {}")
	case err != nil:
		return nil, err
	}
	if err := dec.Decode(&second); err == nil {
		return &second, errors.New("a second document; only one is read")
	} else if err != io.EOF {
		return nil, err
	}
	return doc.Content[0], nil
}

// posOf returns the position of a node; nil is the file.
func posOf(file string, n *yaml.Node) Pos {
	if n == nil {
		return Pos{File: file}
	}
	return Pos{file, n.Line, n.Column}
}

// decode reads a mapping into a struct, whose fields have the names of its keys in other letters. The YAML package
// finds unknown keys only in whole documents.
func decode(n *yaml.Node, what string, into any) error {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("%s: a mapping is needed", what)
	}
	var known []string
	for _, field := range reflect.VisibleFields(reflect.TypeOf(into).Elem()) {
		known = append(known, strings.ToLower(field.Name))
	}
	slices.Sort(known)
	for i := 0; i < len(n.Content); i += 2 {
		if key := resolve(n.Content[i]); !slices.Contains(known, key.Value) {
			return fmt.Errorf("line %d: %s: unknown field %q; known are %s", key.Line, what, key.Value, strings.Join(known, ", "))
		}
	}
	return n.Decode(into)
}

// resolve returns the node that an alias refers to.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.ShortTag() == "!!null" }
