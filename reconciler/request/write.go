// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// presence is what an enqueued request says about whether its object exists.
type presence uint8

const (
	// silent: nothing. The request is reconciled.
	silent presence = iota
	// present and absent: the object exists, or does not. The request is reconciled.
	present
	absent
	// hidden: the object exists for the first time, and predicates rejected that. The request is not
	// reconciled.
	hidden
)

// atOnce is the number of requests written in one transaction: enough for full rounds of the loop,
// and few enough to keep the table locked for only a few milliseconds.
const atOnce = 2048

// writer collects requests and writes them into a controller's table. It is not safe for
// concurrent use.
type writer[Req comparable] struct {
	c *Controller[Req]
	// asked are the requests that are not written yet.
	asked []asked[Req]
	// seen are the silent requests in asked, to add each once.
	seen map[Req]struct{}
}

type asked[Req comparable] struct {
	req  Req
	key  index.Key
	news presence
}

func newWriter[Req comparable](c *Controller[Req]) *writer[Req] {
	return &writer[Req]{c: c, seen: map[Req]struct{}{}}
}

// add enqueues a request. If KeyOf panics, the request is not enqueued.
func (w *writer[Req]) add(news presence, req Req) {
	if _, twice := w.seen[req]; twice && news == silent {
		return
	}
	w.asked = append(w.asked, asked[Req]{req, w.c.keyOf(req), news})
	if news == silent {
		w.seen[req] = struct{}{}
	}
	if len(w.asked) >= atOnce {
		w.flush()
	}
}

// flush writes the enqueued requests. It also writes rows that wait to be reconciled: a
// reconciliation that has begun does not know of the change.
func (w *writer[Req]) flush() {
	if len(w.asked) == 0 {
		return
	}
	wtxn := w.c.cfg.DB.WriteTxn(w.c.table)
	for i := range w.asked {
		w.write(wtxn, &w.asked[i])
	}
	wtxn.Commit()
	clear(w.asked)
	w.asked = w.asked[:0]
	clear(w.seen)
}

// write writes the row of a request, which makes the loop reconcile it. Insert and Modify cannot
// fail: the table is locked.
func (w *writer[Req]) write(wtxn statedb.WriteTxn, a *asked[Req]) {
	w.c.hide(a.req, a.news)
	if a.news == hidden {
		if row, _, found := w.c.table.Get(wtxn, w.c.byKey.Query(a.key)); found {
			row.life.setExists(true)
		}
		return
	}
	row := newRow(a.req, a.key)
	row.life.present = a.news == present || a.news == silent && w.c.hides(a.req)
	_, _, _ = w.c.table.Modify(wtxn, row, func(old, _ *Row[Req]) *Row[Req] {
		if a.news != silent {
			old.life.setExists(a.news == present)
		}
		return old.next()
	})
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
