// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package demo

import (
	"context"
	"fmt"

	"github.com/statekeel/statekeel/example/managed/api"
)

// creation asks for ten tunnels, and kills the agent while it creates them.
func (t *teller) creation(ctx context.Context) error {
	for i := range 10 {
		t.wanted[fmt.Sprintf("tunnel-%d", i)] = api.Settings{Remote: fmt.Sprintf("203.0.113.%d", i+1), Bandwidth: 100}
	}
	if err := t.write(); err != nil {
		return err
	}
	t.say("the file wants ten tunnels")
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

// drift changes and loses tunnels behind the agent's back.
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
	t.say("behind the agent's back tunnel-1 became slow, tunnel-2 goes elsewhere, tunnel-3 is gone")
	return t.do(
		func() error { return t.killWhen(ctx, "updated", 1, func(a api.Audit) int { return a.Updates }) },
		func() error { return t.startAgent(ctx) },
		func() error { return t.settle(ctx) },
	)
}

// edits changes what the file wants.
func (t *teller) edits(ctx context.Context) error {
	for _, name := range []string{"tunnel-4", "tunnel-5"} {
		settings := t.wanted[name]
		settings.Bandwidth = 1000
		t.wanted[name] = settings
	}
	if err := t.write(); err != nil {
		return err
	}
	t.say("the file wants tunnel-4 and tunnel-5 to be faster")
	return t.settle(ctx)
}

// orphan is the tunnel that stays when no row wants it any more.
const orphan = "tunnel-0"

// leaving takes a tunnel out of the file that is to stay at the broker, and kills the agent when that
// has let it go: the next one sweeps, and knows nothing but what the broker says.
func (t *teller) leaving(ctx context.Context) error {
	settings := t.wanted[orphan]
	settings.Left = true
	delete(t.wanted, orphan)
	t.left[orphan] = settings
	t.say("the file does not want %s any more, which is to stay at the broker", orphan)
	return t.do(t.write, func() error { return t.settle(ctx) },
		func() error { return t.killWhen(ctx, "created", 1, func(a api.Audit) int { return a.Creates }) },
		func() error { return t.startAgent(ctx) })
}

// deletion takes tunnels out of the file, one of them while no agent runs.
func (t *teller) deletion(ctx context.Context) error {
	for _, name := range []string{"tunnel-6", "tunnel-7", "tunnel-8"} {
		delete(t.wanted, name)
	}
	if err := t.write(); err != nil {
		return err
	}
	t.say("the file does not want tunnel-6, tunnel-7 and tunnel-8 any more")
	if err := t.killWhen(ctx, "deleted", 1, func(a api.Audit) int { return a.Deletes }); err != nil {
		return err
	}
	delete(t.wanted, "tunnel-9")
	t.say("nor tunnel-9, and no agent runs that could notice")
	return t.do(t.write, func() error { return t.startAgent(ctx) }, func() error { return t.settle(ctx) })
}
