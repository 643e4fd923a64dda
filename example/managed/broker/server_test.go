// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package broker

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A web page can send a form or plain text to any address without a preflight request.
func TestBodyThatIsNotJSONChangesNothing(t *testing.T) {
	store, err := Open(filepath.Join(t.TempDir(), "broker.db"), time.Second)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	handler, err := NewHandler(store, Faults{})
	require.NoError(t, err)
	const tunnel = `{"name": "a", "owner": "me", "remote": "203.0.113.1", "bandwidth": 1}`
	send := func(method, path, contentType string) int {
		request := httptest.NewRequest(method, path, strings.NewReader(tunnel))
		if contentType != "" {
			request.Header.Set("Content-Type", contentType)
		}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		return recorder.Code
	}
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		for method, path := range map[string]string{"POST": "/v1/tunnels", "PUT": "/v1/tunnels/x"} {
			assert.Equal(t, http.StatusUnsupportedMediaType, send(method, path, contentType), "%s %q", method, contentType)
		}
		assert.Equal(t, http.StatusUnsupportedMediaType, send("POST", "/admin/drift", contentType), "%q", contentType)
	}
	all, err := store.Truth()
	require.NoError(t, err)
	assert.Empty(t, all)
	assert.Equal(t, http.StatusCreated, send("POST", "/v1/tunnels", "application/json; charset=utf-8"))
}
