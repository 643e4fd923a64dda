// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cilium/hive"
	"github.com/cilium/hive/script"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/internal/health"
	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/proxy"
	"github.com/statekeel/statekeel/reconciler"
)

// Commands of the shell.
const (
	statusCommand = "services/status"
	whyCommand    = "services/why"
)

// looker says how far the kernel is, and why.
type looker struct {
	db        *statedb.DB
	services  statedb.Table[*proxy.Service]
	slices    statedb.Table[*proxy.EndpointSlice]
	frontends statedb.Table[*proxy.Frontend]
	join      *proxy.Join
	loop      *reconciler.Loop[*proxy.Frontend]
	health    *health.Registry
}

// newLooker returns the commands of the shell.
func newLooker(
	db *statedb.DB, services statedb.RWTable[*proxy.Service], slices statedb.RWTable[*proxy.EndpointSlice],
	frontends statedb.RWTable[*proxy.Frontend], join *proxy.Join, loop *reconciler.Loop[*proxy.Frontend], health *health.Registry,
) hive.ScriptCmdsOut {
	l := &looker{db, services, slices, frontends, join, loop, health}
	answer := func(text string, err error) (script.WaitFunc, error) {
		return func(*script.State) (stdout, stderr string, _ error) { return text, "", err }, nil
	}
	return hive.NewScriptCmds(map[string]script.Cmd{
		statusCommand: script.Command(script.CmdUsage{Summary: "Show how far the kernel is"},
			func(s *script.State, args ...string) (script.WaitFunc, error) {
				if len(args) != 0 {
					return nil, script.ErrUsage
				}
				return answer(l.status(s.Context()), nil)
			}),
		whyCommand: script.Command(script.CmdUsage{Summary: "Explain what became of a service or an address", Args: "name"},
			func(s *script.State, args ...string) (script.WaitFunc, error) {
				if len(args) != 1 {
					return nil, script.ErrUsage
				}
				text, err := l.why(s.Context(), args[0])
				return answer(text, err)
			}),
	})
}

// maxConflicts is how many conflicts are listed.
const maxConflicts = 10

// status counts what is wanted and what is done.
func (l *looker) status(ctx context.Context) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	add := func(name string, value any) { fmt.Fprintf(w, "%s\t%v\n", name, value) }
	txn := l.db.ReadTxn()
	ready, endpoints, empty := 0, 0, 0
	var conflicts []string
	for s := range l.services.All(txn) {
		for _, claim := range s.Frontends() {
			if lost := l.lost(txn, claim); lost != "" {
				conflicts = append(conflicts, lost)
			}
		}
	}
	for s := range l.slices.All(txn) {
		endpoints, ready = endpoints+len(s.Endpoints), ready+s.Ready()
	}
	for frontend := range l.frontends.All(txn) {
		if len(frontend.Endpoints) == 0 {
			empty++
		}
	}
	snapshot := l.loop.Snapshot(ctx)
	add("services", fmt.Sprint(l.services.NumObjects(txn), l.unread(txn)))
	add("frontends", fmt.Sprintf("%d, %d of them without an endpoint", snapshot.Objects, empty))
	add("endpoints", fmt.Sprintf("%d in %d slices, %d of them ready", endpoints, l.slices.NumObjects(txn), ready))
	add("conflicts", len(conflicts))
	for i, lost := range conflicts {
		if i == maxConflicts {
			add("", "...")
			break
		}
		add("", lost)
	}
	add("failing", snapshot.Failing)
	if snapshot.Failing > 0 && len(snapshot.Errors) > 0 {
		add("", snapshot.Errors[0].Example)
	}
	add("reconciler", snapshot.Summary())
	if snapshot.Resync == nil {
		add("last resync", "none yet")
	} else {
		add("last resync", snapshot.Resync.Summary())
	}
	degraded := l.health.Degraded()
	if len(degraded) == 0 {
		add("health", "ok")
	}
	for _, report := range degraded {
		add("health", report.String())
	}
	_ = w.Flush() // a strings.Builder returns no error
	return out.String()
}

// unread says that the input has not given its first lists; empty if it has.
func (l *looker) unread(txn statedb.ReadTxn) string {
	for _, table := range []statedb.TableMeta{l.services, l.slices} {
		if is, _ := table.Initialized(txn); !is {
			return "; not all have been read yet"
		}
	}
	return ""
}

// lost says to whom a service has lost an address that it claims; empty if it has it, or no service has it yet.
func (l *looker) lost(txn statedb.ReadTxn, claim *proxy.Frontend) string {
	frontend, _, found := l.frontends.Get(txn, proxy.ByAddress(claim.At))
	if !found || frontend.Service == claim.Service {
		return ""
	}
	s, _, _ := l.services.Get(txn, proxy.ByName(claim.Service))
	winner, _, found := l.services.Get(txn, proxy.ByName(frontend.Service))
	if !found {
		return ""
	}
	why := "which is older"
	if !winner.Created.Before(s.Created) {
		why = "which is as old, and whose name is lower"
	}
	return fmt.Sprintf("%s has lost %s to %s, %s", claim.Name(), claim.At, frontend.Name(), why)
}

// claims returns what a service claims, or its port, and the name of the service. Of an address, which no service has to
// claim, it returns that.
func (l *looker) claims(txn statedb.ReadTxn, name string) (key string, claims []*proxy.Frontend, err error) {
	if s, _, found := l.services.Get(txn, proxy.ByName(name)); found {
		return s.Name, s.Frontends(), nil
	}
	if colon := strings.LastIndexByte(name, ':'); colon > 0 {
		if s, _, found := l.services.Get(txn, proxy.ByName(name[:colon])); found {
			claims = slices.DeleteFunc(s.Frontends(), func(f *proxy.Frontend) bool { return f.Name() != name })
			return s.Name, claims, nil
		}
	}
	at, err := kernel.ParseService(name)
	if err != nil {
		return "", nil, fmt.Errorf("there is no service %q, and as an address %w%s", name, err, l.unread(txn))
	}
	return at.String(), []*proxy.Frontend{{At: at}}, nil
}

// why explains what became of a service, of its port, or of an address.
func (l *looker) why(ctx context.Context, name string) (string, error) {
	txn := l.db.ReadTxn()
	key, claims, err := l.claims(txn, name)
	if err != nil {
		return "", err
	}
	var out, loop strings.Builder
	if len(claims) == 0 {
		fmt.Fprintf(&out, "%s claims no address\n", name)
	}
	for _, claim := range claims {
		if claim.Service != "" {
			if lost := l.lost(txn, claim); lost != "" {
				fmt.Fprintln(&out, lost)
			}
		}
		if frontend, _, has := l.frontends.Get(txn, proxy.ByAddress(claim.At)); has {
			fmt.Fprintf(&out, "%s is %s, which has %d endpoint(s)", claim.At, frontend.Name(), len(frontend.Endpoints))
			if len(frontend.Endpoints) == 0 {
				fmt.Fprint(&out, ": clients are rejected")
			}
			fmt.Fprintln(&out)
		} else if claim.Service == "" {
			fmt.Fprintf(&out, "no service claims %s%s\n", claim.At, l.unread(txn))
		}
		fmt.Fprint(&loop, l.loop.Explain(ctx, claim.At.String()))
	}
	fmt.Fprintf(&out, "\n%s\n%s", l.join.Explain(ctx, key), &loop)
	return out.String(), nil
}
