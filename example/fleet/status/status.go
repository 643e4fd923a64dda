// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package status reads from the store how far the agents of a fleet are, and shows it.
package status

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/example/fleet/feed"
	"github.com/statekeel/statekeel/example/internal/screen"
	"github.com/statekeel/statekeel/reconciler/source/etcd"
)

// Agent is how far an agent is.
type Agent struct {
	Name string
	// Alive reports whether the agent runs and reaches the store. The rest is what it said last.
	Alive bool
	// Revision is the revision of the store up to which the agent has attempted every change.
	Revision uint64
	// Problems has a line for each of up to ten objects of a table that are not applied, and for what
	// else is wrong.
	Problems []string
	// Applied reports whether the agent has applied all that the store wants.
	Applied bool
}

// Fleet is how far the agents are at one moment.
type Fleet struct {
	// Revision is the revision of the last change of what the store wants.
	Revision uint64
	// Agents are in the order of their names.
	Agents []Agent
}

// Applied reports whether all agents are alive and have applied all that the store wants.
func (f Fleet) Applied() bool {
	return !slices.ContainsFunc(f.Agents, func(a Agent) bool { return !a.Alive || !a.Applied })
}

// Read reads the status from the store.
func Read(ctx context.Context, client *clientv3.Client) (Fleet, error) {
	ops := []clientv3.Op{
		clientv3.OpGet(feed.Identity),
		clientv3.OpGet(feed.Acks, clientv3.WithPrefix()),
		clientv3.OpGet(feed.Alive, clientv3.WithPrefix()),
	}
	for _, table := range feed.Tables {
		ops = append(ops, clientv3.OpGet(feed.Changed+table),
			clientv3.OpGet(feed.Desired+table+"/", append(clientv3.WithLastRev(), clientv3.WithKeysOnly())...))
	}
	// One transaction, so that all is of one moment.
	read, err := client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return Fleet{}, err
	}
	keys := func(i int) []*mvccpb.KeyValue { return read.Responses[i].GetResponseRange().Kvs }
	said := answers{acks: make(map[string]etcd.Ack), alive: make(map[string]bool), wanted: make(map[string]uint64)}
	since := make(map[string]int64)
	for _, kv := range keys(0) {
		said.store = string(kv.Value)
	}
	agents := make(map[string]bool)
	for _, kv := range keys(2) {
		part := strings.TrimPrefix(string(kv.Key), feed.Alive)
		said.alive[part], since[part], agents[feed.Agent(part)] = true, kv.ModRevision, true
	}
	for _, kv := range keys(1) {
		part := strings.TrimPrefix(string(kv.Key), feed.Acks)
		agents[feed.Agent(part)] = true
		// An agent that starts writes its key below Alive first: the ack of the process before does not
		// count.
		if kv.ModRevision < since[part] {
			continue
		}
		var ack etcd.Ack
		if err := json.Unmarshal(kv.Value, &ack); err != nil {
			// It hides no other agent.
			ack = etcd.Ack{Problems: []string{fmt.Sprintf("%q is no ack: %s", kv.Key, err)}}
		}
		said.acks[part] = ack
	}
	var f Fleet
	for i, table := range feed.Tables {
		for _, kv := range slices.Concat(keys(3+2*i), keys(4+2*i)) {
			said.wanted[table] = max(said.wanted[table], uint64(kv.ModRevision))
		}
		f.Revision = max(f.Revision, said.wanted[table])
	}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		f.Agents = append(f.Agents, said.agent(name, f.Revision))
	}
	return f, nil
}

// answers are what the store has.
type answers struct {
	store  string              // its identity
	acks   map[string]etcd.Ack // by part
	alive  map[string]bool     // by part
	wanted map[string]uint64   // the revision of the last change, by table
}

// agent puts together what an agent says of its tables. An agent that has attempted the last change of
// each table has attempted all up to revision, that of the last change of any.
func (s answers) agent(name string, revision uint64) Agent {
	a := Agent{Name: name, Alive: true, Revision: revision, Applied: true}
	for _, table := range feed.Tables {
		part := feed.Part(name, table)
		a.Alive = a.Alive && s.alive[part]
		ack, said := s.acks[part]
		if ack.Store != s.store { // another store had other revisions
			said, ack.Revision = false, 0
		}
		if ack.Revision < s.wanted[table] {
			a.Revision = min(a.Revision, ack.Revision)
		}
		a.Applied = a.Applied && said && ack.Applied(s.wanted[table])
		for _, problem := range ack.Problems {
			a.Problems = append(a.Problems, table+" "+problem)
		}
	}
	return a
}

// Lines returns a line for each agent, below one with the titles of the columns and the revision of the
// store.
func (f Fleet) Lines() []string {
	lines := []string{row("AGENT", "ALIVE", "REVISION", fmt.Sprintf("STATUS (the store wants revision %d)", f.Revision))}
	for _, a := range f.Agents {
		alive := "no"
		if a.Alive {
			alive = "yes"
		}
		lines = append(lines, row(screen.OneLine(a.Name), alive, strconv.FormatUint(a.Revision, 10), a.status(f.Revision)))
	}
	return lines
}

func row(name, alive, revision, status string) string {
	return fmt.Sprintf("%-10s  %-5s  %-8s  %s", name, alive, revision, status)
}

// status says in one line what an agent has not applied.
func (a Agent) status(wanted uint64) string {
	var parts []string
	if a.Revision < wanted {
		parts = append(parts, "behind")
	}
	for _, problem := range a.Problems {
		parts = append(parts, screen.OneLine(problem))
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, "; ")
	case !a.Applied:
		return "not applied"
	}
	return "applied"
}
