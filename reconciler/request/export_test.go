// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// DefaultKeys returns the default keys of requests.
func DefaultKeys[Req comparable](t *testing.T, reqs ...Req) (keys []string) {
	t.Helper()
	of, err := keyOf[Req]()
	require.NoError(t, err)
	for _, req := range reqs {
		keys = append(keys, string(of(req)))
	}
	return keys
}

// DefaultKeyError returns the error for a type that has no default key.
func DefaultKeyError[Req comparable]() error {
	_, err := keyOf[Req]()
	return err
}
