// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"sync"
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

	// life is shared by all versions of the row.
	life *life
}

// life is the part of a row that changes without a request. It is not in the row, because the loop
// reconciles the request of a row that is written. present only changes under the lock of the table.
type life struct {
	// key is the key of the primary index.
	key index.Key

	mu sync.Mutex
	// present reports whether the table of For had the object when it was last reported.
	present bool
	// succeeded is the revision of the row that the last call of Reconcile was for, if that has ended
	// with a result or a terminal error; otherwise 0. again reports whether another run follows.
	again     bool
	succeeded statedb.Revision
	// due is the time of the earliest RequeueAfter at or after which no call has begun; 0 if there is none.
	due time.Duration
}

// newRow returns a row with a life of its own, in one allocation.
func newRow[Req comparable](req Req, key index.Key) *Row[Req] {
	r := &struct {
		row  Row[Req]
		life life
	}{row: Row[Req]{Request: req}, life: life{key: key}}
	r.row.life = &r.life
	return &r.row
}

// next returns the next version of a row.
func (r *Row[Req]) next() *Row[Req] { return &Row[Req]{Request: r.Request, life: r.life} }

// TableHeader implements statedb.TableWritable.
func (*Row[Req]) TableHeader() []string { return []string{"Request", "Object"} }

// TableRow implements statedb.TableWritable. All texts are printable.
func (r *Row[Req]) TableRow() []string {
	object := "-"
	if r.life.exists() {
		object = "exists"
	}
	return []string{text.Printable(string(r.life.key)), object}
}

// exists reports whether the table of For had the object when it was last reported.
func (l *life) exists() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.present
}

func (l *life) setExists(exists bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.present = exists
}

// begin records that a call of Reconcile begins. now is the controller's clock.
func (l *life) begin(now func() time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.succeeded = 0
	if l.due != 0 && l.due <= now() {
		l.due = 0
	}
}

// remind returns the result of a call of Reconcile, with the RequeueAfter of an earlier call if that is sooner. A
// clean-up that asks for nothing has come to its end. cleansUp reports whether the request is a clean-up while the
// object does not exist.
func (l *life) remind(res Result, now func() time.Duration, cleansUp bool) Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case res.RequeueAfter > 0:
		if at := follow.After(now(), res.RequeueAfter); l.due == 0 || at <= l.due {
			l.due = at
			return res
		}
	case l.due == 0 || res.Requeue:
		return res
	case cleansUp && !l.present:
		l.due = 0
		return res
	}
	res.RequeueAfter = max(l.due-now(), 1)
	return res
}

// end records that a call of Reconcile for a revision of the row has ended, and reports whether the
// object exists, and whether the row can be deleted.
func (l *life) end(revision statedb.Revision, succeeded, again bool) (exists, gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if succeeded {
		l.succeeded, l.again = revision, again
	}
	return l.present, succeeded && !again && !l.present
}

// gone reports whether the row can be deleted at a revision: the object does not exist, and no work
// is left.
func (l *life) gone(revision statedb.Revision) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.present && l.succeeded == revision && !l.again
}

// rowIndex returns the primary index of the table of requests.
func rowIndex[Req comparable]() statedb.Index[*Row[Req], index.Key] {
	return statedb.Index[*Row[Req], index.Key]{
		Name:       "request",
		FromObject: func(r *Row[Req]) index.KeySet { return index.NewKeySet(r.life.key) },
		FromKey:    func(key index.Key) index.Key { return key },
		FromString: index.FromString,
		Unique:     true,
	}
}
