// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package benchmarks

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/benchmarks/internal/fleet"
)

// BenchmarkFleet has 1,000 agents in one process, each with a connection of its own to an etcd in another process and an
// operation that takes 100 us of CPU. One key is put, 20 times, each after the last agent has applied the one before: the
// time from the put until each agent has applied it. Then the etcd is killed and started: the time from when it is ready
// until all agents have applied a key that is put at once.
func BenchmarkFleet(b *testing.B) {
	compare(b, follow,
		contender[startFleet]{"statekeel", fleet.Agents},
		contender[startFleet]{"watchers", fleet.Watchers})
}

type startFleet = func(fleet.Options) (*fleet.Fleet, error)

const (
	fleetPrefix = "wishes/"
	fleetKey    = "one"
	fleetPuts   = 20
)

// fleetRun is a fleet and the key that it follows.
type fleetRun struct {
	*run
	client *clientv3.Client
	agents int

	mu sync.Mutex
	// value is the latest value of the key. began is when it was put, took how long each agent took that
	// has applied it. all is closed when all have. calls counts all calls.
	value string
	began time.Time
	took  map[int]time.Duration
	all   chan struct{}
	calls uint64
}

func follow(r *run, start startFleet) {
	etcd, err := fleet.NewStore(r.ctx)
	r.must(err)
	defer func() { r.stop(func(context.Context) error { return etcd.Close() }) }()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.Endpoint()}})
	r.must(err)
	defer func() { r.stop(func(context.Context) error { return client.Close() }) }()
	f := &fleetRun{run: r, client: client, agents: int(r.rows(1_000))}
	work := spinning(100 * time.Microsecond)
	agents, err := start(fleet.Options{
		Endpoint: etcd.Endpoint(), Prefix: fleetPrefix, Agents: f.agents,
		Apply: func(agent int, _, value string) error {
			if err := work(0); err != nil {
				return err
			}
			f.applied(agent, value)
			return nil
		},
	})
	r.must(err)
	defer func() { r.stop(func(context.Context) error { return agents.Stop() }) }()
	r.must(agents.Await(r.ctx))

	f.put(0) // it finds connections that have not been used
	var took []time.Duration
	s := r.section()
	for number := range fleetPuts {
		took = append(took, f.put(1+number)...)
	}
	used := s.used()
	r.duration(quantile(took, 0.5), "p50")
	r.duration(quantile(took, 0.99), "p99")
	r.ReportMetric(float64(used.cpu)/float64(f.agents*fleetPuts), "CPU-ns/agent")
	r.equal("calls", f.calls, uint64(f.agents)*(1+fleetPuts))

	r.must(errors.Join(etcd.Kill(), etcd.Start()))
	began := time.Now()
	f.put(1 + fleetPuts)
	r.duration(time.Since(began), "restart")
}

// applied records that an agent has applied a value.
func (f *fleetRun) applied(agent int, value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if _, again := f.took[agent]; again || value != f.value {
		return
	}
	f.took[agent] = time.Since(f.began)
	if len(f.took) == f.agents {
		close(f.all)
	}
}

// put puts a value, and waits until all agents have applied it. It returns how long each took.
func (f *fleetRun) put(number int) (took []time.Duration) {
	f.mu.Lock()
	f.value, f.began = strconv.Itoa(number), time.Now()
	f.took, f.all = map[int]time.Duration{}, make(chan struct{})
	f.mu.Unlock()
	_, err := f.client.Put(f.ctx, fleetPrefix+fleetKey, f.value)
	f.must(err)
	f.wait(f.all, "the last agent to apply a value")
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.took {
		took = append(took, t)
	}
	return took
}
