// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/status"
)

// presence is what an enqueued request says about whether its object exists.
type presence uint8

const (
	// silent: nothing. The request is reconciled.
	silent presence = iota
	// present and absent: the object exists, or does not. The request is reconciled.
	present
	absent
	// removed and hidden: the object no longer exists, or exists for the first time, and predicates
	// rejected the change. The request is not reconciled because of it.
	removed
	hidden
)

// atOnce is the number of requests written in one transaction: enough for full rounds of the loop,
// and few enough to keep the table locked for only a few milliseconds.
const atOnce = 2048

// writer collects requests and writes them into a controller's table as Pending. It is not safe for
// concurrent use.
type writer[Req comparable] struct {
	c *Controller[Req]
	// asked are the requests that are not written yet.
	asked []asked[Req]
	// seen are the silent requests in asked, to add each once.
	seen map[Req]struct{}
	// left are the keys of rows whose object was removed; they are passed on after the commit.
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

// add enqueues a request.
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

// flush writes the enqueued requests. It also replaces a status that is Pending: a reconciliation
// that has begun with that status does not know of the change.
func (w *writer[Req]) flush() {
	if len(w.asked) == 0 {
		return
	}
	// One allocation for all rows: each is soon replaced by a row with an outcome.
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

// write writes a row. Insert cannot fail: the table is locked.
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
			// The status stays as it is, unless it is a failure: the request is a clean-up from now
			// on, and a clean-up must not stay given up.
			if news == hidden || old.settled || old.Status.Kind != status.KindError {
				row.Status = old.Status
			}
			row.settled, row.present = old.settled, news == hidden
		}
	}
	_, _, _ = w.c.table.Insert(wtxn, row)
	if news == removed {
		w.left = append(w.left, row.keys)
	}
}

// hide updates hidden from an enqueued request. The table of requests is locked.
func (c *Controller[Req]) hide(req Req, news presence) {
	switch {
	case news == hidden:
		c.hidden[req] = struct{}{}
	case news != silent && len(c.hidden) > 0:
		delete(c.hidden, req)
	}
}

// hides reports whether the object of a request exists but has no row because predicates rejected
// it. The table of requests is locked.
func (c *Controller[Req]) hides(req Req) bool {
	_, ok := c.hidden[req]
	return ok
}
