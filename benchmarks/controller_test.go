// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package benchmarks

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/controllers"
)

// BenchmarkRequest prepares 200,000 distinct requests and then makes them all at once, by a commit (statekeel) or by a call,
// for a reconciler that does nothing; from making them to the end of the last reconciliation.
func BenchmarkRequest(b *testing.B) {
	for _, workers := range []int{1, 8} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			compare(b, func(r *run, start func(int) (controllers.Controller, error)) { requests(r, start, workers) },
				contender[func(int) (controllers.Controller, error)]{"statekeel", controllers.Requests},
				contender[func(int) (controllers.Controller, error)]{"controller-runtime", controllers.ControllerRuntime})
		})
	}
}

func requests(r *run, start func(workers int) (controllers.Controller, error), workers int) {
	c, err := start(workers)
	r.must(err)
	defer r.stop(c.Stop)
	n := r.rows(200_000)
	tally := tallied(c.Target(), n, nothing)
	ask, err := c.Prepare(0, n)
	r.must(err)
	reached := tally.ended.Reached(n)
	s := r.section()
	r.must(ask())
	r.wait(reached, "the last request")
	r.throughput(s.used(), n, "request")

	r.must(c.Await(r.ctx))
	r.equal("requests that are left", c.Left(), 0)
	r.equal("reconciliations", c.Target().Updates.Load(), n)
	r.checkTally(tally, n, 1, workers)
}

const (
	// firstPolls is the number of polls of each resource before the measurement: the first writes its
	// status, and after the second all resources are polled evenly.
	firstPolls = 2
	// measuredPolls is the number of polls that are measured, allPolls the total.
	measuredPolls = 10
	allPolls      = firstPolls + measuredPolls

	// atOnce is the shortest poll interval: the resource is due again at once, after all that were due
	// before.
	atOnce = time.Nanosecond
)

// BenchmarkManaged polls 20,000 managed resources that are ready and synced again and again: each is observed to be up to
// date, its conditions are set to what they were, and it is due again at once, after all others. Ten polls of each are
// measured, after two that are not; each poll counts as one object. No side has an API server or an external system to wait
// for.
func BenchmarkManaged(b *testing.B) {
	for _, workers := range []int{1, 8} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			compare(b, func(r *run, start func(int) (controllers.Poller, error)) { polls(r, start, workers) },
				contender[func(int) (controllers.Poller, error)]{"statekeel", controllers.Managed},
				contender[func(int) (controllers.Poller, error)]{"crossplane-runtime", controllers.Crossplane})
		})
	}
}

func polls(r *run, start func(workers int) (controllers.Poller, error), workers int) {
	p, err := start(workers)
	r.must(err)
	defer r.stop(p.Stop)
	n, target := r.rows(20_000), p.Target()
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	// The measured polls wait for their beginning.
	tally := tallied(target, n, func(uint64) error {
		if target.Updates.Load() > n*firstPolls {
			<-held
		}
		return nil
	})
	// Until begin each resource is observed for the first time.
	begin := time.Now().Add(r.settle)
	p.PollAfter(func(id uint64) time.Duration {
		switch calls := tally.calls[id].Load(); {
		case calls >= allPolls:
			return 0
		case calls < firstPolls:
			return max(time.Until(begin), atOnce)
		}
		return atOnce
	})
	ask, err := p.Prepare(0, n)
	r.must(err)
	next := target.Updates.Reached(n*firstPolls + 1)
	r.must(ask())
	r.wait(next, "the first polls")

	last := tally.ended.Reached(n * allPolls)
	s := r.section()
	target.SetRule(tally.rule(nothing))
	release()
	r.wait(last, "the last poll")
	r.must(p.Await(r.ctx))
	r.throughput(s.used(), n*measuredPolls, "object")

	r.equal("resources that are left", p.Left(), 0)
	r.equal("resources that are ready and synced", p.Well(), n)
	r.equal("statuses that were written", p.Written(), p.Writes(n, allPolls))
	r.equal("polls", target.Updates.Load(), n*allPolls)
	r.checkTally(tally, n, allPolls, workers)
}
