// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The handler does not read the key in such a body, and must not act on the whole reconciler instead.
func TestBodiesThatAreNotFormsAreRefused(t *testing.T) {
	f := full()
	s := serve(t, writes, f)
	multipart := "--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\na\r\n--x--\r\n"
	for _, name := range []string{"retry", "refresh", "prune", "approve", "pause", "resume"} {
		for _, c := range []struct{ contentType, body string }{
			{"application/json", `{"key":"a"}`}, {"text/plain", "key=a"}, {"multipart/form-data; boundary=x", multipart},
			{"", "key=a"}, {"no type at all", "key=a"}, {"application/json", ""},
		} {
			for _, query := range []string{"?reconciler=agent/v4", "?reconciler=agent/v4&all=true", "?reconciler=agent/v4&key=b"} {
				answer, body := s.send("POST", name+query, withBody(c.contentType, c.body))
				assert.Equal(t, http.StatusUnsupportedMediaType, answer.StatusCode, "%s%s with %q: %s", name, query, c.contentType, body)
			}
		}
	}
	assert.Empty(t, f.Acts())
}

func TestUnknownFieldsAreRefused(t *testing.T) {
	f := full()
	s := serve(t, writes, f)
	for _, fields := range []string{
		"&keys=a", "&Key=a", "&all=true&key[]=a", "&object=a", "&key=a&dry-run=true", "&all=true&%00=x",
		"&all=1", "&all=", "&all=false", "&all=true&all=true", "&all=true&key=a", "&key=a&reconciler=agent/v6", "&key=a;b=c",
	} {
		for _, name := range []string{"retry", "refresh", "prune", "approve", "pause", "resume"} {
			answer, body := s.send("POST", name+"?reconciler=agent/v4"+fields)
			assert.Equal(t, http.StatusBadRequest, answer.StatusCode, "%s with %s: %s", name, fields, body)
			answer, _ = s.send("POST", name, withBody("application/x-www-form-urlencoded", "reconciler=agent/v4"+fields))
			assert.Equal(t, http.StatusBadRequest, answer.StatusCode, "%s with %s", name, fields)
		}
	}
	assert.Empty(t, f.Acts())
	_, body := s.send("POST", "pause?reconciler=agent/v4&keys=a&format=json")
	assert.JSONEq(t, `{"error": "unknown field \"keys\", must be reconciler, table, nth, key, all or format"}`, body)
}

func TestActingOnTheWholeReconcilerNeedsAll(t *testing.T) {
	f := full()
	s := serve(t, writes, f)
	for _, name := range []string{"retry", "refresh", "prune", "approve", "pause", "resume"} {
		answer, body := s.send("POST", name+"?reconciler=agent/v4")
		assert.Equal(t, http.StatusBadRequest, answer.StatusCode, name)
		assert.Contains(t, body, "all=true")
	}
	assert.Empty(t, f.Acts())
	answer, _ := s.send("POST", "pause?reconciler=agent/v4&all=true")
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	assert.Equal(t, []string{"pause"}, f.Acts())
}

func TestKeysOfOneRequestAreBounded(t *testing.T) {
	f := full()
	s := serve(t, writes, f)
	var form strings.Builder
	form.WriteString("reconciler=agent/v4")
	for i := range 1000 {
		fmt.Fprintf(&form, "&key=%d", i)
	}
	answer, _ := s.send("POST", "pause", withBody("application/x-www-form-urlencoded", form.String()))
	assert.Equal(t, http.StatusSeeOther, answer.StatusCode)
	assert.Len(t, f.Shown.Paused, 1000)
	f.Acts()
	answer, body := s.send("POST", "pause", withBody("application/x-www-form-urlencoded", form.String()+"&key=x"))
	assert.Equal(t, http.StatusBadRequest, answer.StatusCode)
	assert.Contains(t, body, "1,001 keys")
	assert.Empty(t, f.Acts())
}
