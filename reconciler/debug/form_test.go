// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
	long := "reconciler=agent/v4&key=" + strings.Repeat("x", 1<<20)
	answer, _ = s.send("POST", "pause", withBody("application/x-www-form-urlencoded", long))
	assert.Equal(t, http.StatusBadRequest, answer.StatusCode)
	assert.Empty(t, f.Acts())
}

// Whatever the handler does not understand may be a key: it must not act on the whole reconciler instead.
func TestActionsThatAreNotUnderstoodAreRefused(t *testing.T) {
	f := full()
	s := serve(t, writes, f)
	multipart := "--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\na\r\n--x--\r\n"
	for _, name := range []string{"retry", "refresh", "prune", "approve", "pause", "resume"} {
		for _, c := range []struct{ contentType, body string }{
			{"application/json", `{"key":"a"}`}, {"text/plain", "key=a"}, {"multipart/form-data; boundary=x", multipart},
			{"", "key=a"}, {"no type at all", "key=a"}, {"application/json", ""},
		} {
			for _, query := range []string{"", "&all=true", "&key=b"} {
				answer, body := s.send("POST", name+"?reconciler=agent/v4"+query, withBody(c.contentType, c.body))
				assert.Equal(t, http.StatusUnsupportedMediaType, answer.StatusCode, "%s%s with %q: %s", name, query, c.contentType, body)
			}
		}
		for _, fields := range []string{
			"", "&keys=a", "&Key=a", "&all=true&key[]=a", "&object=a", "&key=a&dry-run=true", "&all=true&%00=x",
			"&all=1", "&all=", "&all=false", "&all=true&all=true", "&all=true&key=a", "&key=a&reconciler=agent/v6", "&key=a;b=c",
		} {
			answer, body := s.send("POST", name+"?reconciler=agent/v4"+fields)
			assert.Equal(t, http.StatusBadRequest, answer.StatusCode, "%s with %s: %s", name, fields, body)
			answer, _ = s.send("POST", name, withBody("application/x-www-form-urlencoded", "reconciler=agent/v4"+fields))
			assert.Equal(t, http.StatusBadRequest, answer.StatusCode, "%s with %s", name, fields)
		}
	}
	assert.Empty(t, f.Acts())
	_, body := s.send("POST", "pause?reconciler=agent/v4&keys=a&format=json")
	assert.JSONEq(t, `{"error": "unknown field \"keys\", must be reconciler, table, nth, key, all or format"}`, body)
	_, body = s.send("POST", "pause?reconciler=agent/v4")
	assert.Contains(t, body, "all=true")
}
