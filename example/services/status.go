// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/cilium/hive"
	"github.com/cilium/hive/script"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/internal/health"
	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/proxy"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
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
	frontends statedb.Table[*proxy.Frontend]
	loop      *reconciler.Loop[*proxy.Frontend]
	registry  *inspect.Registry
	health    *health.Registry
}

// newLooker returns the commands of the shell.
func newLooker(
	db *statedb.DB, services statedb.RWTable[*proxy.Service], frontends statedb.RWTable[*proxy.Frontend],
	loop *reconciler.Loop[*proxy.Frontend], registry *inspect.Registry, health *health.Registry,
) hive.ScriptCmdsOut {
	l := &looker{db, services, frontends, loop, registry, health}
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
		for _, e := range s.Endpoints {
			endpoints++
			if e.Ready {
				ready++
			}
		}
		if lost := l.lost(txn, s); lost != "" {
			conflicts = append(conflicts, lost)
		}
	}
	for frontend := range l.frontends.All(txn) {
		if len(frontend.Endpoints) == 0 {
			empty++
		}
	}
	snapshot := l.loop.Snapshot(ctx)
	add("services", fmt.Sprint(l.services.NumObjects(txn), l.unread(txn)))
	add("frontends", fmt.Sprintf("%d, %d of them without an endpoint", snapshot.Objects, empty))
	add("endpoints", fmt.Sprintf("%d, %d of them ready", endpoints, ready))
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

// unread says that the input has not given its first list; empty if it has.
func (l *looker) unread(txn statedb.ReadTxn) string {
	if is, _ := l.services.Initialized(txn); is {
		return ""
	}
	return "; not all have been read yet"
}

// lost says to whom a service has lost its address; empty if it has it, or no service has it yet.
func (l *looker) lost(txn statedb.ReadTxn, s *proxy.Service) string {
	frontend, _, found := l.frontends.Get(txn, proxy.ByAddress(s.At))
	if !found || frontend.Name == s.Name {
		return ""
	}
	winner, _, found := l.services.Get(txn, proxy.ByName(frontend.Name))
	if !found {
		return ""
	}
	why := "which is older"
	if !winner.Created.Before(s.Created) {
		why = "which is as old, and whose name is lower"
	}
	return fmt.Sprintf("%s has lost %s to %s, %s", s.Name, s.At, winner.Name, why)
}

// why explains what became of a service, or of an address.
func (l *looker) why(ctx context.Context, name string) (string, error) {
	txn := l.db.ReadTxn()
	var out strings.Builder
	s, _, found := l.services.Get(txn, proxy.ByName(name))
	at := kernel.Service{}
	if found {
		at = s.At
		if lost := l.lost(txn, s); lost != "" {
			fmt.Fprintln(&out, lost)
		}
	} else {
		var err error
		if at, err = kernel.ParseService(name); err != nil {
			return "", fmt.Errorf("there is no service %q, and as an address %w%s", name, err, l.unread(txn))
		}
		name = at.String()
	}
	if frontend, _, has := l.frontends.Get(txn, proxy.ByAddress(at)); has {
		fmt.Fprintf(&out, "%s is %s, which has %d endpoint(s) that are ready", at, frontend.Name, len(frontend.Endpoints))
		if len(frontend.Endpoints) == 0 {
			fmt.Fprint(&out, ": clients are rejected")
		}
		fmt.Fprintln(&out)
	} else if !found {
		fmt.Fprintf(&out, "no service claims %s%s\n", at, l.unread(txn))
	}
	derivation, err := l.registry.Find("derive-" + proxy.FrontendsTable)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&out, "\n%s\n%s", derivation.Explain(ctx, name), l.loop.Explain(ctx, at.String()))
	return out.String(), nil
}
