// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// actionOf returns the action with the name, which is the last element of its path; nil if there is none.
func actionOf(name string) *operator.Action {
	for i := range operator.Actions {
		if operator.Actions[i].Name == name {
			return &operator.Actions[i]
		}
	}
	return nil
}

// act answers a request for an action.
func (h *handler) act(w http.ResponseWriter, r *http.Request, a *operator.Action) {
	done, where, err := h.try(w, r, a)
	switch {
	case err != nil:
		refuse(w, r, err)
	case wantsJSON(r):
		writeJSON(w, http.StatusOK, done)
	default:
		// The location is relative to the path as the browser sent it: a prefix may have been stripped.
		w.Header().Set("Location", where)
		w.WriteHeader(http.StatusSeeOther)
	}
}

// try checks the request and runs the action. It returns the address of the next page.
func (h *handler) try(w http.ResponseWriter, r *http.Request, a *operator.Action) (done operator.Done, where string, err error) {
	if !h.writes {
		return done, "", failf(http.StatusForbidden, "writes are not enabled on this page")
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return done, "", failf(http.StatusMethodNotAllowed, "method is %s, must be POST", r.Method)
	}
	if err := h.origins.Check(r); err != nil {
		return done, "", failf(http.StatusForbidden, "%v", err)
	}
	form, err := readForm(r)
	if err != nil {
		return done, "", err
	}
	if form.Has("source") {
		return h.approve(r, a, form)
	}
	t, err := h.find(form)
	if err != nil {
		return done, "", err
	}
	if form.Has("key") && !a.OnObject {
		return done, "", failf(http.StatusBadRequest, "%s is for a whole reconciler, not for a key", a.Name)
	}
	done, err = a.Do(r.Context(), t.Controller, form["key"]...)
	if err != nil {
		return done, "", failf(http.StatusConflict, "%v", err)
	}
	did := []string{"did", a.Name}
	if done.Objects != nil {
		did = append(did, "count", strconv.Itoa(*done.Objects))
	}
	if form.Has("key") {
		return done, t.link("explain", append(did, "key", done.Key)...), nil
	}
	return done, t.link("show", did...), nil
}

// approve approves the deletions that a source holds.
func (h *handler) approve(r *http.Request, a *operator.Action, form url.Values) (done operator.Done, where string, err error) {
	if a.Name != "approve" {
		return done, "", failf(http.StatusBadRequest, "%s is for a reconciler, not for a source", a.Name)
	}
	s, err := h.findSource(form)
	if err != nil {
		return done, "", err
	}
	if done, err = operator.ApproveSource(r.Context(), s, form.Get("set")); err != nil {
		return done, "", failf(http.StatusConflict, "%v", err)
	}
	return done, sourceLink("source", s, "did", a.Name, "count", strconv.Itoa(*done.Objects)), nil
}

// fields are the possible fields of an action. Unknown fields are refused: a misspelled "key" must not
// act on the whole reconciler.
var fields = []string{"reconciler", "number", "key", "all", "source", "set", "format"}

// readForm returns the fields of an action, which are in its address. A request with a body is refused for
// the same reason as an unknown field.
func readForm(r *http.Request) (url.Values, error) {
	if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n > 0 {
		return nil, failf(http.StatusUnsupportedMediaType, "the request has a body; the fields must be in its address")
	}
	form, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, failf(http.StatusBadRequest, "%v", err)
	}
	for name, values := range form {
		if !slices.Contains(fields, name) {
			return nil, failf(http.StatusBadRequest, "unknown field %q, must be one of %s", name, strings.Join(fields, ", "))
		}
		if len(values) > 1 {
			return nil, failf(http.StatusBadRequest, "%s is there %d times, must be there once", name, len(values))
		}
	}
	key, all, source := form.Has("key"), form.Has("all"), form.Has("source")
	switch {
	case source && (key || all || form.Has("reconciler") || form.Has("number")):
		return nil, failf(http.StatusBadRequest, "source is set together with key, all, reconciler or number")
	case source && form.Get("set") == "":
		return nil, failf(http.StatusBadRequest, "no set is named: set=SET, which the page of the source has")
	case source:
	case form.Has("set"):
		return nil, failf(http.StatusBadRequest, "set is there without source")
	case all && form.Get("all") != "true":
		return nil, failf(http.StatusBadRequest, "all is %q, must be true", form.Get("all"))
	case all && key:
		return nil, failf(http.StatusBadRequest, "key and all are both set")
	case !all && !key:
		return nil, failf(http.StatusBadRequest, "no object is named: key=KEY, or all=true for the whole reconciler")
	}
	return form, nil
}

// outcome returns the message about the action that led to this page. Its text comes from the actions,
// not from the address.
func outcome(form url.Values) string {
	n, err := strconv.Atoi(form.Get("count"))
	if err != nil {
		n = -1
	}
	return operator.Text(form.Get("did"), n)
}

// buttons returns the buttons for the whole reconciler; none without writes. The button to approve a
// resync is there only if a resync awaits it.
func (h *handler) buttons(t target, s inspect.Snapshot) (out []action) {
	for _, a := range operator.Actions {
		if h.writes && (a.Name != "approve" || s.AwaitsApproval) {
			out = append(out, action{Text: a.Label, Href: t.button(a.Name, "all", "true")})
		}
	}
	return out
}

// objectButtons returns the buttons for one object; none without writes. Rows of a derivation cannot be paused.
func (h *handler) objectButtons(t target, key string) (out []action) {
	_, loop := t.loop()
	for _, a := range operator.Actions {
		if h.writes && a.OnObject && (loop || a.Name == "retry" || a.Name == "refresh") {
			out = append(out, action{Text: a.Label, Href: t.button(a.Name, "key", key)})
		}
	}
	return out
}
