// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package demo

import (
	"context"
	"fmt"

	"github.com/statekeel/statekeel/example/managed/api"
)

// creation lists ten tunnels in the file, and kills the agent while it creates them.
func (t *teller) creation(ctx context.Context) error {
	for i := range 10 {
		t.wanted[fmt.Sprintf("tunnel-%d", i)] = api.Settings{Remote: fmt.Sprintf("203.0.113.%d", i+1), Bandwidth: 100}
	}
	if err := t.write(); err != nil {
		return err
	}
	t.say("the file lists ten tunnels")
	creates := func(a api.Audit) int { return a.Creates }
	return t.do(
		func() error { return t.startAgent(ctx) },
		func() error { return t.killWhen(ctx, "created", 3, creates) },
		func() error { return t.startAgent(ctx) },
		func() error { return t.killWhen(ctx, "created", 7, creates) },
		func() error { return t.startAgent(ctx) },
		func() error { return t.settle(ctx) },
	)
}

// drift changes and loses tunnels without the agent.
func (t *teller) drift(ctx context.Context) error {
	for _, d := range []api.Drift{
		{Name: "tunnel-1", Settings: api.Settings{Remote: "203.0.113.2", Bandwidth: 1}},
		{Name: "tunnel-2", Settings: api.Settings{Remote: "198.51.100.66", Bandwidth: 100}},
		{Name: "tunnel-3", Lose: true},
	} {
		if err := t.client.Drift(ctx, d); err != nil {
			return err
		}
	}
	t.say("drift: tunnel-1 became slow, tunnel-2 has another remote end, tunnel-3 is gone")
	return t.do(
		func() error { return t.killWhen(ctx, "updated", 1, func(a api.Audit) int { return a.Updates }) },
		func() error { return t.startAgent(ctx) },
		func() error { return t.settle(ctx) },
	)
}

// edits changes settings in the file.
func (t *teller) edits(ctx context.Context) error {
	for _, name := range []string{"tunnel-4", "tunnel-5"} {
		settings := t.wanted[name]
		settings.Bandwidth = 1000
		t.wanted[name] = settings
	}
	if err := t.write(); err != nil {
		return err
	}
	t.say("the file makes tunnel-4 and tunnel-5 faster")
	return t.settle(ctx)
}

// orphan is the tunnel that stays when it is removed from the file.
const orphan = "tunnel-0"

// leaving removes a tunnel from the file that must stay at the broker, and kills the agent when it has
// removed the row. The next agent lists, and knows only what the broker shows.
func (t *teller) leaving(ctx context.Context) error {
	settings := t.wanted[orphan]
	settings.Left = true
	delete(t.wanted, orphan)
	t.left[orphan] = settings
	t.say("%s is removed from the file, but must stay at the broker", orphan)
	return t.do(t.write, func() error { return t.settle(ctx) },
		func() error { return t.killWhen(ctx, "created", 1, func(a api.Audit) int { return a.Creates }) },
		func() error { return t.startAgent(ctx) })
}

// deletion removes tunnels from the file, one of them while no agent runs.
func (t *teller) deletion(ctx context.Context) error {
	for _, name := range []string{"tunnel-6", "tunnel-7", "tunnel-8"} {
		delete(t.wanted, name)
	}
	if err := t.write(); err != nil {
		return err
	}
	t.say("tunnel-6, tunnel-7 and tunnel-8 are removed from the file")
	if err := t.killWhen(ctx, "deleted", 1, func(a api.Audit) int { return a.Deletes }); err != nil {
		return err
	}
	delete(t.wanted, "tunnel-9")
	t.say("tunnel-9 is removed from the file while no agent runs")
	return t.do(t.write, func() error { return t.startAgent(ctx) }, func() error { return t.settle(ctx) })
}
