// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// fake is a reconciler with fixed answers, which records the calls.
type fake struct {
	id          inspect.ID
	asked       []string
	keys        []string
	explanation inspect.Explanation
	snapshot    inspect.Snapshot
	page        inspect.ObjectPage
	pageErr     error
	events      []inspect.Event
	rounds      []inspect.Round
	unapplied   inspect.Unapplied
	count       int
	sweeps      bool
	err         error
}

func (f *fake) note(format string, args ...any) {
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
}

func (f *fake) take() []string {
	asked := f.asked
	f.asked = nil
	return asked
}

// last returns the last call.
func (f *fake) last() string {
	asked := f.take()
	return asked[len(asked)-1]
}

func (f *fake) ID() inspect.ID             { return f.id }
func (f *fake) Journal() []inspect.Round   { return append([]inspect.Round(nil), f.rounds...) }
func (f *fake) Timeline() []inspect.Sample { return nil }
func (f *fake) Figures() metrics.Figures   { return metrics.Figures{} }

func (f *fake) Explain(_ context.Context, key string) inspect.Explanation {
	f.note("explain %q", key)
	return f.explanation
}

func (f *fake) Snapshot(context.Context) inspect.Snapshot {
	s := f.snapshot
	s.ID, s.Reconciler = f.id, f.id.String()
	return s
}

func (f *fake) Objects(_ context.Context, q inspect.ObjectQuery) (inspect.ObjectPage, error) {
	f.note("objects %+v", q)
	page := f.page
	if q.Limit == 0 {
		return page, f.pageErr
	}
	from := 0
	_, _ = fmt.Sscan(q.After, &from)
	from = min(from, len(page.Objects))
	page.Objects = page.Objects[from:]
	if q.Limit < len(page.Objects) {
		page.Objects, page.Next = page.Objects[:q.Limit], strconv.Itoa(from+q.Limit)
	}
	return page, f.pageErr
}

func (f *fake) Keys(prefix string, limit int) (out []string) {
	for _, key := range f.keys {
		if strings.HasPrefix(key, prefix) && len(out) < limit {
			out = append(out, key)
		}
	}
	return out
}

func (f *fake) Events(q inspect.EventQuery) []inspect.Event {
	f.note("events %+v", q)
	return f.events
}

func (f *fake) WaitAll(ctx context.Context, m reconciler.Milestone) (inspect.Unapplied, error) {
	return f.WaitKey(ctx, "", m)
}

// WaitKey waits for the end of ctx if there is an error to return.
func (f *fake) WaitKey(ctx context.Context, key string, m reconciler.Milestone) (inspect.Unapplied, error) {
	f.note("wait %q %s", key, m)
	if f.err == nil {
		return f.unapplied, nil
	}
	<-ctx.Done()
	return f.unapplied, fmt.Errorf("%w: %w", f.err, ctx.Err())
}

func (f *fake) Retry(_ context.Context, keys ...string) (int, error) {
	f.note("retry %q", keys)
	return f.count, f.err
}

func (f *fake) Refresh(_ context.Context, keys ...string) (int, error) {
	f.note("refresh %q", keys)
	return f.count, f.err
}

func (f *fake) ApproveSweep() bool {
	f.note("approve")
	return f.sweeps
}

func (f *fake) Prune()  { f.note("prune") }
func (f *fake) Pause()  { f.note("pause") }
func (f *fake) Resume() { f.note("resume") }

func (f *fake) PauseOnly(keys ...string) error {
	f.note("pause only %q", keys)
	f.snapshot.Paused = keys
	return f.err
}
