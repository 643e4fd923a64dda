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
	// left are the keys of rows that may go, which nobody is to be told before it is
	// committed that they may.
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
		keys := index.NewKeySet(a.key)
		rows[i] = Row[Req]{Request: a.req, Status: reconciler.StatusPending(), keys: &keys, present: a.news == present}
	}
	wtxn := w.c.cfg.DB.WriteTxn(w.c.table)
	for i := range rows {
		w.write(wtxn, &rows[i], w.asked[i].news)
	}
	wtxn.Commit()
	for _, keys := range w.left {
		w.c.leaving.leave(keys)
	}
	w.left = w.left[:0]
	clear(w.asked)
	w.asked = w.asked[:0]
	clear(w.seen)
}

// write writes a row. No error can come of it: the table is locked.
func (w *writer[Req]) write(wtxn statedb.WriteTxn, row *Row[Req], news presence) {
	table := w.c.table
	if news == silent || news == removed {
		old, _, found := table.Get(wtxn, w.c.byKey.Query(row.keys.First()))
		if news == removed {
			if !found || !old.present {
				return
			}
			row.Status = old.Status
			w.left = append(w.left, row.keys)
		} else if found {
			row.present = old.present
		}
	}
	_, _, _ = table.Insert(wtxn, row)
}
