// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// target is a reconciler with the fields that name it in the addresses of the page.
type target struct {
	inspect.Controller
	// exact has the name, the table and nth. query has the name, the table if several reconcilers have the name,
	// and nth if they also have the same table.
	query, exact []field
}

// loop returns the loop of the reconciler; false if it is a derivation, which has none.
func (t target) loop() (loop inspect.Loop, ok bool) {
	loop, ok = t.Controller.(inspect.Loop)
	return loop, ok
}

// numbers tells reconcilers of one name and one table apart. The nth of a reconciler is its number in the order in
// which the page has seen them. It never becomes that of another one: a page may be open when its reconciler ends.
type numbers struct {
	mu   sync.Mutex
	of   map[inspect.Controller]int
	last map[called]int
}

// called is what a person sees of the ID of a reconciler.
type called struct{ name, table string }

func calledBy(i inspect.Controller) called { return called{i.ID().String(), i.ID().Table} }

// number returns the numbers of all reconcilers of the registry.
func (n *numbers) number(all []inspect.Controller) []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last == nil {
		n.last = map[called]int{}
	}
	of, out := make(map[inspect.Controller]int, len(all)), make([]int, len(all))
	for at, i := range all {
		nth, known := n.of[i]
		if !known {
			n.last[calledBy(i)]++
			nth = n.last[calledBy(i)]
		}
		of[i], out[at] = nth, nth
	}
	n.of = of
	return out
}

// targets returns all reconcilers of the registry.
func (h *handler) targets() []target {
	all := h.registry.All()
	names, same := map[string]int{}, map[called]int{}
	for _, i := range all {
		names[calledBy(i).name]++
		same[calledBy(i)]++
	}
	found := make([]target, len(all))
	for n, nth := range h.numbers.number(all) {
		id := calledBy(all[n])
		exact := []field{{"reconciler", id.name}, {"table", id.table}, {"nth", strconv.Itoa(nth)}}
		fields := 1
		if same[id] > 1 {
			fields = 3
		} else if names[id.name] > 1 {
			fields = 2
		}
		found[n] = target{all[n], exact[:fields], exact}
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
		return target{}, failf(http.StatusNotFound, "%v %q with table %q and nth %q; it may have ended since the page was loaded",
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
	return target{}, failf(http.StatusNotFound, "%v %q", inspect.ErrNoReconciler, name) // it has just been added
}

// meant reports whether a request has all fields of the target's query, and no field of another one.
func (t target) meant(form url.Values) bool {
	for n, f := range t.exact {
		if (n < len(t.query) || form.Has(f.Name)) && form.Get(f.Name) != f.Value {
			return false
		}
	}
	return true
}

// button returns the address of an action. It names this reconciler and no other one: the page may stay open when
// others start, and when this one ends.
func (t target) button(action string, rest ...string) string {
	return target{t.Controller, t.exact, t.exact}.link(action, rest...)
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
