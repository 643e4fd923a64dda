// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
)

// presence is what an asking says of whether the object is there.
type presence uint8

const (
	// silent: nothing. The request is to be reconciled.
	silent presence = iota
	// present and absent: that it is, or is not. The request is to be reconciled.
	present
	absent
	// removed and hidden: that it is not any more, or is there for the first time, and that
	// this does not matter.
	removed
	hidden
)

// atOnce is how many requests are written in one transaction: enough for the loop to have
// full rounds, few enough not to keep it from the table for more than a few milliseconds.
const atOnce = 2048

// writer collects requests and writes them into a controller's table as Pending. Not safe
// for concurrent use.
type writer[Req comparable] struct {
	c *Controller[Req]
	// asked are the requests that are not written yet.
	asked []asked[Req]
	// seen are those of asked that only ask, each once.
	seen map[Req]struct{}
	// left are the keys of rows whose object is removed, for when that is committed.
	left []*index.KeySet
}

type asked[Req comparable] struct {
	req  Req
	key  index.Key
	news presence
}

func newWriter[Req comparable](c *Controller[Req]) *writer[Req] {
	return &writer[Req]{c: c, seen: map[Req]struct{}{}}
}

// add asks for a request.
func (w *writer[Req]) add(news presence, req Req) {
	if news == silent {
		if _, twice := w.seen[req]; twice {
			return
		}
		w.seen[req] = struct{}{}
	}
	w.asked = append(w.asked, asked[Req]{req, w.c.keyOf(req), news})
	if len(w.asked) >= atOnce {
		w.flush()
	}
}

// flush writes what was asked for. What is written replaces a status that is Pending, too:
// it may be that of a reconciliation which has begun, and does not know of the change.
func (w *writer[Req]) flush() {
	if len(w.asked) == 0 {
		return
	}
	// One allocation for all: each is soon replaced by a row that has a status.
	rows := make([]Row[Req], len(w.asked))
	for i := range w.asked {
		a := &w.asked[i]
		rows[i] = Row[Req]{Request: a.req, Status: reconciler.StatusPending(), keys: keySet(a.key), present: a.news == present}
	}
	wtxn := w.c.cfg.DB.WriteTxn(w.c.table)
	for i := range rows {
		w.write(wtxn, &rows[i], w.asked[i].news)
	}
	wtxn.Commit()
	for _, keys := range w.left {
		w.c.leaving.add(keys)
	}
	w.left = w.left[:0]
	clear(w.asked)
	w.asked = w.asked[:0]
	clear(w.seen)
}

// write writes a row. No error can come of it: the table is locked.
func (w *writer[Req]) write(wtxn statedb.WriteTxn, row *Row[Req], news presence) {
	w.c.hide(row.Request, news)
	if news != present && news != absent {
		old, _, found := w.c.table.Get(wtxn, w.c.byKey.Query(row.keys.First()))
		switch {
		case news == silent && found:
			row.present = old.present
		case news == silent:
			row.present = w.c.hides(row.Request)
		case !found || old.present == (news == hidden):
			return
		default:
			// What it was asked for before stands as it is.
			row.Status, row.settled, row.present = old.Status, old.settled, news == hidden
		}
	}
	_, _, _ = w.c.table.Insert(wtxn, row)
	if news == removed {
		w.left = append(w.left, row.keys)
	}
}

// hide takes in what an asking says of an object that predicates may hide. The table of requests
// is locked.
func (c *Controller[Req]) hide(req Req, news presence) {
	switch {
	case news == hidden:
		c.hidden[req] = struct{}{}
	case news != silent && len(c.hidden) > 0:
		delete(c.hidden, req)
	}
}

// hides reports whether the object of a request is there, and has no row because predicates
// hid it. The table of requests is locked.
func (c *Controller[Req]) hides(req Req) bool {
	_, ok := c.hidden[req]
	return ok
}
