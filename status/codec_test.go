// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status_test

import (
	"encoding/json"
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/statekeel/statekeel/status"
)

// codec is a text format in which all types of this package must read back.
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

// carries reports whether the library that writes the text can read it back when it consists of
// strings. The YAML library cannot where a text of several lines begins with a tab.
func (c codec) carries(entries map[string]status.Status) bool {
	type plain = map[string]map[string]*string
	in, out := plain{}, plain{}
	for name, st := range entries {
		in[name] = map[string]*string{"error": st.Error}
	}
	data, err := c.marshal(in)
	return err == nil && c.unmarshal(data, &out) == nil && reflect.DeepEqual(in, out)
}
