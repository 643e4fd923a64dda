// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// target is a reconciler with the fields that name it in the addresses of the page.
type target struct {
	inspect.Controller
	// query has the name. The table is added if several reconcilers have the name, and nth, the
	// position among them, if they also have the same table.
	query []field
}

// loop returns the loop of the reconciler; false if it is a derivation, which has none.
func (t target) loop() (loop inspect.Loop, ok bool) {
	loop, ok = t.Controller.(inspect.Loop)
	return loop, ok
}

// targets returns all reconcilers of the registry.
func (h *handler) targets() []target {
	all := h.registry.All()
	names, ids := map[string]int{}, map[inspect.ID]int{}
	for _, i := range all {
		names[i.ID().String()]++
		ids[i.ID()]++
	}
	nth := map[inspect.ID]int{}
	found := make([]target, len(all))
	for n, i := range all {
		id := i.ID()
		nth[id]++
		query := []field{{"reconciler", id.String()}}
		if names[id.String()] > 1 {
			query = append(query, field{"table", id.Table})
		}
		if ids[id] > 1 {
			query = append(query, field{"nth", strconv.Itoa(nth[id])})
		}
		found[n] = target{i, query}
	}
	return found
}

// find returns the reconciler that the fields of a request name.
func (h *handler) find(form url.Values) (target, error) {
	name := form.Get("reconciler")
	if name == "" {
		return target{}, failf(http.StatusBadRequest, "no reconciler is named: ?reconciler=NAME")
	}
	all := h.targets()
	for _, t := range all {
		if t.meant(form) {
			return t, nil
		}
	}
	if form.Has("table") || form.Has("nth") {
		return target{}, failf(http.StatusNotFound, "%v %q with table %q and nth %q",
			inspect.ErrNoReconciler, name, form.Get("table"), form.Get("nth"))
	}
	// A person may type the short name.
	found, err := h.registry.Find(name)
	switch {
	case errors.Is(err, inspect.ErrNoReconciler):
		return target{}, failf(http.StatusNotFound, "%v", err)
	case err != nil:
		return target{}, failf(http.StatusBadRequest, "%v", err)
	}
	for _, t := range all {
		if t.Controller == found {
			return t, nil
		}
	}
	return target{found, []field{{"reconciler", found.ID().String()}}}, nil
}

// meant reports whether a request has all fields of the target's query.
func (t target) meant(form url.Values) bool {
	for _, f := range t.query {
		if form.Get(f.Name) != f.Value {
			return false
		}
	}
	return true
}

// link returns the address of a page about the reconciler. rest are names and values of further fields.
func (t target) link(page string, rest ...string) string {
	values := url.Values{}
	for _, f := range t.query {
		values.Set(f.Name, f.Value)
	}
	for i := 0; i+1 < len(rest); i += 2 {
		values.Set(rest[i], rest[i+1])
	}
	return page + "?" + values.Encode()
}

// home is the link to the overview.
var home = link{Text: "Reconcilers", Href: "./"}

// page returns the common part of the pages about the reconciler.
func (t target) page(title, current string) view {
	v := view{Title: title, Trail: []link{home, {Text: visible(t.ID().String()), Href: t.link("show")}}}
	tabs := []struct{ text, page string }{{"Summary", "show"}, {"Objects", "objects"}, {"Journal", "journal"}}
	if _, ok := t.loop(); !ok {
		tabs = tabs[:2] // no journal
	}
	for _, tab := range tabs {
		v.Tabs = append(v.Tabs, link{Text: tab.text, Href: t.link(tab.page), Current: tab.page == current})
	}
	return v
}

// object returns a cell that links to the explanation of an object.
func (t target) object(key string) cell {
	return cell{Text: visible(key), Href: t.link("explain", "key", key), Kind: code}
}
