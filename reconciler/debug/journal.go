// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/statekeel/statekeel/internal/bounded"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

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
	from, err := sinceOf(form, now)
	if err != nil {
		return answer{}, err
	}
	q := inspect.OperationQuery{Key: form.Get("key"), Since: from, Limit: limit}
	var data journalData
	data.Events, data.EventsOmitted = bounded.Latest(listed(loop.Operations(q)), bounded.MaxList)
	data.Rounds = []inspect.Round{}
	var whole []inspect.Round
	if q.Key == "" {
		whole, data.Rounds, data.RoundsOmitted = bounded.Rounds(rounds(loop.Rounds(), from, limit), bounded.MaxList)
		data.Rounds = listed(data.Rounds)
	}

	v := t.page("Journal of "+visible(t.ID().String()), "journal")
	v.AsOf = asOf(now)
	caption := "Operations, the latest first"
	if q.Key != "" {
		caption = "Operations on " + visible(q.Key) + ", the latest first"
	}
	v.Tables = []table{events(t, data.Events, caption+leftOut(data.EventsOmitted, "operations"))}
	v.Tables[0].ID = ""
	if q.Key == "" {
		v.Tables = append(v.Tables, roundTable(whole, data.RoundsOmitted))
	}
	if more := min(10*limit, maxLimit); more > limit && (len(data.Events) == limit || len(data.Rounds) == limit) {
		v.Next = &link{Text: "Up to " + number(more), Href: moreLink(t, form, more)}
	}
	return answer{data: data, view: v}, nil
}

// journalData is the JSON of the journal. It counts the events and rounds that are left out because the
// answer would be too large.
type journalData struct {
	Events        []inspect.Operation `json:"events"`
	EventsOmitted int                 `json:"events_omitted,omitempty"`
	Rounds        []inspect.Round     `json:"rounds"`
	RoundsOmitted int                 `json:"rounds_omitted,omitempty"`
}

// moreLink returns the address of the same page with another limit.
func moreLink(t target, form url.Values, limit int) string {
	rest := []string{"limit", strconv.Itoa(limit)}
	for _, name := range []string{"key", "since"} {
		if form.Has(name) {
			rest = append(rest, name, form.Get(name))
		}
	}
	return t.link("journal", rest...)
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

// rounds returns the latest rounds that did not begin before a time, the latest last.
func rounds(all []inspect.Round, from time.Time, limit int) []inspect.Round {
	all = all[max(0, len(all)-limit):]
	var out []inspect.Round
	for _, r := range all {
		if !r.Started.Before(from) {
			out = append(out, r)
		}
	}
	return out
}

func roundTable(all []inspect.Round, omitted int) table {
	list := table{
		Caption: "Rounds, the latest first" + leftOut(omitted, "rounds"), Empty: "The journal has no rounds.",
		Columns: []string{"Round", "Started", "Reason", "Planned", "Operations", "Written", "Took", "Commit", "Prune"},
	}
	for _, r := range slices.Backward(all) {
		written := number(r.Written)
		if r.Lost > 0 {
			written += fmt.Sprintf(", %s lost", number(r.Lost))
		}
		if r.Conflicts > 0 {
			written += fmt.Sprintf(", %s merged", number(r.Conflicts))
		}
		planned := fmt.Sprintf("%s changed, %s waited", number(r.Changes), number(r.Waited))
		if r.Returned > 0 {
			planned += fmt.Sprintf(", %s returned", number(r.Returned))
		}
		list.Rows = append(list.Rows, []cell{
			counted(r.Sequence), clock(r.Started), {Text: string(r.Reason)}, {Text: planned},
			counted(len(r.Operations)), {Text: written, Kind: count},
			{Text: took(r.Took), Kind: count}, {Text: took(r.CommitTook), Kind: count}, pruned(&r),
		})
	}
	return list
}

func pruned(r *inspect.Round) cell {
	p := r.Prune
	switch {
	case r.Resync != nil && r.Resync.Error != "":
		return cell{Text: visible(r.Resync.Summary()), Kind: bad}
	case r.Resync != nil:
		return cell{Text: visible(r.Resync.Summary())}
	case p == nil:
		return cell{Text: none}
	case p.Error != "":
		return cell{Text: "failed: " + visible(p.Error), Kind: bad}
	}
	return cell{Text: "in " + took(p.Took)}
}

// events returns a table of operations, the latest first.
func events(t target, happened []inspect.Operation, caption string) table {
	list := table{
		ID: "events", Caption: caption, Empty: "The journal has no operations.",
		Columns: []string{"At", "Key", "Operation", "Result", "Error", "Note", "Attempt", "Took", "Round"},
	}
	for _, e := range slices.Backward(happened) {
		list.Rows = append(list.Rows, []cell{
			clock(e.Started), t.object(e.Key),
			{Text: e.Op, Title: fmt.Sprintf("revision %d", e.Revision)},
			result(e), {Text: visible(e.Error), Kind: code}, {Text: visible(e.Note)},
			{Text: fmt.Sprintf("%d, by %s", e.Attempt, e.Cause)}, {Text: took(e.Took), Kind: count}, counted(e.Round),
		})
	}
	return list
}

// result returns the result of an operation, with "lost" or "merged" if that applies.
func result(e inspect.Operation) cell {
	c := cell{Text: string(e.Result), Kind: good}
	switch e.Result {
	case inspect.ResultFailed, inspect.ResultTerminal:
		c.Kind = bad
	case inspect.ResultBlocked:
		c.Kind = wait
	}
	if e.Lost {
		c.Text += ", lost"
		c.Title = "the object changed meanwhile: the result was not written"
	}
	if e.Conflict {
		c.Text += ", merged"
		c.Title = "another reconciler wrote the object meanwhile: the result was added to that"
	}
	return c
}

// leftOut returns the part of a caption that counts the omitted elements; empty if there are none.
func leftOut(omitted int, what string) string {
	if omitted == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s further %s are left out: their texts are too long)", number(omitted), what)
}
