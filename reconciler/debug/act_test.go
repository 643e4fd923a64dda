// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// acts are requests of all actions, each with the call of the reconciler, the result and the number of objects in the JSON.
var acts = []struct{ path, did, note, json string }{
	{"retry?reconciler=agent/v4&all=true", "retry []", "1 object(s) will be retried now", `"action": "retry", "objects": 1`},
	{"retry?reconciler=agent/v4&key=a", `retry ["a"]`, "1 object(s) will be retried now", `"action": "retry", "key": "a", "objects": 1`},
	{"retry?reconciler=agent/v4&key=", `retry [""]`, "1 object(s) will be retried now", `"action": "retry", "objects": 1`},
	{"refresh?reconciler=agent/v4&all=true", "refresh []", "all Done objects will be refreshed", `"action": "refresh"`},
	{"refresh?reconciler=agent/v4&key=a", `refresh ["a"]`, "it will be refreshed", `"action": "refresh", "key": "a", "objects": 1`},
	{"prune?reconciler=agent/v4&all=true", "prune", "a prune was requested; it runs once the table is initialised and nothing holds it back", `"action": "prune"`},
	{"approve?reconciler=agent/v4&all=true", "approve", "the next resync may delete beyond its budget", `"action": "approve"`},
	{"pause?reconciler=agent/v4&all=true", "pause", "paused, until it is resumed", `"action": "pause"`},
	{"pause?reconciler=agent/v4&key=%0A", `pause only ["a" "\n"]`, "paused, until it is resumed", `"action": "pause", "key": "\n"`},
	{"resume?reconciler=agent/v4&all=true", "resume", "resumed", `"action": "resume"`},
	{"resume?reconciler=agent/v4&key=a", `pause only []`, "resumed", `"action": "resume", "key": "a"`},
}

func TestActionsNeedWithWritesAndPost(t *testing.T) {
	f := full()
	for _, c := range []struct {
		opts    []debug.Option
		methods []string
		want    int
		allow   string
	}{
		{nil, []string{"POST", "GET", "PUT"}, http.StatusForbidden, ""},
		{writes, []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"}, http.StatusMethodNotAllowed, "POST"},
	} {
		s := serve(t, c.opts, f)
		for _, act := range acts {
			for _, method := range c.methods {
				answer, _ := s.send(method, act.path)
				assert.Equal(t, c.want, answer.StatusCode, "%s %s", method, act.path)
				assert.Equal(t, c.allow, answer.Header.Get("Allow"), "%s %s", method, act.path)
			}
		}
		for _, path := range []string{
			"", "show?reconciler=agent/v4&did=pause", "explain?reconciler=agent/v4&key=a&did=retry", "objects?reconciler=agent/v4",
		} {
			page := s.page(path)
			if c.opts == nil {
				assert.NotContains(t, page, `method="post"`, path)
			}
			answer, _ := s.send("POST", path)
			assert.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode, path)
			assert.Equal(t, "GET, HEAD", answer.Header.Get("Allow"))
		}
	}
	assert.Empty(t, f.Acts())
}

func TestActionsCallTheReconcilerAndReportTheResult(t *testing.T) {
	f := full()
	s := serve(t, writes, f)
	for _, act := range acts {
		f.Shown.Paused = []string{"a"}
		answer, _ := s.send("POST", act.path, with("Accept", "text/html"))
		assert.Equal(t, http.StatusSeeOther, answer.StatusCode, act.path)
		assert.Equal(t, []string{act.did}, f.Acts(), act.path)
		where := answer.Header.Get("Location")
		assert.Regexp(t, `^(show|explain)\?`, where)
		assert.Contains(t, s.page(where), "<p class=\"note\" role=\"status\">"+act.note+"</p>", act.path)

		f.Shown.Paused = []string{"a"}
		answer, body := s.send("POST", act.path, with("Accept", "application/json"))
		assert.Equal(t, http.StatusOK, answer.StatusCode, act.path)
		assert.JSONEq(t, fmt.Sprintf(`{"reconciler": "agent/v4", "done": %q, %s}`, act.note, act.json), body, act.path)
		assert.Equal(t, []string{act.did}, f.Acts(), act.path)
	}
}

func TestActionsFromAnotherSiteAreRefused(t *testing.T) {
	f := full()
	s := serve(t, writes, f)
	for _, c := range []struct {
		name, value string
		allowed     bool
	}{
		{"Sec-Fetch-Site", "cross-site", false},
		{"Sec-Fetch-Site", "same-site", false},
		{"Origin", "http://evil.test", false},
		{"Origin", "http://here.test:81", false},
		{"Origin", "null", false},
		{"Sec-Fetch-Site", "same-origin", true},
		{"Sec-Fetch-Site", "none", true},
		{"Origin", "http://here.test", true},
	} {
		for _, act := range acts {
			f.Shown.Paused = []string{"a"}
			answer, _ := s.send("POST", act.path, with(c.name, c.value))
			want, did := http.StatusForbidden, []string(nil)
			if c.allowed {
				want, did = http.StatusSeeOther, []string{act.did}
			}
			assert.Equal(t, want, answer.StatusCode, "%s with %s: %s", act.path, c.name, c.value)
			assert.ElementsMatch(t, did, f.Acts())
		}
	}
}

func TestInvalidActionsAreRefused(t *testing.T) {
	f := full()
	s := serve(t, writes, f)
	for path, want := range map[string]int{
		"retry":                             http.StatusBadRequest,
		"pause?reconciler=unknown&key=a":    http.StatusNotFound,
		"prune?reconciler=agent/v4&key=a":   http.StatusBadRequest,
		"approve?reconciler=agent/v4&key=a": http.StatusBadRequest,
	} {
		answer, _ := s.send("POST", path)
		assert.Equal(t, want, answer.StatusCode, path)
	}
	assert.Empty(t, f.Acts())

	f.Err = errors.New("object is <gone>")
	f.Shown.Paused = []string{"a"}
	for _, path := range []string{"retry?reconciler=agent/v4&all=true", "refresh?reconciler=agent/v4&all=true", "pause?reconciler=agent/v4&key=a", "resume?reconciler=agent/v4&key=a"} {
		answer, body := s.send("POST", path)
		assert.Equal(t, http.StatusConflict, answer.StatusCode, path)
		assert.Contains(t, body, "object is &lt;gone&gt;")
	}
}

func TestApproveButtonIsThereOnlyWhileAResyncAwaitsApproval(t *testing.T) {
	f := full()
	s := serve(t, writes, f)
	assert.Contains(t, s.page("show?reconciler=agent/v4"), "<button>Approve resync</button>")
	f.Shown.AwaitsApproval = false
	assert.NotContains(t, s.page("show?reconciler=agent/v4"), "Approve")
	f.Approves = false
	answer, body := s.send("POST", "approve?reconciler=agent/v4&all=true&format=json")
	assert.Equal(t, http.StatusConflict, answer.StatusCode)
	assert.JSONEq(t, `{"error": "no resync has stopped at its budget, there is nothing to approve"}`, body)
}

func TestPageOfADerivationHasNoJournal(t *testing.T) {
	// Only the methods of the interface are there.
	s := serve(t, writes, struct{ inspect.Controller }{full()})
	for _, path := range []string{"show?reconciler=agent/v4", "explain?reconciler=agent/v4&key=a", "objects?reconciler=agent/v4"} {
		page := s.page(path)
		for _, ref := range addresses(t, page) {
			assert.NotContains(t, ref, "journal", path)
		}
	}
	assert.NotContains(t, s.page("explain?reconciler=agent/v4&key=a"), "<button>Pause")
	for path, text := range map[string]string{
		"journal?reconciler=agent/v4":          "agent/v4 is a derivation: it has no journal",
		"plan?reconciler=agent/v4":             "agent/v4 is a derivation: it has no target to list",
		"approve?reconciler=agent/v4&all=true": "agent/v4 is a derivation: it has no resyncs, there is nothing to approve",
		"pause?reconciler=agent/v4&key=a":      "single rows of a derivation cannot be paused",
	} {
		method := "POST"
		if strings.HasPrefix(path, "journal") || strings.HasPrefix(path, "plan") {
			method = "GET"
		}
		answer, body := s.send(method, path, with("Accept", "application/json"))
		assert.GreaterOrEqual(t, answer.StatusCode, 400, path)
		assert.Contains(t, strings.ReplaceAll(body, `\"`, `"`), text, path)
	}
}

// Whatever the handler does not understand may be a key: it must not act on the whole reconciler instead.
func TestActionsThatAreNotUnderstoodAreRefused(t *testing.T) {
	f := full()
	s := serve(t, writes, f)
	multipart := "--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\na\r\n--x--\r\n"
	for _, name := range []string{"retry", "refresh", "prune", "approve", "pause", "resume"} {
		for _, c := range []struct{ contentType, body string }{
			{"application/json", `{"key":"a"}`}, {"text/plain", "key=a"}, {"multipart/form-data; boundary=x", multipart},
			{"", "key=a"}, {"no type at all", "key=a"}, {"application/x-www-form-urlencoded", "key=a"},
		} {
			for _, query := range []string{"", "&all=true", "&key=b"} {
				answer, body := s.send("POST", name+"?reconciler=agent/v4"+query, withBody(c.contentType, c.body))
				assert.Equal(t, http.StatusUnsupportedMediaType, answer.StatusCode, "%s%s with %q: %s", name, query, c.contentType, body)
			}
		}
		for _, fields := range []string{
			"", "&keys=a", "&Key=a", "&all=true&key[]=a", "&object=a", "&key=a&dry-run=true", "&all=true&%00=x",
			"&all=1", "&all=", "&all=false", "&all=true&all=true", "&all=true&key=a", "&key=a&key=b", "&key=a&reconciler=agent/v6", "&key=a;b=c",
		} {
			answer, body := s.send("POST", name+"?reconciler=agent/v4"+fields)
			assert.Equal(t, http.StatusBadRequest, answer.StatusCode, "%s with %s: %s", name, fields, body)
		}
	}
	assert.Empty(t, f.Acts())
	_, body := s.send("POST", "pause?reconciler=agent/v4&keys=a&format=json")
	assert.JSONEq(t, `{"error": "unknown field \"keys\", must be one of reconciler, number, key, all, source, set, format"}`, body)
	_, body = s.send("POST", "pause?reconciler=agent/v4")
	assert.Contains(t, body, "all=true")
}

// A page may stay open for hours. Another reconciler of the same name may start meanwhile, and its own may end.
func TestAButtonActsOnTheReconcilerOfItsPageOnly(t *testing.T) {
	blue, green, twin := newFake("v4"), newFake("v4"), newFake("v4")
	green.Identity.Table = "rules"
	for name, c := range map[string]struct {
		// There are these when the page is opened, then the others join, then the first one ends.
		open, join []inspect.Controller
	}{
		"alone":                 {open: []inspect.Controller{blue}},
		"another table":         {open: []inspect.Controller{blue, green}},
		"another table later":   {open: []inspect.Controller{blue}, join: []inspect.Controller{green}},
		"the same table":        {open: []inspect.Controller{blue, twin}},
		"the same table later":  {open: []inspect.Controller{blue}, join: []inspect.Controller{twin}},
		"three of a name later": {open: []inspect.Controller{blue, green}, join: []inspect.Controller{twin}},
	} {
		t.Run(name, func(t *testing.T) {
			registry := &inspect.Registry{}
			s := &server{t, debug.New(registry, writes...)}
			for _, i := range c.open {
				registry.Add(i)
			}
			buttons := map[inspect.Controller][]string{}
			all := append(c.open, c.join...)
			press := func(of, did inspect.Controller, want int) {
				for _, button := range buttons[of] {
					answer, body := s.send("POST", button, with("Accept", "application/json"))
					assert.Equal(t, want, answer.StatusCode, "%s: %s", button, body)
				}
				for _, one := range all {
					assert.Equal(t, one == did, len(one.(*fake.Controller).Acts()) > 0, "button of %v acts on %v", of.ID(), one.ID())
				}
			}
			for _, ref := range addresses(t, s.page("")) {
				if strings.HasPrefix(ref, "show?") {
					page := s.page(ref)
					of := c.open[len(buttons)]
					for _, to := range addresses(t, page) {
						if strings.HasPrefix(to, "pause?") || strings.HasPrefix(to, "retry?") {
							buttons[of] = append(buttons[of], to)
						}
					}
					require.Len(t, buttons[of], 2)
				}
			}
			require.Len(t, buttons, len(c.open))
			for _, of := range c.open {
				press(of, of, http.StatusOK)
			}
			for _, i := range c.join {
				registry.Add(i)
			}
			for _, of := range c.open {
				press(of, of, http.StatusOK)
			}
			registry.Remove(blue)
			press(blue, nil, http.StatusNotFound)
			for _, of := range c.open[1:] {
				press(of, of, http.StatusOK)
			}
			registry.Add(newFake("v4"))
			press(blue, nil, http.StatusNotFound)
		})
	}
}
