// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// target is a reconciler with the fields that name it in the addresses of the page.
type target struct {
	inspect.Controller
	// number is that of the registry. It is in the addresses of pages if the name is ambiguous.
	number    string
	ambiguous bool
}

// loop returns the loop of the reconciler; false if it is a derivation, which has none.
func (t target) loop() (loop inspect.LoopController, ok bool) {
	loop, ok = t.Controller.(inspect.LoopController)
	return loop, ok
}

// target returns a reconciler of the registry as a target.
func (h *handler) target(c inspect.Controller) target {
	same := 0
	for _, other := range h.registry.All() {
		if other.ID().String() == c.ID().String() {
			same++
		}
	}
	return target{Controller: c, number: strconv.Itoa(h.registry.Number(c)), ambiguous: same > 1}
}

// find returns the reconciler that the fields of a request name.
func (h *handler) find(form url.Values) (target, error) {
	name := form.Get("reconciler")
	if name == "" {
		return target{}, failf(http.StatusBadRequest, "no reconciler is named: ?reconciler=NAME")
	}
	if form.Has("number") {
		for _, c := range h.registry.All() {
			if t := h.target(c); c.ID().String() == name && t.number == form.Get("number") {
				return t, nil
			}
		}
		return target{}, failf(http.StatusNotFound, "%v %q with number %q; it may have ended since the page was loaded",
			inspect.ErrNoReconciler, name, form.Get("number"))
	}
	found, err := h.registry.Find(name)
	switch {
	case errors.Is(err, inspect.ErrNoReconciler):
		return target{}, failf(http.StatusNotFound, "%v", err)
	case err != nil:
		return target{}, failf(http.StatusBadRequest, "%v", err)
	}
	return h.target(found), nil
}

// names returns the fields that name the reconciler. With its number they never name another one, also when
// this one has ended.
func (t target) names(numbered bool) []field {
	names := []field{{"reconciler", t.ID().String()}}
	if numbered || t.ambiguous {
		names = append(names, field{"number", t.number})
	}
	return names
}

// link returns the address of a page about the reconciler. rest are names and values of further fields.
func (t target) link(page string, rest ...string) string { return address(page, t.names(false), rest) }

// button returns the address of an action. The page of the button may stay open when other reconcilers of
// the same name start, and when this one ends.
func (t target) button(action string, rest ...string) string {
	return address(action, t.names(true), rest)
}

func address(page string, names []field, rest []string) string {
	values := url.Values{}
	for _, f := range names {
		values.Set(f.Name, f.Value)
	}
	for i := 0; i+1 < len(rest); i += 2 {
		values.Set(rest[i], rest[i+1])
	}
	return page + "?" + values.Encode()
}

// home is the link to the overview.
var home = link{Text: "Reconcilers", Href: "./"}

// tabs returns the links to the pages of the reconciler.
func (t target) tabs(current string) (tabs []link) {
	for _, tab := range []link{{Text: "Summary", Href: "show"}, {Text: "Objects", Href: "objects"}, {Text: "Journal", Href: "journal"}} {
		if _, ok := t.loop(); ok || tab.Href != "journal" {
			tabs = append(tabs, link{Text: tab.Text, Href: t.link(tab.Href), Current: tab.Href == current})
		}
	}
	return tabs
}

// findSource returns the source that the fields of a request name.
func (h *handler) findSource(form url.Values) (inspect.Source, error) {
	if s := operator.Source(h.registry, form.Get("source")); s != nil {
		return s, nil
	}
	return nil, failf(http.StatusNotFound, "no source %q", form.Get("source"))
}

// sourceLink returns the address of a page about a source, or of its button.
func sourceLink(page string, s inspect.Source, rest ...string) string {
	return address(page, []field{{"source", s.Input()}}, rest)
}
