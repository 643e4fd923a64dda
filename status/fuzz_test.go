// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/statekeel/statekeel/status"
)

func FuzzJSONIsAnErrorOrReadsBack(f *testing.F) {
	f.Add([]byte(`{"updated-at":"2001-02-03T04:05:06.000000007Z","error":"no \"route\"\n","id":7,"kind":"Error"}`))
	f.Add([]byte(`{"a":{"kind":"Done"},"b":{"kind":"Blocked","error":"\ud800 eth0"}}`))
	f.Fuzz(func(t *testing.T, data []byte) { readsBack(t, codecs[0], data) })
}

func FuzzYAMLIsAnErrorOrReadsBack(f *testing.F) {
	f.Add([]byte("updated-at: 2001-02-03T04:05:06.000000007Z\nerror: |\n  no route\nid: 7\nkind: Error\n"))
	f.Add([]byte("a: &a {kind: Done}\nb: *a\n\"\\xff\": {kind: Blocked, error: eth0}\n"))
	f.Add([]byte("<<: {kind: Done}\n"))
	f.Fuzz(func(t *testing.T, data []byte) { readsBack(t, codecs[1], data) })
}

// readsBack reads a Status and a Set. A value that was read can be written and reads back the same;
// an error does not change a Set.
func readsBack(t *testing.T, c codec, data []byte) {
	var st status.Status
	if c.unmarshal(data, &st) == nil {
		text, err := c.marshal(st)
		require.NoError(t, err)
		var back status.Status
		if c.carries(map[string]status.Status{"": st}) {
			require.NoError(t, c.unmarshal(text, &back), "%s", text)
			requireSame(t, st, back)
		}
		_ = st.String()
	}

	set := status.NewSet("a")
	was := maps.Collect(set.All())
	if c.unmarshal(data, &set) != nil {
		require.Equal(t, was, maps.Collect(set.All()))
		return
	}
	all := maps.Collect(set.All())
	text, err := c.marshal(set)
	require.NoError(t, err)
	if !c.carries(all) {
		return
	}
	var back status.Set
	require.NoError(t, c.unmarshal(text, &back), "%s", text)
	require.Len(t, maps.Collect(back.All()), len(all))
	for name, st := range all {
		requireSame(t, st, back.Get(name))
	}
	require.Equal(t, set.IsDone(), back.IsDone())
	_ = set.String()
}

// requireSame requires two statuses to be equal, in any time zones.
func requireSame(t *testing.T, want, got status.Status) {
	t.Helper()
	require.True(t, want.UpdatedAt.Equal(got.UpdatedAt), "%s is read back as %s", want.UpdatedAt, got.UpdatedAt)
	got.UpdatedAt = want.UpdatedAt
	require.Equal(t, want, got)
}

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
