// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// overview returns the page with the list of the reconcilers.
func (h *handler) overview(r *http.Request) (answer, error) {
	all := h.registry.All()
	snapshots := operator.Snapshots(r.Context(), all)
	v := view{
		Title: "Reconcilers",
		Trail: []link{{Text: home.Text, Href: home.Href, Current: true}},
		Live:  "./?format=live",
		AsOf:  text.Stamp(time.Now()),
	}
	list := inspect.SnapshotsTable(snapshots)
	for i, row := range list.Rows {
		row[0].Href = h.target(all[i]).link("show")
	}
	v.Tables = []text.Table{list}
	data := map[string]any{"reconcilers": snapshots}
	if sources := operator.Sources(h.registry); len(sources) > 0 {
		data["sources"] = sources
		table := inspect.SourcesTable(sources)
		for i, row := range table.Rows {
			row[0].Href = address("source", []field{{"source", sources[i].Name}}, nil)
		}
		v.Tables = append(v.Tables, table)
	}
	return answer{data: data, view: v}, nil
}

// source returns the page of one source.
func (h *handler) source(r *http.Request) (answer, error) {
	form := r.URL.Query()
	s, err := h.findSource(form)
	if err != nil {
		return answer{}, err
	}
	x := s.Snapshot()
	v := view{
		Title: text.Plain(x.Name), ActOn: "this source",
		Trail: []link{home, {Text: text.Plain(x.Name), Href: sourceLink("source", s), Current: true}},
		Live:  sourceLink("source", s, "format", "live"),
	}
	if n, err := strconv.Atoi(form.Get("count")); err == nil && form.Has("did") {
		v.Note = operator.ApprovedText(n)
	}
	if h.writes && x.Held != nil {
		// The button is for what the page shows: the answer to it is an error if another set is held by then.
		v.Actions = []action{{
			Text: "Delete exactly these " + strconv.Itoa(x.Held.Rows) + " rows", Href: sourceLink("approve", s, "set", x.Held.Set),
		}}
	}
	now := time.Now()
	v.show(now, x.Report(now))
	return answer{data: map[string]any{"source": x}, view: v}, nil
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

// show returns the page of one reconciler.
func (h *handler) show(r *http.Request) (answer, error) {
	form := r.URL.Query()
	t, err := h.find(form)
	if err != nil {
		return answer{}, err
	}
	s := t.Snapshot(r.Context())
	v := t.page(text.Plain(s.ID.String()), "show")
	v.Live = t.link("show", "format", "live")
	v.Note = outcome(form)
	v.Actions, v.Drastic, v.ActOn = h.buttons(t, s), true, "the whole reconciler"
	v.Lookup = t.names(false)
	v.show(s.At, s.Report())
	if s.Lists {
		v.Next = &link{Text: "What a resync would do now (lists the target)", Href: t.link("plan")}
	}
	return answer{data: map[string]any{"snapshot": s}, view: t.linked(v)}, nil
}

// explain returns the page of one object.
func (h *handler) explain(r *http.Request) (answer, error) {
	form := r.URL.Query()
	t, err := h.find(form)
	if err != nil {
		return answer{}, err
	}
	if !form.Has("key") {
		return answer{}, failf(http.StatusBadRequest, "no object is named: &key=KEY")
	}
	key := form.Get("key")
	e := t.Explain(r.Context(), key)

	v := t.page(text.Name(e.Key), "")
	v.Trail = append(v.Trail, link{Text: text.Name(key), Href: t.link("explain", "key", key), Current: true})
	v.Live = t.link("explain", "key", key, "format", "live")
	v.Note = outcome(form)
	v.Actions, v.ActOn = h.objectButtons(t, key), "this object"
	v.show(e.At, e.Report())
	if _, ok := t.loop(); ok {
		v.Next = &link{Text: "All its operations in the journal", Href: t.link("journal", "key", key)}
	}
	return answer{data: e, view: t.linked(v)}, nil
}

// plan returns the page of what a resync would do now. It is not live, since it lists the target.
func (h *handler) plan(r *http.Request) (answer, error) {
	t, err := h.find(r.URL.Query())
	if err != nil {
		return answer{}, err
	}
	p, err := operator.Plan(r.Context(), t.Controller, operator.PlanPatience)
	if err != nil {
		return answer{}, failf(http.StatusConflict, "%v", err)
	}
	v := t.page("Plan of "+text.Plain(t.ID().String()), "")
	v.Trail = append(v.Trail, link{Text: "Plan", Href: t.link("plan"), Current: true})
	v.show(time.Now(), p.Report())
	v.Next = &link{Text: "Again", Href: t.link("plan")}
	return answer{data: p, view: t.linked(v)}, nil
}

// maxLimit bounds the elements of one page.
const maxLimit = 1000

// objects returns a page of the list of objects with a status.
func (h *handler) objects(r *http.Request) (answer, error) {
	form := r.URL.Query()
	t, err := h.find(form)
	if err != nil {
		return answer{}, err
	}
	limit, err := limitOf(form, 50)
	if err != nil {
		return answer{}, err
	}
	q := inspect.ObjectQuery{Status: form.Get("status"), After: form.Get("after"), Limit: limit}
	if !operator.IsStatus(q.Status) {
		return answer{}, failf(http.StatusBadRequest, "status is %q, must be one of %s", q.Status, strings.Join(operator.Statuses, ", "))
	}
	list, err := operator.Objects(r.Context(), t.Controller, q)
	if err != nil {
		return answer{}, failf(http.StatusConflict, "%v", err)
	}
	list.Objects = listed(list.Objects)

	now := time.Now()
	v := t.page("Objects of "+text.Plain(t.ID().String()), "objects")
	v.AsOf = text.Stamp(now)
	v.Lookup = t.names(false)
	v.Choices = []link{{Text: "All", Href: t.link("objects"), Current: q.Status == ""}}
	for _, status := range operator.Statuses {
		v.Choices = append(v.Choices, link{
			Text: status, Href: t.link("objects", "status", status), Current: strings.EqualFold(status, q.Status),
		})
	}
	v.Tables = []text.Table{inspect.ObjectsTable(list.Objects, now)}
	if list.Next != "" {
		v.Next = &link{Text: "Next page", Href: t.link("objects", "status", q.Status, "after", list.Next, "limit", strconv.Itoa(limit))}
		v.Tables[0].Empty = "No such object on this page; there are more pages."
	}
	return answer{data: list, view: t.linked(v)}, nil
}

// journal returns the page of the latest operations, on one object or on all, and of the latest rounds.
func (h *handler) journal(r *http.Request) (answer, error) {
	form := r.URL.Query()
	t, err := h.find(form)
	if err != nil {
		return answer{}, err
	}
	loop, ok := t.loop()
	if !ok {
		return answer{}, failf(http.StatusNotFound, "%q is a derivation: it has no journal", t.ID().String())
	}
	limit, err := limitOf(form, 100)
	if err != nil {
		return answer{}, err
	}
	now := time.Now()
	since, err := sinceOf(form, now)
	if err != nil {
		return answer{}, err
	}
	q := inspect.OperationQuery{Key: form.Get("key"), Since: since, Limit: limit}
	data := journalData{Events: listed(operator.Operations(loop, q)), Rounds: []inspect.Round{}}
	v := t.page("Journal of "+text.Plain(t.ID().String()), "journal")
	v.AsOf = text.Stamp(now)
	v.Tables = []text.Table{inspect.OperationsTable(data.Events, now)}
	if q.Key == "" {
		data.Rounds = listed(operator.Rounds(loop, since, limit))
		v.Tables = append(v.Tables, inspect.RoundsTable(data.Rounds, now))
	} else {
		v.Tables[0].Caption += " on " + text.Name(q.Key)
	}
	for i := range v.Tables {
		v.Tables[i].Caption += ", the latest first"
		slices.Reverse(v.Tables[i].Rows)
	}
	if more := min(10*limit, maxLimit); more > limit && (len(data.Events) == limit || len(data.Rounds) == limit) {
		form.Set("limit", strconv.Itoa(more))
		v.Next = &link{Text: "Up to " + strconv.Itoa(more), Href: "journal?" + form.Encode()}
	}
	return answer{data: data, view: t.linked(v)}, nil
}

// journalData is the JSON of the journal.
type journalData struct {
	Events []inspect.Operation `json:"events"`
	Rounds []inspect.Round     `json:"rounds"`
}

// limitOf returns the limit of a request, or otherwise if it has none.
func limitOf(form url.Values, otherwise int) (int, error) {
	text := form.Get("limit")
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLimit {
		return 0, failf(http.StatusBadRequest, "limit is %q, must be between 1 and %d", text, maxLimit)
	}
	return n, nil
}

// sinceOf returns the time of the field since, which is a time or a duration before now.
func sinceOf(form url.Values, now time.Time) (time.Time, error) {
	text := form.Get("since")
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return time.Time{}, failf(http.StatusBadRequest, "since is %q, must be a time like %s or a duration like 5m", text, time.RFC3339)
	}
	return now.Add(-d), nil
}
