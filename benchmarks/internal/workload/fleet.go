// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/benchmarks/internal/store"
	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// fleet1000 compares agents that follow an etcd.
func fleet1000() Workload {
	return Workload{
		Name: "fleet-1000",
		About: "1,000 agents in one process, each with a connection of its own to an etcd in another process and an " +
			"operation that takes 100 us of CPU. One key is put, 20 times, each after the last agent has applied the " +
			"one before: the time from the put until each agent has applied it. Then the etcd is killed and started: " +
			"the time from when it is ready until all agents have applied a key that is put at once, and the CPU time " +
			"of the etcd meanwhile.",
		Contenders: []string{subject.StatekeelFleet, subject.Watchers},
		Runs:       fewRuns,
		Headline:   "p99",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.withFleet(ctx, int(env.Rows(1_000)), func(f *fleetRun) (Figures, error) { return f.measure(ctx, env) })
		},
	}
}

// relist compares a list of keys that have not changed with a bare read of them.
func relist() Workload {
	return Workload{
		Name: "relist-100k",
		About: "One agent whose table has 100,000 rows of an etcd in another process, and a list of them by a source that knows " +
			"nothing of the table: nothing has changed, so nothing may be written. Beside it a read of the same pages.",
		Contenders: []string{subject.StatekeelFleet, subject.Watchers},
		Runs:       fewRuns,
		Headline:   "list",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return measureRelist(ctx, env, int(env.Rows(100_000)))
		},
	}
}

func measureRelist(ctx context.Context, env *Env, keys int) (_ Figures, err error) {
	s, err := store.New(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := fill(ctx, s, keys); err != nil {
		return nil, err
	}
	var applied atomic.Uint64
	all := make(chan struct{})
	fleet, err := env.StartFleet(subject.FleetOptions{
		Endpoint: s.Endpoint(), Prefix: fleetPrefix, Agents: 1,
		Apply: func(int, string, string) error {
			if applied.Add(1) == uint64(keys) {
				close(all)
			}
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start the contender: %w", err)
	}
	figures, err := func() (Figures, error) {
		if err := errors.Join(fleet.Await(ctx), wait(ctx, all, "the last key to be applied")); err != nil {
			return nil, err
		}
		var writes uint64
		used, err := env.measure(func() (err error) {
			writes, err = fleet.List(ctx)
			return err
		})
		if err != nil {
			return nil, err
		}
		var c checks
		c.equal("writes", writes, 0)
		c.equal("operations", applied.Load(), uint64(keys))
		return Figures{
			less("list", "s", used.wall.Seconds()), cost("cpu", "us/key", micros(used.cpu), uint64(keys)),
			cost("alloc_bytes", "B/key", float64(used.bytes), uint64(keys)),
		}, c.err()
	}()
	return stopped(ctx, fleet, figures, err)
}

// fill puts keys into a store.
func fill(ctx context.Context, s *store.Store, keys int) (err error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	// An etcd takes at most 128 operations in a transaction.
	for from := 0; from < keys; from += 100 {
		var puts []clientv3.Op
		for key := from; key < min(from+100, keys); key++ {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("%skey-%07d", fleetPrefix, key), strings.Repeat("x", 100)))
		}
		if _, err := client.Txn(ctx).Then(puts...).Commit(); err != nil {
			return err
		}
	}
	return nil
}

// fleetPrefix is the prefix of the keys that the agents follow, fleetKey the key that is put.
const (
	fleetPrefix = "wishes/"
	fleetKey    = "one"
	fleetPuts   = 20
)

// fleetRun is a fleet and its store.
type fleetRun struct {
	store  *store.Store
	client *clientv3.Client
	agents int

	mu sync.Mutex
	// value is the latest value of the key. began is when it was put, took how long each agent took that
	// has applied it. all is closed when all have. calls counts all calls, twice those of agents for a value
	// that they had applied before.
	value string
	began time.Time
	took  map[int]time.Duration
	all   chan struct{}
	calls uint64
	twice uint64
}

// withFleet starts a store and a fleet, passes both to run, and stops them.
func (e *Env) withFleet(ctx context.Context, agents int, run func(*fleetRun) (Figures, error)) (_ Figures, err error) {
	s, err := store.New(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	f := &fleetRun{store: s, client: client, agents: agents}
	steps := stepsFor(100 * time.Microsecond)
	fleet, err := e.StartFleet(subject.FleetOptions{
		Endpoint: s.Endpoint(), Prefix: fleetPrefix, Agents: agents,
		Apply: func(agent int, _, value string) error {
			if spin(steps) == 0 {
				return errDown
			}
			f.applied(agent, value)
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start the contender: %w", err)
	}
	figures, err := func() (Figures, error) {
		if err := fleet.Await(ctx); err != nil {
			return nil, err
		}
		return run(f)
	}()
	return stopped(ctx, fleet, figures, err)
}

// applied records that an agent has applied a value.
func (f *fleetRun) applied(agent int, value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if value != f.value {
		return
	}
	if _, again := f.took[agent]; again {
		f.twice++
		return
	}
	f.took[agent] = time.Since(f.began)
	if len(f.took) == f.agents {
		close(f.all)
	}
}

// put puts a value, and waits until all agents have applied it. It returns how long each took.
func (f *fleetRun) put(ctx context.Context, number int) ([]time.Duration, error) {
	f.mu.Lock()
	f.value, f.began = strconv.Itoa(number), time.Now()
	f.took, f.all = map[int]time.Duration{}, make(chan struct{})
	f.mu.Unlock()
	if _, err := f.client.Put(ctx, fleetPrefix+fleetKey, f.value); err != nil {
		return nil, err
	}
	if err := wait(ctx, f.all, "the last agent to apply a value"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var took []time.Duration
	for _, t := range f.took {
		took = append(took, t)
	}
	return took, nil
}

func (f *fleetRun) measure(ctx context.Context, env *Env) (Figures, error) {
	// The first put finds connections that have not been used.
	if _, err := f.put(ctx, 0); err != nil {
		return nil, err
	}
	var took []time.Duration
	used, err := env.measure(func() error {
		for number := range fleetPuts {
			one, err := f.put(ctx, 1+number)
			if err != nil {
				return err
			}
			took = append(took, one...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var c checks
	c.equal("calls", f.calls, uint64(f.agents)*(1+fleetPuts))
	c.equal("calls for a value that was applied", f.twice, 0)
	figures := Figures{
		less("p50", "ms", millis(quantile(took, 0.5))), less("p99", "ms", millis(quantile(took, 0.99))),
		less("max", "ms", millis(quantile(took, 1))),
		cost("cpu", "us/agent", micros(used.cpu), uint64(f.agents)*fleetPuts),
	}

	if err := errors.Join(f.store.Kill(), f.store.Start()); err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := f.put(ctx, 1+fleetPuts); err != nil {
		return nil, err
	}
	load, err := f.store.CPU()
	if err != nil {
		return nil, err
	}
	figures = append(figures,
		less("restart", "s", time.Since(began).Seconds()), less("restart_load", "s", load.Seconds()))
	return figures, c.err()
}
