// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

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

// polls compares managed reconcilers with n workers.
func polls(n int, contenders ...string) Workload {
	return Workload{
		Name: fmt.Sprintf("managed-%d", n),
		About: fmt.Sprintf("20,000 managed resources that are ready and synced are polled again and again, with %d at a "+
			"time: each is observed to be up to date, its conditions are set to what they were, and it is due again at once, "+
			"after all others. %d polls of each, after %d that are not measured; each poll counts as one object. "+
			"Neither side has an API server or an external system to wait for.", n, measuredPolls, firstPolls),
		Contenders: contenders,
		Runs:       fewRuns,
		Headline:   "throughput",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.withController(ctx, func(controller subject.Controller) (Figures, error) {
				poller, ok := controller.(subject.Poller)
				if !ok {
					return nil, fmt.Errorf("a %T does not poll", controller)
				}
				return measurePolls(ctx, env, poller, env.Rows(20_000))
			})
		},
	}
}

// measurePolls measures the polls of n resources.
func measurePolls(ctx context.Context, env *Env, poller subject.Poller, n uint64) (Figures, error) {
	target := poller.Target()
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	tally, err := poll(ctx, env, poller, n, held)
	if err != nil {
		return nil, err
	}
	spread := tally.spread()
	written := poller.Written()
	last := tally.ended.Reached(n * allPolls)
	used, err := env.measure(func() error {
		target.SetRule(tally.rule(nothing))
		release()
		if err := wait(ctx, last, "the last poll"); err != nil {
			return err
		}
		return poller.Await(ctx)
	})
	if err != nil {
		return nil, err
	}
	var c checks
	c.polled(poller, tally, n)
	const over = measuredPolls
	return Figures{
		rate("throughput", "objects/s", n*over, used.wall),
		cost("cpu", "us/object", micros(used.cpu), n*over),
		cost("allocs", "allocs/object", float64(used.allocs), n*over),
		cost("alloc_bytes", "B/object", float64(used.bytes), n*over),
		cost("writes", "writes/object", float64(poller.Written()-written), n*over),
		info("spread", "polls", float64(spread)),
	}, c.err()
}

// poll asks for n resources, and returns when the polls before the measured ones are done. By then the next
// polls have begun; they continue when held closes.
func poll(ctx context.Context, env *Env, poller subject.Poller, n uint64, held <-chan struct{}) (*tally, error) {
	target := poller.Target()
	tally := tallied(target, n, func(uint64) error {
		if target.Updates.Load() > n*firstPolls {
			return wait(ctx, held, "the measurement")
		}
		return nil
	})
	// Until begin each resource is observed for the first time.
	begin := time.Now().Add(env.Settle)
	poller.PollAfter(func(id uint64) time.Duration {
		switch calls := tally.calls[id].Load(); {
		case calls >= allPolls:
			return 0
		case calls < firstPolls:
			return max(time.Until(begin), atOnce)
		}
		return atOnce
	})
	ask, err := poller.Prepare(0, n)
	if err != nil {
		return nil, err
	}
	next := target.Updates.Reached(n*firstPolls + 1)
	if err := ask(); err != nil {
		return nil, err
	}
	return tally, wait(ctx, next, "the first polls")
}

// polled checks that each of n resources was polled as often as expected, that all are ready, that no status
// was written in excess, and that no more polls ran at a time than the poller has workers.
func (c *checks) polled(poller subject.Poller, t *tally, n uint64) {
	c.equal("resources that are left", poller.Left(), 0)
	c.equal("resources that are ready and synced", poller.Well(), n)
	c.equal("statuses that were written", poller.Written(), poller.Writes(n, allPolls))
	c.equal("polls", poller.Target().Updates.Load(), n*allPolls)
	c.each("Update", t, n, allPolls)
	c.atMost("polls at a time", t.inFlight(), uint64(poller.Workers()))
}
