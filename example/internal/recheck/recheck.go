// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package recheck has a reconciler look at what the events of its target name.
package recheck

import (
	"context"
	"sync"
	"time"

	"github.com/cilium/hive/cell"
)

// Loop is what a [Queue] needs of a [github.com/statekeel/statekeel/reconciler.Loop].
type Loop[Row any] interface {
	Verify(ctx context.Context, rows ...Row) error
	Resync()
}

const (
	// settle is the time from the first event of a burst to the look at what all of them name.
	settle = 50 * time.Millisecond
	// many is how many rows are looked at one by one. A resync looks at more of them at once, unless it would have to wait.
	many = 100
	// shortest is the time between the first two resyncs. It doubles with each, up to longest, as while another program undoes
	// each repair. So none waits for much longer than resyncs have been asked for before it. After longest without any, the
	// next one is a first one.
	shortest, longest = 100 * time.Millisecond, time.Minute
)

// pace says when resyncs may begin.
type pace struct {
	pause time.Duration // after the last resync
	next  time.Time
}

// wait returns how long a resync would have to wait.
func (p *pace) wait(now time.Time) time.Duration { return max(0, p.next.Sub(now)) }

// take has a resync begin as soon as it may, and returns how long that has to wait.
func (p *pace) take(now time.Time) time.Duration {
	if now.Sub(p.next) > longest {
		p.pause = 0
	}
	wait := p.wait(now)
	p.pause = min(max(2*p.pause, shortest), longest)
	p.next = now.Add(wait + p.pause)
	return wait
}

// Queue has the rows that wait for a look. Its methods are safe from any goroutine, and wait for nothing.
type Queue[Row comparable] struct {
	loop Loop[Row]
	wake chan struct{}

	mu     sync.Mutex
	rows   map[Row]bool
	resync bool
}

// New returns an empty queue.
func New[Row comparable](loop Loop[Row]) *Queue[Row] {
	return &Queue[Row]{loop: loop, wake: make(chan struct{}, 1), rows: make(map[Row]bool)}
}

// Verify asks for a look at rows.
func (q *Queue[Row]) Verify(rows ...Row) {
	q.ask(func() {
		for _, row := range rows {
			q.rows[row] = true
		}
	})
}

// Resync asks for a resync: events were lost, or are about what no row asks for.
func (q *Queue[Row]) Resync() { q.ask(func() { q.resync = true }) }

func (q *Queue[Row]) ask(add func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	add()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (q *Queue[Row]) take() (rows []Row, resync bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for row := range q.rows {
		rows = append(rows, row)
	}
	clear(q.rows)
	resync, q.resync = q.resync, false
	select {
	case <-q.wake:
	default:
	}
	return rows, resync
}

// Run hands the loop what is asked for, until ctx ends. It is a job, and returns nil.
func (q *Queue[Row]) Run(ctx context.Context, _ cell.Health) error {
	var resyncs pace
	var due <-chan time.Time // the resync that waits; nil if there is none
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-due:
			due = nil
			q.loop.Resync()
			continue
		case <-q.wake:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settle):
		}
		rows, resync := q.take()
		if len(rows) > many && resyncs.wait(time.Now()) == 0 {
			rows, resync = nil, true
		}
		if len(rows) > 0 {
			// The loop may have stopped, or the context has ended. A resync finds what else has been left out.
			err := q.loop.Verify(ctx, rows...)
			resync = resync || err != nil
		}
		if resync && due == nil {
			due = time.After(resyncs.take(time.Now()))
		}
	}
}
