// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"encoding/json"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// MaxSize is the largest size of a file in bytes.
const MaxSize = 1 << 20

// Parse reads a whole file; problems are reported with the given name. The returned State has been checked.
// The error is always of type [Problems] and lists all problems, not only the first.
//
// An empty file is a problem, since editors write one for a moment. To ask for nothing, write {}.
func Parse(file string, data []byte) (State, error) {
	if len(data) > MaxSize {
		return State{}, Problems{{Pos: Pos{File: file}, Message: "larger than a megabyte"}}
	}
	root, err := parseDocument(file, data)
	if err != nil {
		return State{}, err
	}
	r := reader{file: file}
	var state State
	r.mapping("state", root, map[string]func(*yaml.Node){
		"links": func(n *yaml.Node) {
			r.sequence("links", n, func(n *yaml.Node) { state.Links = append(state.Links, r.links(n)...) })
		},
		"addresses": func(n *yaml.Node) {
			r.sequence("addresses", n, func(n *yaml.Node) {
				if a, ok := r.address(n); ok {
					state.Addresses = append(state.Addresses, a)
				}
			})
		},
		"routes": func(n *yaml.Node) {
			r.sequence("routes", n, func(n *yaml.Node) {
				if route, ok := r.route(n); ok {
					state.Routes = append(state.Routes, route)
				}
			})
		},
		"sysctls": func(n *yaml.Node) { state.Sysctls = r.sysctls(n) },
	})
	// An object that refers only to invalid objects gets no second problem.
	if err := r.problems.err(); err != nil {
		return state, err
	}
	return state, state.Check()
}

func (r *reader) sysctls(n *yaml.Node) (sysctls []Located[Sysctl]) {
	if resolve(n).ShortTag() == "!!null" {
		return nil
	}
	r.pairs("sysctls", n, func(key, value *yaml.Node) {
		if s, ok := r.sysctl(key, value); ok {
			sysctls = append(sysctls, s)
		}
	})
	return sysctls
}

// ParseLink reads one link, in the form of the list of links; problems are reported with the given name. A
// veth is returned with its peer. Like the functions below, it does not check the link against a State, and
// accepts JSON as well as YAML.
func ParseLink(file string, data []byte) ([]Located[Link], error) {
	return parseObject(file, data, func(r *reader, n *yaml.Node) []Located[Link] { return r.links(n) })
}

// ParseAddress reads one address, in the form of the list of addresses.
func ParseAddress(file string, data []byte) (Located[Address], error) {
	return parseObject(file, data, func(r *reader, n *yaml.Node) Located[Address] {
		address, _ := r.address(n)
		return address
	})
}

// ParseRoute reads one route, in the form of the list of routes.
func ParseRoute(file string, data []byte) (Located[Route], error) {
	return parseObject(file, data, func(r *reader, n *yaml.Node) Located[Route] {
		route, _ := r.route(n)
		return route
	})
}

// ParseSysctl reads one sysctl: a mapping with a name and a value.
func ParseSysctl(file string, data []byte) (Located[Sysctl], error) {
	return parseObject(file, data, func(r *reader, n *yaml.Node) Located[Sysctl] {
		var key, value *yaml.Node
		at := r.mapping("sysctl", n, map[string]func(*yaml.Node){
			"name":  func(n *yaml.Node) { key = n },
			"value": func(n *yaml.Node) { value = n },
		})
		r.incomplete("sysctl", n, at, "name", "value")
		if key == nil || value == nil {
			return Located[Sysctl]{}
		}
		sysctl, _ := r.sysctl(resolve(key), value)
		return sysctl
	})
}

func parseObject[T any](file string, data []byte, read func(*reader, *yaml.Node) T) (T, error) {
	root, err := parseDocument(file, plainEscapes(data))
	if err != nil {
		var none T
		return none, err
	}
	r := reader{file: file}
	object := read(&r, root)
	return object, r.problems.err()
}

var jsonString = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// plainEscapes rewrites the strings of a JSON text for YAML, which supports neither \/ nor surrogate pairs.
// Other texts are returned unchanged.
func plainEscapes(data []byte) []byte {
	if !json.Valid(data) {
		return data
	}
	return jsonString.ReplaceAllFunc(data, func(token []byte) []byte {
		var s string
		if json.Unmarshal(token, &s) != nil {
			return token
		}
		plain, err := json.Marshal(s)
		if err != nil {
			return token
		}
		return plain
	})
}
