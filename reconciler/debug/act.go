// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/statekeel/statekeel/internal/pauses"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// deed is the action of a button.
type deed struct {
	// name is the last element of the path, text the label of the button.
	name, text string
	// whole acts on the whole reconciler, keys on the objects with the given keys; keys may be nil.
	// They return the number of objects, or -1 if the objects were not counted.
	whole func(ctx context.Context, t target) (int, error)
	keys  func(ctx context.Context, t target, keys []string) (int, error)
	// done is the message after the action.
	done string
}

// actions are the actions by the last element of their path.
var actions = map[string]deed{
	"retry": {
		name: "retry", text: "Retry", done: "Waiting objects are due now",
		whole: func(ctx context.Context, t target) (int, error) { return t.Retry(ctx) },
		keys:  func(ctx context.Context, t target, keys []string) (int, error) { return t.Retry(ctx, keys...) },
	},
	"refresh": {
		name: "refresh", text: "Refresh", done: "Done objects will be refreshed",
		whole: func(ctx context.Context, t target) (int, error) {
			_, err := t.Refresh(ctx)
			return -1, err
		},
		keys: func(ctx context.Context, t target, keys []string) (int, error) { return t.Refresh(ctx, keys...) },
	},
	"prune": {
		name: "prune", text: "Prune", done: "A prune was requested",
		whole: func(_ context.Context, t target) (int, error) { t.Prune(); return -1, nil },
	},
	"approve": {
		name: "approve", text: "Approve resync", done: "The next resync may delete beyond its budget",
		whole: func(_ context.Context, t target) (int, error) {
			loop, ok := t.loop()
			if !ok {
				return -1, errors.New("a derivation has no resyncs, there is nothing to approve")
			}
			if !loop.ApproveResync() {
				return -1, errors.New("no resync has stopped at its budget, there is nothing to approve")
			}
			return -1, nil
		},
	},
	"pause": {
		name: "pause", text: "Pause", done: "Paused",
		whole: func(_ context.Context, t target) (int, error) { t.Pause(); return -1, nil },
		keys: func(ctx context.Context, t target, keys []string) (int, error) {
			return len(keys), pauses.Add(ctx, t.Controller, keys...)
		},
	},
	"resume": {
		name: "resume", text: "Resume", done: "Resumed",
		whole: func(_ context.Context, t target) (int, error) { t.Resume(); return -1, nil },
		keys: func(ctx context.Context, t target, keys []string) (int, error) {
			return len(keys), pauses.Remove(ctx, t.Controller, keys...)
		},
	},
}

// act answers a request for an action.
func (h *handler) act(w http.ResponseWriter, r *http.Request, a deed) {
	n, where, err := h.try(w, r, a)
	switch {
	case err != nil:
		refuse(w, r, err)
	case wantsJSON(r):
		answer := map[string]any{"done": a.done}
		if n >= 0 {
			answer["objects"] = n
		}
		writeJSON(w, http.StatusOK, answer)
	default:
		// The location is relative to the path as the browser sent it: a prefix may have been stripped.
		w.Header().Set("Location", where)
		w.WriteHeader(http.StatusSeeOther)
	}
}

// longest bounds an action: a reconciler that is in an operation takes it only after that.
const longest = 10 * time.Second

// try checks the request and runs the action. It returns the number of objects, -1 if they were not
// counted, and the address of the next page.
func (h *handler) try(w http.ResponseWriter, r *http.Request, a deed) (n int, where string, err error) {
	if !h.writes {
		return 0, "", failf(http.StatusForbidden, "writes are not enabled on this page")
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return 0, "", failf(http.StatusMethodNotAllowed, "method is %s, must be POST", r.Method)
	}
	if err := h.origins.Check(r); err != nil {
		return 0, "", failf(http.StatusForbidden, "%v", err)
	}
	form, err := readForm(w, r)
	if err != nil {
		return 0, "", err
	}
	t, err := h.find(form)
	if err != nil {
		return 0, "", err
	}
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	keys, did := form["key"], []string{"did", a.name}
	switch {
	case form.Has("all"):
		n, err = a.whole(ctx, t)
		where = t.link("show", append(did, "count", strconv.Itoa(n))...)
	case a.keys == nil:
		return 0, "", failf(http.StatusBadRequest, "%s is for a whole reconciler, not for a key", a.name)
	default:
		n, err = a.keys(ctx, t, keys)
		where = t.link("explain", append(did, "count", strconv.Itoa(n), "key", keys[0])...)
	}
	if err != nil {
		return 0, "", failf(http.StatusConflict, "%v", err)
	}
	return n, where, nil
}

// outcome returns the message about the action that led to this page. Its text comes from the actions,
// not from the address.
func outcome(form url.Values) string {
	a, ok := actions[form.Get("did")]
	if !ok {
		return ""
	}
	if n, err := strconv.Atoi(form.Get("count")); err == nil && n >= 0 {
		return a.done + ": " + number(n) + " " + plural(n, "object", "objects") + "."
	}
	return a.done + "."
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// buttons returns the buttons for the whole reconciler; none without writes. The button to approve a
// resync is there only if a resync awaits it.
func (h *handler) buttons(t target, s inspect.Snapshot) []action {
	if !h.writes {
		return nil
	}
	var out []action
	for _, name := range []string{"retry", "refresh", "prune", "approve", "pause", "resume"} {
		if name == "approve" && !s.AwaitsApproval {
			continue
		}
		out = append(out, action{Text: actions[name].text, Href: t.button(name, "all", "true")})
	}
	return out
}

// objectButtons returns the buttons for one object; none without writes.
func (h *handler) objectButtons(t target, key string) []action {
	if !h.writes {
		return nil
	}
	names := []string{"retry", "refresh"}
	if _, ok := t.loop(); ok {
		names = append(names, "pause", "resume")
	}
	var out []action
	for _, name := range names {
		out = append(out, action{Text: actions[name].text, Href: t.button(name, "key", key)})
	}
	return out
}
