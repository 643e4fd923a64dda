// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/follow"
	"github.com/statekeel/statekeel/internal/text"
)

// Row is a request in the table of a [Controller]: one that has work left, or whose object is in
// the table of [For]. [reconciler.Loop.Status] returns its status. It is for reading, and for functions
// that take objects of the loop, such as the predicate of [reconciler.Loop.PauseObjects].
type Row[Req comparable] struct {
	// Request is the argument of Reconcile.
	Request Req

	// key is the key of the primary index.
	key index.Key
	// present: the table of For had the object when it was last reported. asked: Reconcile is called; if false,
	// the predicates have rejected the object since it is in the table, and nothing else has asked.
	present, asked bool
	// reminder is shared by all versions of the row: it changes without a request, and a row that is written is one.
	reminder *reminder
}

// TableHeader implements statedb.TableWritable.
func (*Row[Req]) TableHeader() []string { return []string{"Request", "Object"} }

// TableRow implements statedb.TableWritable. All texts are printable.
func (r *Row[Req]) TableRow() []string {
	object := "-"
	if r.present {
		object = "exists"
	}
	return []string{text.Printable(string(r.key)), object}
}

// rowIndex returns the primary index of the table of requests.
func rowIndex[Req comparable]() statedb.Index[*Row[Req], index.Key] {
	return statedb.Index[*Row[Req], index.Key]{
		Name:       "request",
		FromObject: func(r *Row[Req]) index.KeySet { return index.NewKeySet(r.key) },
		FromKey:    func(key index.Key) index.Key { return key },
		FromString: index.FromString,
		Unique:     true,
	}
}

// reminder is the time of the earliest RequeueAfter at or after which no call of Reconcile has begun, by the clock
// of the controller; 0 if there is none.
type reminder struct{ at atomic.Int64 }

// begin records that a call begins.
func (r *reminder) begin(now time.Duration) {
	if at := time.Duration(r.at.Load()); at != 0 && at <= now {
		r.at.Store(0)
	}
}

// end returns the result of a call, with the RequeueAfter of an earlier call if that is sooner. A clean-up that asks
// for nothing has come to its end.
func (r *reminder) end(res Result, now time.Duration, cleansUp bool) Result {
	due := time.Duration(r.at.Load())
	switch {
	case res.RequeueAfter > 0:
		if at := follow.After(now, res.RequeueAfter); due == 0 || at <= due {
			r.at.Store(int64(at))
			return res
		}
	case due == 0 || res.Requeue:
		return res
	case cleansUp:
		r.at.Store(0)
		return res
	}
	res.RequeueAfter = max(due-now, 1)
	return res
}
