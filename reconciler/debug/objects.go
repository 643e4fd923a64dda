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

	"github.com/statekeel/statekeel/internal/bounded"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// maxLimit bounds the elements of one page.
const maxLimit = 1000

// statuses are the statuses by which objects can be listed; the empty one means all.
var statuses = []string{"", "Error", "Blocked", "Pending", "Refreshing", "Done", "Unset", "Deleted"}

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
	if !slices.ContainsFunc(statuses, func(s string) bool { return strings.EqualFold(s, q.Status) }) {
		return answer{}, failf(http.StatusBadRequest, "status is %q, must be one of %s", q.Status, strings.Join(statuses[1:], ", "))
	}
	list, err := bounded.Objects(r.Context(), t, q)
	if err != nil {
		return answer{}, failf(http.StatusConflict, "%v", err)
	}
	list.Objects = listed(list.Objects)

	now := time.Now()
	v := t.page("Objects of "+visible(t.ID().String()), "objects")
	v.AsOf = asOf(now)
	v.Lookup = &lookup{Hidden: t.query}
	for _, status := range statuses {
		text := status
		if text == "" {
			text = "All"
		}
		v.Choices = append(v.Choices, link{
			Text: text, Href: t.link("objects", "status", status), Current: strings.EqualFold(status, q.Status),
		})
	}
	v.Tables = []table{lines(t, now, list.Objects)}
	if list.Next != "" {
		v.Next = &link{Text: "Next page", Href: t.link("objects", "status", q.Status, "after", list.Next, "limit", strconv.Itoa(limit))}
		v.Tables[0].Empty = "No such object on this page; there are more pages."
	}
	return answer{data: list, view: v}, nil
}

func lines(t target, now time.Time, objects []inspect.ObjectLine) table {
	list := table{
		Caption: "Objects, those written last at the end", Empty: "There are none.",
		Columns: []string{"Key", "State", "Status", "Since", "Blocked on", "Error", "Failures", "Next attempt"},
	}
	for _, o := range objects {
		list.Rows = append(list.Rows, []cell{
			t.object(o.Key), state(o.State), {Text: visible(o.Status)}, since(now, o.Since),
			{Text: visible(o.BlockedOn), Kind: code}, {Text: visible(o.Error), Kind: code}, counted(o.Attempts), until(now, o.Next),
		})
	}
	return list
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
