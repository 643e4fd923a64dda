// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// hostile are keys with a special meaning in HTML, addresses or JSON, or with invisible characters.
var hostile = []string{
	"<img src=x onerror=alert(1)>", `"><script>alert(1)</script>`, "' onclick='alert(1)", "javascript:alert(1)",
	"../../etc/passwd", "a&b=c;d#e?f", "100%", "%00", "+ +", "", " ", "line\r\nSet-Cookie: a=b", "nul\x00",
	"\xff\xfe", "\u202egnp.exe", "\u2066x", "{{.}}", "</title><b>", "`${1}`", "\u2028", strings.Repeat("x", 5000),
}

func TestHostileKeysStayTextAndLinkToTheirObject(t *testing.T) {
	for _, key := range hostile {
		f := full()
		f.Lines = []inspect.ObjectLine{{Key: key, Status: "Error", Error: "reason " + key, State: inspect.StateRetry}}
		f.Explanation.Why, f.Explanation.Error, f.Explanation.BlockedOn = key, key, key
		f.Explanation.Notes, f.Explanation.Holder, f.Explanation.Group = []string{key}, key, key
		f.History = []inspect.Operation{{Key: key, Error: key, Note: key, Result: inspect.ResultFailed}}
		f.Explanation.Operations = f.History
		f.Shown.Errors = []inspect.ErrorClass{{Class: key, Key: key, Example: key}}
		f.Shown.Breaker, f.Shown.Stuck, f.Shown.PruneFailure = key, []string{key}, key
		f.Shown.Resync = &inspect.Resync{Error: key, Differences: []inspect.Difference{{Key: key, Kind: inspect.Different, Diff: key}}}
		f.Shown.Busy, f.Shown.Waiting = key, []string{key}
		f.Planned = inspect.Plan{Reconciler: key, Resync: *f.Shown.Resync}
		s := serve(t, writes, f)
		listed := decode[inspect.ObjectPage](t, s.json("objects?reconciler=agent/v4")).Objects[0].Key
		assert.Equal(t, strings.ToValidUTF8(key, "\ufffd"), strings.ReplaceAll(listed, "\ufffd\ufffd", "\ufffd"))

		arg := url.QueryEscape(key)
		for _, path := range []string{
			"", "show?reconciler=agent/v4", "objects?reconciler=agent/v4", "journal?reconciler=agent/v4",
			"journal?reconciler=agent/v4&key=" + arg, "explain?reconciler=agent/v4&key=" + arg, "plan?reconciler=agent/v4",
		} {
			page := s.page(path)
			for _, markup := range []string{"<img", "<script>", "<b>", "onclick='", "\u202e", "\u2066", "\u2028", "\x00", "\xff"} {
				assert.NotContains(t, page, markup, "%q in %s", key, path)
			}
			assert.NotContains(t, page, "ZgotmplZ", "%q in %s", key, path)
			for _, ref := range addresses(t, page) {
				u, err := url.Parse(ref)
				require.NoError(t, err)
				if u.Query().Has("key") {
					assert.Equal(t, []string{key}, u.Query()["key"], "in %s", path)
				}
			}
		}
		assert.Contains(t, f.Take(), "explain "+strconv.Quote(key))

		// The name of the reconciler is such a text, too.
		f.Identity = inspect.ID{Name: key, Table: "<b>" + key}
		for _, ref := range rows(t, s.page("")) {
			page := s.page(ref)
			assert.NotContains(t, page, "<b>")
			assert.NotContains(t, page, "<img")
			u, err := url.Parse(ref)
			require.NoError(t, err)
			assert.Equal(t, f.Identity.String(), u.Query().Get("reconciler"))
		}
	}
}

func TestHostileAddressesStayText(t *testing.T) {
	s := serve(t, writes, full())
	for _, text := range hostile {
		arg := url.QueryEscape(text)
		for _, path := range []string{
			arg, "show?reconciler=" + arg, "show?reconciler=agent/v4&did=" + arg + "&count=" + arg, "objects?reconciler=agent/v4&limit=" + arg,
			"objects?reconciler=agent/v4&status=" + arg, "objects?reconciler=agent/v4&after=" + arg, "journal?reconciler=agent/v4&since=" + arg,
			"show?reconciler=agent/v4&format=" + arg, "?format=" + arg,
		} {
			answer, body := s.send("GET", path)
			assert.NotContains(t, body, "<img", path)
			assert.NotContains(t, body, "<b>", path)
			assert.NotContains(t, body, "<script>", path)
			assert.Empty(t, answer.Header.Get("Set-Cookie"))
		}
	}
}

func TestEveryAnswerHasTheSecurityHeaders(t *testing.T) {
	s := serve(t, writes, full())
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "", 200}, {"HEAD", "", 200}, {"GET", "?format=json", 200}, {"GET", "?format=live", 200}, {"GET", "style.css", 200},
		{"GET", "live.js", 200}, {"GET", "icon.svg", 200}, {"GET", "show?reconciler=agent/v4", 200},
		{"GET", "nothing", 404}, {"POST", "", 405}, {"DELETE", "style.css", 405}, {"GET", "retry", 405},
		{"POST", "retry?reconciler=agent/v4&all=true", 303}, {"POST", "retry?reconciler=agent/v4&format=json&all=true", 200}, {"POST", "retry", 400},
	} {
		answer, _ := s.send(c.method, c.path)
		assert.Equal(t, c.want, answer.StatusCode, "%s %s", c.method, c.path)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
				"form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin",
			"Referrer-Policy": "same-origin", "Cache-Control": "no-store", "Access-Control-Allow-Origin": "",
		} {
			assert.Equal(t, want, answer.Header.Get(name), "%s of %s %s", name, c.method, c.path)
		}
	}
}
