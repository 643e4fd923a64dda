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

// act answers a request for a command that acts.
func (h *handler) act(w http.ResponseWriter, r *http.Request, c *operator.Command) {
	answer, where, err := h.try(w, r, c)
	switch {
	case err != nil:
		refuse(w, r, err)
	case wantsJSON(r):
		writeJSON(w, http.StatusOK, answer.Data)
	default:
		// The location is relative to the path as the browser sent it: a prefix may have been stripped.
		w.Header().Set("Location", where)
		w.WriteHeader(http.StatusSeeOther)
	}
}

// try checks the request and runs the command. It returns the address of the next page.
func (h *handler) try(w http.ResponseWriter, r *http.Request, c *operator.Command) (answer operator.Answer, where string, err error) {
	if !h.writes {
		return answer, "", failf(http.StatusForbidden, "writes are not enabled on this page")
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return answer, "", failf(http.StatusMethodNotAllowed, "method is %s, must be POST", r.Method)
	}
	if err := h.origins.Check(r); err != nil {
		return answer, "", failf(http.StatusForbidden, "%v", err)
	}
	form, err := readForm(r)
	if err != nil {
		return answer, "", err
	}
	in := &operator.Input{Registry: h.registry, Key: form["key"]}
	var t target
	switch {
	case form.Has("source") && !c.OnSource:
		err = failf(http.StatusBadRequest, "%s is for a reconciler, not for a source", c.Name)
	case form.Has("source"):
		in.Source, err = h.findSource(form)
		in.Key = form["set"]
	case form.Has("key") && !c.OnObject():
		err = failf(http.StatusBadRequest, "%s is for a whole reconciler, not for a key", c.Name)
	default:
		t, err = h.find(form)
		in.Reconciler = t.Controller
	}
	if err != nil {
		return answer, "", err
	}
	if answer, err = c.Run(r.Context(), in); err != nil {
		return answer, "", failf(http.StatusConflict, "%v", err)
	}
	did := []string{"did", c.Name}
	if answer.Objects >= 0 {
		did = append(did, "count", strconv.Itoa(answer.Objects))
	}
	switch {
	case in.Source != nil:
		return answer, sourceLink("source", in.Source, did...), nil
	case form.Has("key"):
		return answer, t.link("explain", append(did, "key", form.Get("key"))...), nil
	}
	return answer, t.link("show", did...), nil
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

// done returns the message about the command that led to this page. Its text comes from the commands,
// not from the address.
func done(form url.Values, toSource bool) string {
	n, err := strconv.Atoi(form.Get("count"))
	if err != nil {
		n = -1
	}
	return operator.DoneText(form.Get("did"), toSource, n)
}

// buttons returns the buttons for the whole reconciler; none without writes. The button to approve a
// resync is there only if a resync awaits it.
func (h *handler) buttons(t target, s inspect.Snapshot) (out []action) {
	for _, c := range h.commands {
		if h.writes && c.Label != "" && (!c.OnSource || s.AwaitsApproval) {
			out = append(out, action{Text: c.Label, Href: t.button(c.Name, "all", "true")})
		}
	}
	return out
}

// objectButtons returns the buttons for one object; none without writes. Rows of a derivation cannot be paused.
func (h *handler) objectButtons(t target, key string) (out []action) {
	_, loop := t.loop()
	for _, c := range h.commands {
		if h.writes && c.Label != "" && c.OnObject() && (loop || c.Name == "retry" || c.Name == "refresh") {
			out = append(out, action{Text: c.Label, Href: t.button(c.Name, "key", key)})
		}
	}
	return out
}
