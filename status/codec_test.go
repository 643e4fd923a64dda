// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status_test

import (
	"encoding/json"

	"go.yaml.in/yaml/v3"
)

// codec is a text form that everything here must read back from.
type codec struct {
	name      string
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
}

func (c codec) String() string { return c.name }

var codecs = []codec{
	{"JSON", json.Marshal, json.Unmarshal},
	{"YAML", yaml.Marshal, yaml.Unmarshal},
}
