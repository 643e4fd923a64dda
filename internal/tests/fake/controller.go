// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package fake has the controller that tests of commands and of the page show.
package fake

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Controller is a reconciler with fixed answers, which records what it is asked. Its fields are set before it is used.
type Controller struct {
	Identity    inspect.ID
	Explanation inspect.Explanation
	Shown       inspect.Snapshot
	Lines       []inspect.ObjectLine // the objects; positions stand for revisions
	Page        inspect.ObjectPage   // what a page has before them, and its other fields
	History     []inspect.Operation
	Passed      []inspect.Round // the rounds
	Names       []string        // the keys
	Rest        inspect.Unapplied
	Planned     inspect.Plan
	None        bool // Retry and Refresh return 0, and not the number of the keys, at least 1
	Approves    bool
	ListErr     error
	Err         error // of what acts, and of waits, which wait for the end of their context first

	mu    sync.Mutex
	asked []string
}

func (c *Controller) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, fmt.Sprintf(format, args...))
}

// Take returns the calls since its last call, each as text.
func (c *Controller) Take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked
	c.asked = nil
	return asked
}

// Acts is Take for the calls that change something.
func (c *Controller) Acts() []string {
	return slices.DeleteFunc(c.Take(), func(call string) bool {
		name, _, _ := strings.Cut(call, " ")
		return name == "explain" || name == "objects" || name == "operations" || name == "wait" || name == "plan"
	})
}

func (c *Controller) ID() inspect.ID           { return c.Identity }
func (c *Controller) Rounds() []inspect.Round  { return slices.Clone(c.Passed) }
func (c *Controller) Figures() metrics.Figures { return metrics.Figures{} }

func (c *Controller) Explain(_ context.Context, key string) inspect.Explanation {
	c.note("explain %q", key)
	e := c.Explanation
	if e.Key == "" {
		e.Key = key
	}
	return e
}

func (c *Controller) Snapshot(context.Context) inspect.Snapshot {
	s := c.Shown
	if s.Reconciler == "" {
		s.ID, s.Reconciler = c.Identity, c.Identity.String()
	}
	return s
}

func (c *Controller) Objects(_ context.Context, q inspect.ObjectQuery) (inspect.ObjectPage, error) {
	c.note("objects %+v", q)
	page := c.Page
	page.Objects = slices.Clone(page.Objects)
	for _, o := range c.Lines {
		if q.Status == "" || strings.EqualFold(q.Status, o.Status) {
			page.Objects = append(page.Objects, o)
		}
	}
	if q.Limit > 0 {
		from, _ := strconv.Atoi(q.After)
		from = min(from, len(page.Objects))
		if to := from + q.Limit; to < len(page.Objects) {
			page.Objects, page.Next = page.Objects[:to], strconv.Itoa(to)
		}
		page.Objects = page.Objects[from:]
	}
	return page, c.ListErr
}

func (c *Controller) Keys(prefix string, limit int) (out []string) {
	for _, key := range c.Names {
		if strings.HasPrefix(key, prefix) && len(out) < limit {
			out = append(out, key)
		}
	}
	return out
}

func (c *Controller) Operations(q inspect.OperationQuery) (out []inspect.Operation) {
	c.note("operations %+v", q)
	for _, e := range c.History {
		if (q.Key == "" || q.Key == e.Key) && (e.Started.IsZero() || !e.Started.Before(q.Since)) {
			out = append(out, e)
		}
	}
	if q.Limit > 0 {
		out = out[max(0, len(out)-q.Limit):]
	}
	return out
}

func (c *Controller) WaitAll(ctx context.Context, m progress.Milestone) (inspect.Unapplied, error) {
	return c.WaitKey(ctx, "", m)
}

func (c *Controller) WaitKey(ctx context.Context, key string, m progress.Milestone) (inspect.Unapplied, error) {
	c.note("wait %q %s", key, m)
	if c.Err == nil {
		return c.Rest, nil
	}
	<-ctx.Done()
	return c.Rest, fmt.Errorf("%w: %w", c.Err, ctx.Err())
}

func (c *Controller) Retry(_ context.Context, keys ...string) (int, error) {
	c.note("retry %q", keys)
	return c.number(keys), c.Err
}

func (c *Controller) Refresh(_ context.Context, keys ...string) (int, error) {
	c.note("refresh %q", keys)
	return c.number(keys), c.Err
}

func (c *Controller) number(keys []string) int {
	if c.None {
		return 0
	}
	return max(1, len(keys))
}

func (c *Controller) Plan(ctx context.Context) (inspect.Plan, error) {
	c.note("plan")
	if c.Err != nil {
		<-ctx.Done()
		return inspect.Plan{}, fmt.Errorf("%w: %w", c.Err, ctx.Err())
	}
	p := c.Planned
	p.Differences = slices.Clone(p.Differences)
	return p, nil
}

func (c *Controller) ApproveResync() bool {
	c.note("approve")
	return c.Approves
}

func (c *Controller) Prune()  { c.note("prune") }
func (c *Controller) Pause()  { c.note("pause") }
func (c *Controller) Resume() { c.note("resume") }

func (c *Controller) PauseOnly(keys ...string) error {
	c.note("pause only %q", keys)
	c.Shown.Paused = keys
	return c.Err
}
