// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"errors"
	"fmt"
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

// page is the page of a command that asks.
type page struct {
	*operator.Command
	h    *handler
	form url.Values
	// target is the reconciler of the page, source its source; neither on the overview.
	target
	source inspect.Source
	answer operator.Answer
	view   view
}

// ask returns the page of a command, with its answer.
func (h *handler) ask(r *http.Request, c *operator.Command, aboutSource bool) (p *page, err error) {
	p = &page{Command: c, h: h, form: r.URL.Query()}
	in := &operator.Input{Registry: h.registry, Flag: p.flag}
	switch {
	case c.Name == "":
	case aboutSource:
		p.source, err = h.findSource(p.form)
		in.Source = p.source
	default:
		p.target, err = h.find(p.form)
		in.Reconciler = p.Controller
	}
	if err != nil {
		return nil, err
	}
	if c.OnObject() {
		if !p.form.Has("key") {
			return nil, failf(http.StatusBadRequest, "no object is named: &key=KEY")
		}
		in.Key = p.form["key"][:1]
	}
	if p.answer, err = c.Run(r.Context(), in); err != nil {
		if wrong := (*operator.FlagError)(nil); errors.As(err, &wrong) {
			return nil, failf(http.StatusBadRequest, "%v", err)
		}
		return nil, failf(http.StatusConflict, "%v", err)
	}
	p.look()
	return p, nil
}

// limits are the numbers of lines of a page, unless the address has another.
var limits = map[string]string{"objects": "50", "journal": "100"}

// flag returns the value of a flag of the command, from the address of the page.
func (p *page) flag(name string) string {
	if value := p.form.Get(name); value != "" {
		return value
	}
	if limit := limits[p.Name]; name == "limit" && limit != "" {
		return limit
	}
	for _, f := range p.Flags {
		if f.Name == name {
			return fmt.Sprint(f.Default)
		}
	}
	return ""
}

// look makes the view: the report of the command, with what only a page has.
func (p *page) look() {
	v := &p.view
	switch {
	case p.source != nil:
		p.lookAtSource()
	case p.Controller == nil:
		v.Title, v.Trail, v.Live = home.Text, []link{{Text: home.Text, Href: home.Href, Current: true}}, "./?format=live"
	default:
		p.lookAt(text.Plain(p.ID().String()))
	}
	report := p.answer.Reports[0]
	v.show(time.Now(), report)
	switch p.Name {
	case "":
		p.link()
	case "journal":
		for i := range report.Tables {
			t := &v.Tables[i]
			if key := p.form.Get("key"); key != "" {
				t.Caption += " on " + text.Name(key)
			}
			t.Caption += ", the latest first"
			slices.Reverse(t.Rows)
		}
	case "objects":
		if v.Next != nil {
			v.Tables[0].Empty = "No such object on this page; there are more pages."
		}
	}
	for _, table := range v.Tables {
		for _, row := range table.Rows {
			for i := range row {
				if cell := &row[i]; cell.Kind == text.KindObject {
					cell.Href = p.target.link("explain", "key", cell.Key)
				}
			}
		}
	}
}

// link links the lists of the overview to the pages of their lines.
func (p *page) link() {
	for i, one := range p.answer.Reconcilers {
		p.view.Tables[0].Rows[i][0].Href = p.h.target(one).link("show")
	}
	for i, one := range p.answer.Sources {
		p.view.Tables[1].Rows[i][0].Href = sourceLink("source", one)
	}
}

// lookAtSource makes the parts that only the page of a source has.
func (p *page) lookAtSource() {
	v, name := &p.view, text.Plain(p.source.Input())
	v.Title, v.ActOn, v.Live = name, "this source", sourceLink("source", p.source, "format", "live")
	v.Trail = []link{home, {Text: name, Href: sourceLink("source", p.source), Current: true}}
	v.Note = done(p.form, true)
	if s, ok := p.answer.Data.(inspect.SourceSnapshot); ok && p.h.writes && s.Held != nil {
		// The button is for what the page shows: the answer to it is an error if another set is held by then.
		v.Actions = []action{{
			Text: "Delete exactly these " + strconv.Itoa(s.Held.Rows) + " rows", Href: sourceLink("approve", p.source, "set", s.Held.Set),
		}}
	}
}

// lookAt makes the parts that only a page of a reconciler with this name has.
func (p *page) lookAt(name string) {
	v, key, t := &p.view, p.form.Get("key"), p.target
	v.Trail = []link{home, {Text: name, Href: t.link("show")}}
	v.Tabs = t.tabs(p.Name)
	switch p.Name {
	case "show":
		v.Title, v.Live, v.Lookup, v.Note = name, t.link("show", "format", "live"), t.names(false), done(p.form, false)
		s, _ := p.answer.Data.(inspect.Snapshot)
		v.Actions, v.Drastic, v.ActOn = p.h.buttons(t, s), true, "the whole reconciler"
		if s.Lists {
			v.Next = &link{Text: "What a resync would do now (lists the target)", Href: t.link("plan")}
		}
	case "explain":
		v.Title, v.Live, v.Note = text.Name(key), t.link("explain", "key", key, "format", "live"), done(p.form, false)
		v.Trail = append(v.Trail, link{Text: v.Title, Href: t.link("explain", "key", key), Current: true})
		v.Actions, v.ActOn = p.h.objectButtons(t, key), "this object"
		if _, ok := t.loop(); ok {
			v.Next = &link{Text: "All its operations in the journal", Href: t.link("journal", "key", key)}
		}
	case "objects":
		v.Title, v.Lookup = "Objects of "+name, t.names(false)
		status := p.form.Get("status")
		v.Choices = []link{{Text: "All", Href: t.link("objects"), Current: status == ""}}
		for _, s := range operator.Statuses {
			v.Choices = append(v.Choices, link{Text: s, Href: t.link("objects", "status", s), Current: strings.EqualFold(s, status)})
		}
		if p.answer.More != nil {
			v.Next = &link{Text: "Next page", Href: t.link("objects", p.answer.More...)}
		}
	case "journal":
		v.Title = "Journal of " + name
		for _, c := range [][]string{{"Operations"}, {"First failures", "first-failures", "true"}, {"Rounds", "rounds", "true"}} {
			current := p.flag("rounds") == strconv.FormatBool(c[0] == "Rounds") && p.flag("first-failures") == strconv.FormatBool(c[0] == "First failures")
			v.Choices = append(v.Choices, link{Text: c[0], Href: t.link("journal", c[1:]...), Current: current})
		}
		if strconv.Itoa(len(p.answer.Reports[0].Tables[0].Rows)) == p.flag("limit") {
			all := url.Values{}
			for name := range p.form {
				all.Set(name, p.form.Get(name))
			}
			all.Set("limit", "0")
			v.Next = &link{Text: "All of them", Href: "journal?" + all.Encode()}
		}
	case "plan":
		// It is not live, since it lists the target.
		v.Title, v.Next = "Plan of "+name, &link{Text: "Again", Href: t.link("plan")}
		v.Trail = append(v.Trail, link{Text: "Plan", Href: t.link("plan"), Current: true})
	}
}
