// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package client

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/managed/api"
)

// The error does not contain the broker's text unescaped.
func TestHostileAnswersAreEscaped(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(api.Problem{Error: "refused a\x1b[31m\n<<end>>\x00"})
	}))
	defer server.Close()
	c := New(server.URL)
	defer c.Close()
	_, err := c.Create(t.Context(), request)
	require.ErrorContains(t, err, "refused")
	require.False(t, strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }), "%q", err)
}
