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
	// removed: that it is not any more, and that this does not matter.
	removed
)

// atOnce is how many requests are written in one transaction: enough to spread its cost, few
// enough not to keep the loop from the table for long.
const atOnce = 512

// writer collects requests and writes them into a controller's table as Pending. Not safe
// for concurrent use.
type writer[Req comparable] struct {
	c *Controller[Req]
	// asked are the requests that are not written yet, news what was said of them.
	asked []asked[Req]
	// seen are those of asked that only ask, each once.
	seen map[Req]struct{}
	// left are the keys of rows that may go, which nobody is to be told before it is
	// committed that they may.
	left []*index.KeySet
	// now is the news of what is being written.
	now   presence
	merge func(old, fresh *Row[Req]) *Row[Req]
}

type asked[Req comparable] struct {
	req  Req
	key  index.Key
	news presence
}

func newWriter[Req comparable](c *Controller[Req]) *writer[Req] {
	w := &writer[Req]{c: c, seen: map[Req]struct{}{}}
	w.merge = func(old, fresh *Row[Req]) *Row[Req] {
		fresh.keys = old.keys
		if w.now == silent {
			fresh.present = old.present
		}
		return fresh
	}
	return w
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
	c := w.c
	wtxn := c.cfg.DB.WriteTxn(c.table)
	for i := range w.asked {
		a := &w.asked[i]
		if a.news == removed {
			w.remove(wtxn, a.key)
			continue
		}
		keys := index.NewKeySet(a.key)
		row := &Row[Req]{Request: a.req, Status: reconciler.StatusPending(), keys: &keys, present: a.news == present}
		w.now = a.news
		// No error can come of it: the table is locked.
		_, _, _ = c.table.Modify(wtxn, row, w.merge)
	}
	wtxn.Commit()
	for _, keys := range w.left {
		c.leaving.leave(keys)
	}
	w.left = w.left[:0]
	clear(w.asked)
	w.asked = w.asked[:0]
	clear(w.seen)
}

// remove lets the row of an object go that is not there any more, when there is nothing left
// to be done for it.
func (w *writer[Req]) remove(wtxn statedb.WriteTxn, key index.Key) {
	c := w.c
	old, _, found := c.table.Get(wtxn, c.byKey.Query(key))
	if !found || !old.present {
		return
	}
	row := old.clone()
	row.present = false
	_, _, _ = c.table.Insert(wtxn, row)
	w.left = append(w.left, row.keys)
}
