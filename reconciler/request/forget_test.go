// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/request"
)

var errBadSpec = reconciler.TerminalError(errors.New("bad spec"))

// A terminal error is logged and counted. It does not keep the row of a request without an object.
func TestRowsOfTerminalRequestsAreDeleted(t *testing.T) {
	for _, workers := range []int{1, 8} {
		t.Run(strconv.Itoa(workers), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.returning(request.Result{}, errBadSpec)
				for i := range 1000 {
					e.controller.Add(named("shop", strconv.Itoa(i)))
				}
				time.Sleep(time.Second)
				require.Len(e, e.took(), 1000)
				require.Empty(e, e.rows())
				require.Contains(e, e.log.String(), "bad spec")
				require.Equal(e, 1000, failures(e))
				require.Zero(e, e.controller.Loop().Figures().Failing, "nothing is failing")
				time.Sleep(time.Hour)
				require.Empty(e, e.took())

				e.controller.Add(named("shop", "1"))
				require.Equal(e, []string{"shop/1"}, e.took())
			}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.MaxRetries = workers, 3 }))
		})
	}
}

// failures returns how many failed operations the loop has counted.
func failures(e *env) (n int) {
	for _, class := range e.controller.Loop().Snapshot(e.Context()).Errors {
		n += int(class.Count)
	}
	return n
}

// The same holds for a clean-up: with the terminal error the reconciler says that it will never
// succeed.
func TestRowsOfTerminalCleanUpsAreDeleted(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("web", 1)
		e.took()
		e.returning(request.Result{}, errBadSpec)
		e.remove("web")
		require.Equal(e, []string{"shop/web"}, e.took())
		require.Empty(e, e.rows())
		require.Equal(e, 1, failures(e))
		time.Sleep(time.Hour)
		require.Empty(e, e.took())
	}, nil)
}

// The row of an existing object stays and shows the error.
func TestATerminalRequestOfAnObjectKeepsItsRow(t *testing.T) {
	inBubble(t, func(e *env) {
		e.returning(request.Result{}, errBadSpec)
		e.put("web", 1)
		require.Equal(e, rows{"shop/web": "Error: bad spec"}, e.rows())
		require.Len(e, e.took(), 1)
		time.Sleep(time.Second)
		e.remove("web")
		require.Len(e, e.took(), 1)
		require.Empty(e, e.rows())
	}, nil)
}

// A clean-up that was given up would leave its resources behind forever.
func TestACleanUpIsNeverGivenUp(t *testing.T) {
	for name, err := range map[string]error{"error": errors.New("down"), "panic": nil} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.put("web", 1)
				e.took()
				e.failing(err)
				e.remove("web")
				time.Sleep(time.Hour)
				require.Greater(e, len(e.took()), 50)
				require.NotContains(e, e.rows()["shop/web"], "given up")

				e.doing(nil)
				time.Sleep(time.Minute + time.Second)
				require.Len(e, e.took(), 1)
				require.Empty(e, e.rows())
			}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 3 }))
		})
	}
}

// ignoringDeletions replaces the source by one whose predicate rejects deletions.
func ignoringDeletions(e *env, cfg *config) {
	cfg.Sources = from{request.For(e.apps, (*app).request, func(change request.Change[*app]) bool { return !change.Deleted })}
}

// failing makes Reconcile return err, or panic if err is nil.
func (e *env) failing(err error) {
	e.doing(func(context.Context, request.Request) (request.Result, error) {
		if err == nil {
			panic("oops")
		}
		return request.Result{}, err
	})
}

// A predicate may reject the deletion of an object whose request was given up. The request still
// becomes a clean-up, and its row is deleted.
func TestGivenUpRequestsAreCleanedUpAfterRejectedDeletions(t *testing.T) {
	inBubble(t, func(e *env) {
		e.returning(request.Result{}, errors.New("down"))
		e.put("web", 1)
		time.Sleep(time.Hour)
		require.Equal(e, rows{"shop/web": "Error: given up after 3 retries: down"}, e.rows())
		e.remove("web")
		time.Sleep(time.Hour)
		require.Equal(e, rows{"shop/web": "Error: down"}, e.rows(), "a clean-up is not given up")
		e.returning(request.Result{}, nil)
		time.Sleep(time.Hour)
		require.Empty(e, e.rows())
	}, func(e *env, cfg *request.Config[request.Request]) {
		cfg.Sources = []request.Source[request.Request]{request.For(e.apps, (*app).request, notDeleted[*app])}
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries, s.Concurrency = 3, 8 }))
}

// A call that had begun before its object was removed may have read the object. If it fails, the
// request is retried as a clean-up, although a predicate rejects the deletion.
func TestObjectsRemovedDuringACallAreCleanedUp(t *testing.T) {
	inBubble(t, func(e *env) {
		e.doing(func(context.Context, request.Request) (request.Result, error) {
			time.Sleep(time.Second)
			return request.Result{}, errors.New("down")
		})
		e.put("web", 1)
		time.Sleep(500 * time.Millisecond)
		e.remove("web")
		time.Sleep(time.Hour)
		require.Equal(e, rows{"shop/web": "Error: down"}, e.rows(), "a clean-up is not given up")
		e.doing(nil)
		time.Sleep(2 * time.Minute)
		require.Empty(e, e.rows())
	}, ignoringDeletions, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries, s.Concurrency = 1, 8 }))
}

// The row of the first request is not deleted together with the second request.
func TestRequestsDuringTheLastCallAreReconciled(t *testing.T) {
	for _, workers := range []int{1, 8} {
		t.Run(strconv.Itoa(workers), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.doing(func(context.Context, request.Request) (request.Result, error) {
					time.Sleep(time.Second)
					return request.Result{}, nil
				})
				start := time.Now()
				e.controller.Add(named("shop", "gone"))
				time.Sleep(500 * time.Millisecond)
				e.controller.Add(named("shop", "gone"))
				time.Sleep(time.Hour)
				require.Equal(e, seconds(0, 1), e.times(start))
				require.Empty(e, e.rows())
			}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
		})
	}
}
