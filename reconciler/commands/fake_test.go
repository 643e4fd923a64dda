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
)

// fake is a reconciler that answers what it is told to, and notes what it is asked.
type fake struct {
	id          reconciler.ID
	asked       []string
	keys        []string
	explanation reconciler.Explanation
	snapshot    reconciler.Snapshot
	page        reconciler.ObjectPage
	events      []reconciler.Event
	rounds      []reconciler.Round
	owed        reconciler.Owed
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

func (f *fake) ID() reconciler.ID             { return f.id }
func (f *fake) Journal() []reconciler.Round   { return append([]reconciler.Round(nil), f.rounds...) }
func (f *fake) Timeline() []reconciler.Sample { return nil }
func (f *fake) Figures() metrics.Figures      { return metrics.Figures{} }

func (f *fake) Explain(_ context.Context, key string) reconciler.Explanation {
	f.note("explain %q", key)
	return f.explanation
}

func (f *fake) Snapshot(context.Context) reconciler.Snapshot {
	s := f.snapshot
	s.ID = f.id
	return s
}

func (f *fake) Objects(_ context.Context, q reconciler.ObjectQuery) reconciler.ObjectPage {
	f.note("objects %+v", q)
	page := f.page
	if q.Limit == 0 {
		return page
	}
	from := 0
	_, _ = fmt.Sscan(q.After, &from)
	from = min(from, len(page.Objects))
	page.Objects = page.Objects[from:]
	if q.Limit < len(page.Objects) {
		page.Objects, page.Next = page.Objects[:q.Limit], strconv.Itoa(from+q.Limit)
	}
	return page
}

func (f *fake) Keys(prefix string, limit int) (out []string) {
	for _, key := range f.keys {
		if strings.HasPrefix(key, prefix) && len(out) < limit {
			out = append(out, key)
		}
	}
	return out
}

func (f *fake) Events(q reconciler.EventQuery) []reconciler.Event {
	f.note("events %+v", q)
	return f.events
}

func (f *fake) WaitAll(ctx context.Context, m reconciler.Milestone) (reconciler.Owed, error) {
	return f.WaitKey(ctx, "", m)
}

// WaitKey waits for its context if it is to fail.
func (f *fake) WaitKey(ctx context.Context, key string, m reconciler.Milestone) (reconciler.Owed, error) {
	f.note("wait %q %s", key, m)
	if f.err == nil {
		return f.owed, nil
	}
	<-ctx.Done()
	return f.owed, fmt.Errorf("%w: %w", f.err, ctx.Err())
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

func (f *fake) PauseKeys(keys ...string) (int, error) {
	for _, key := range keys {
		f.note("pause %q", key)
	}
	return len(keys), f.err
}

func (f *fake) ResumeKeys(keys ...string) (int, error) {
	for _, key := range keys {
		f.note("resume %q", key)
	}
	return len(keys), f.err
}
