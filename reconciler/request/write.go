// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import "github.com/cilium/statedb/index"

// news is what an enqueued request says about its object.
type news uint8

const (
	// silent: nothing.
	silent news = iota
	// present and absent: the object exists, or does not.
	present
	absent
	// hidden: the object exists for the first time, and predicates rejected that. It is the only news that does not ask
	// for a call of Reconcile.
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
	news news
}

func newWriter[Req comparable](c *Controller[Req]) *writer[Req] {
	return &writer[Req]{c: c, seen: map[Req]struct{}{}}
}

// add enqueues a request. If KeyOf panics, the request is not enqueued.
func (w *writer[Req]) add(n news, req Req) {
	if _, twice := w.seen[req]; twice && n == silent {
		return
	}
	w.asked = append(w.asked, asked[Req]{req, w.c.keyOf(req), n})
	if n == silent {
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
	for _, a := range w.asked {
		row := &Row[Req]{
			Request: a.req, key: a.key, reminder: &reminder{},
			present: a.news == present || a.news == hidden, asked: a.news != hidden,
		}
		// Modify cannot fail: the table is locked.
		_, _, _ = w.c.table.Modify(wtxn, row, func(old, row *Row[Req]) *Row[Req] {
			row.reminder, row.asked = old.reminder, old.asked || row.asked
			if a.news == silent {
				row.present = old.present
			}
			return row
		})
	}
	wtxn.Commit()
	clear(w.asked)
	w.asked = w.asked[:0]
	clear(w.seen)
}
