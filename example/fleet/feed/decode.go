// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package feed

import (
	"errors"
	"fmt"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
)

// file is the name in errors, before the line and the column.
const file = "value"

// row returns the row of a key. The value is of the form that netagent's state file has, and repeats
// what is in the key: a key is one row, and keyOf returns it.
func row[S desired.Spec](parse func(value []byte) (S, error), keyOf func(S) string) func(key string, value []byte) (*desired.Row[S], error) {
	return func(key string, value []byte) (*desired.Row[S], error) {
		spec, err := parse(value)
		if err != nil {
			return nil, err
		}
		if own := keyOf(spec); own != key {
			return nil, fmt.Errorf("the value is of %q, so it must be at that key", own)
		}
		return &desired.Row[S]{Spec: spec, Source: Source}, nil
	}
}

// parseLink rejects veths: the value of one end would be two rows.
func parseLink(value []byte) (config.Link, error) {
	links, err := config.ParseLink(file, value)
	switch {
	case err != nil:
		return config.Link{}, err
	case len(links) != 1:
		return config.Link{}, errors.New("a veth is two links, and a key is one: only bridges and lo are supported here")
	}
	return links[0], nil
}

func parseAddress(value []byte) (config.Address, error) { return config.ParseAddress(file, value) }

// parseRoute needs the link of a route. A state file can leave it out, because it has the addresses that
// tell.
func parseRoute(value []byte) (config.Route, error) {
	route, err := config.ParseRoute(file, value)
	if err == nil && route.Dev == "" {
		err = errors.New("dev is missing, the link of the route")
	}
	return route, err
}

func parseSysctl(value []byte) (config.Sysctl, error) { return config.ParseSysctl(file, value) }
