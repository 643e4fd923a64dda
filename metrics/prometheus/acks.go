// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus

import (
	"maps"
	"sync"

	client "github.com/prometheus/client_golang/prometheus"
)

// Acks is a [client.Collector] for how far a program tells a store that it is, with package
// reconciler/source/etcd. Each of its metrics has the label "name", the name of the agent in the store:
//
//   - ack_told: 1 if the store has taken the last ack, else 0;
//   - ack_revision, ack_applied_revision: the revisions of the last ack: attempted, applied;
//   - ack_problems: the lines of problems in it, ten at most.
//
// An agent stays when it ends, as it was. Acks is safe for concurrent use. See [NewAcks].
type Acks struct {
	values []*client.Desc

	mu   sync.Mutex
	last map[string]ack // by name
}

// ack is what was told last.
type ack struct {
	revision, applied uint64
	problems          int
	taken             bool
}

const labelName = "name"

// ackValue is a metric of an agent.
type ackValue struct {
	name, help string
	of         func(ack) float64
}

var ackValues = []ackValue{
	{"ack_told", "1 if the store has taken the last ack, else 0.", func(a ack) float64 {
		if a.taken {
			return 1
		}
		return 0
	}},
	{"ack_revision", "Revision of the store up to which everything was attempted.",
		func(a ack) float64 { return float64(a.revision) }},
	{"ack_applied_revision", "Revision of the store up to which everything was applied.",
		func(a ack) float64 { return float64(a.applied) }},
	{"ack_problems", "Lines of problems in the ack, ten at most.",
		func(a ack) float64 { return float64(a.problems) }},
}

// NewAcks returns an Acks without agents. It takes the options of [New], and can be registered beside a
// [Metrics] with the same namespace; "name" must not be a constant label. The error joins everything that is
// wrong with the options.
func NewAcks(options ...Option) (*Acks, error) {
	s, err := settingsOf(options, labelName)
	if err != nil {
		return nil, err
	}
	a := &Acks{last: map[string]ack{}}
	for _, v := range ackValues {
		a.values = append(a.values, s.desc(v.name, v.help, labelName))
	}
	return a, nil
}

// Told notes an ack that was written, or could not be, with the error of that: call it in the field Told of
// etcd.Acks, with the fields Revision and AppliedRevision of the ack and the number of its Problems.
func (a *Acks) Told(name string, revision, applied uint64, problems int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last[name] = ack{revision: revision, applied: applied, problems: problems, taken: err == nil}
}

// Describe is called by the registry.
func (a *Acks) Describe(descs chan<- *client.Desc) {
	for _, d := range a.values {
		descs <- d
	}
}

// Collect is called by the registry, at each scrape.
func (a *Acks) Collect(out chan<- client.Metric) {
	a.mu.Lock()
	last := maps.Clone(a.last)
	a.mu.Unlock()
	for name, told := range last {
		for n, v := range ackValues {
			out <- gauge(a.values[n], v.of(told), labelValue(name))
		}
	}
}
