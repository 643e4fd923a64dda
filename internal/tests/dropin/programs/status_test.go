// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"encoding/json"
	"testing"

	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// documents records a value as JSON and YAML, and checks that both read back.
func documents[T any](t *testing.T, value T) {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	transcript(t, "json", string(text))
	var back T
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, value, back)

	text, err = yaml.Marshal(value)
	require.NoError(t, err)
	transcript(t, "yaml", string(text))
	var fromYAML T
	require.NoError(t, yaml.Unmarshal(text, &fromYAML))
	assert.Equal(t, value, fromYAML)
}

// The files that db/insert reads leave out fields.
func TestStatusReadsTerseYAML(t *testing.T) {
	for _, text := range []string{
		"kind: Pending\nid: 3", "kind: \"Done\"", "id: 4", "{kind: Refreshing}", "kind: ''\nerror: 'oops'", "kind: Error\nerror: ~",
	} {
		var s reconciler.Status
		require.NoError(t, yaml.Unmarshal([]byte(text), &s), text)
		documents(t, s)
	}
}
