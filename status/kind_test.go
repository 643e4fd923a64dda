// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/statekeel/statekeel/status"
)

var allKinds = []status.Kind{
	status.KindUnset, status.KindPending, status.KindRefreshing,
	status.KindDone, status.KindError, status.KindBlocked,
}

func TestKindHasItsWord(t *testing.T) {
	for kind, word := range map[status.Kind]string{
		status.KindUnset:      "",
		status.KindPending:    "Pending",
		status.KindRefreshing: "Refreshing",
		status.KindDone:       "Done",
		status.KindError:      "Error",
		status.KindBlocked:    "Blocked",
		status.Kind(6):        "Kind(6)",
		status.Kind(255):      "Kind(255)",
	} {
		assert.Equal(t, word, kind.String())
	}
}

func TestKindReadsBackAsValueAndAsMapKey(t *testing.T) {
	type document struct {
		Value status.Kind
		Count map[status.Kind]int
	}
	for _, codec := range codecs {
		for _, kind := range allKinds {
			in := document{Value: kind, Count: map[status.Kind]int{kind: 7}}
			data, err := codec.marshal(in)
			require.NoError(t, err, codec)

			out := document{Value: status.KindDone}
			require.NoError(t, codec.unmarshal(data, &out), "%s %s", codec, data)
			assert.Equal(t, in, out, "%s %s", codec, data)
		}
	}
}

func TestUnknownKindWordIsAnErrorThatNamesIt(t *testing.T) {
	for name, unmarshal := range map[string]func(*status.Kind) error{
		"text":      func(k *status.Kind) error { return k.UnmarshalText([]byte("done")) },
		"JSON":      func(k *status.Kind) error { return json.Unmarshal([]byte(`"done"`), k) },
		"YAML":      func(k *status.Kind) error { return yaml.Unmarshal([]byte(`done`), k) },
		"JSON key":  func(*status.Kind) error { return json.Unmarshal([]byte(`{"done":1}`), &map[status.Kind]int{}) },
		"in Status": func(*status.Kind) error { return json.Unmarshal([]byte(`{"kind":"done"}`), &status.Status{}) },
		"in Set":    func(*status.Kind) error { return json.Unmarshal([]byte(`{"a":{"kind":"done"}}`), &status.Set{}) },
	} {
		kind := status.KindError
		assert.ErrorContains(t, unmarshal(&kind), `unknown status kind "done"`, name)
		assert.Equal(t, status.KindError, kind, "%s: a failed read changed the kind", name)
	}
	_, err := status.Kind(6).MarshalText()
	assert.ErrorContains(t, err, "status kind 6")
}
