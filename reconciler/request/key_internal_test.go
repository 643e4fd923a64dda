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
	require.Equal(t, []string{"-7", "12"}, defaultKeys(t, -7, 12))
	require.Equal(t, []string{`a\/b/c`, "a/b/c", `a\\/c`, "/"}, defaultKeys(t,
		NamespacedName{Namespace: "a/b", Name: "c"}, NamespacedName{Namespace: "a", Name: "b/c"},
		NamespacedName{Namespace: `a\`, Name: "c"}, NamespacedName{}))
	type port struct {
		host   string
		number uint16
		flags  [2]bool
		of     NamespacedName
	}
	require.Equal(t, []string{`a\/b/80/true/false/n/x/y`, `a/80/true/false/n\/x/y`}, defaultKeys(t,
		port{"a/b", 80, [2]bool{true, false}, NamespacedName{Namespace: "n", Name: "x/y"}},
		port{"a", 80, [2]bool{true, false}, NamespacedName{Namespace: "n/x", Name: "y"}}))
	_, err := keyOf[any]()
	require.ErrorContains(t, err, "no key can be made of interface {}")
	_, err = keyOf[struct{ F float64 }]()
	require.ErrorContains(t, err, "it has a part of type float64")
}
