// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// defaultKeys returns the default keys of requests.
func defaultKeys[Req comparable](t *testing.T, reqs ...Req) (keys []string) {
	t.Helper()
	of, err := keyOf[Req]()
	require.NoError(t, err)
	for _, req := range reqs {
		keys = append(keys, string(of(req)))
	}
	return keys
}

// For the compiler each type with a controller is a copy of the whole loop, about 230 MB. So these types have none.
func TestRequestsHaveDefaultKeys(t *testing.T) {
	require.Equal(t, []string{"b", "a"}, defaultKeys(t, "b", "a"))
	type host string
	require.Equal(t, []string{"b", "a"}, defaultKeys[host](t, "b", "a"))
	names := []NamespacedName{{Namespace: "a/b", Name: "c"}, {Namespace: "a", Name: "b/c"}, {Namespace: `a\`, Name: "c"}, {}}
	want := []string{`a\/b/c`, "a/b/c", `a\\/c`, "/"}
	require.Equal(t, want, defaultKeys(t, names...))
	var requests []Request
	for _, name := range names {
		requests = append(requests, Request{name})
	}
	require.Equal(t, want, defaultKeys(t, requests...))
	_, err := keyOf[int]()
	require.EqualError(t, err, "Config.KeyOf is nil, and int has no default key")
}
