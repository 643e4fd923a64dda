// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package commands provides shell commands that show what reconcilers do, and that act on them. They
// work in the shell of a hive and in script tests:
//
//	reconciler            lists the reconcilers
//	reconciler/show       shows one of them in full
//	reconciler/explain    shows why an object is, or is not, reconciled
//	reconciler/objects    lists objects by status
//	reconciler/journal    shows the latest operations or rounds
//	reconciler/wait       waits until changes are applied
//	reconciler/plan       shows what a resync would do
//	reconciler/pause, resume, retry, refresh, prune, approve    act on a reconciler
//
// show and approve take the name of a source, too.
//
// "help -v reconciler" describes each of them with examples, and docs/OPERATIONS.md shows what they
// print. All of them can print JSON (--format=json).
//
// A hive needs two cells:
//
//	hive.New(
//		statedb.Cell, job.Cell,
//		inspect.Cell,  // the registry
//		commands.Cell, // the commands, which read the registry
//		...
//	)
//
// and each reconciler needs the option [reconciler.WithRegistry]. [Cell] does not provide the registry
// itself, because a page or a metrics collector of the same hive needs it as well, and a hive accepts
// one provider only. Without [inspect.Cell] the hive reports that *inspect.Registry is missing.
//
// A program without a hive serves the same commands on a socket with [Serve], and asks itself with [Client].
//
// The shell is a package of hive, github.com/cilium/hive/shell: shell.ServerCell listens for commands
// on a socket, and shell.ShellCmd is the command that connects to it: see docs/observing.md.
//
// Every user of the shell can run the commands that act (pause, resume, prune, approve, refresh, retry):
// protect its socket as you protect the program, with [PrepareSocket] and [CheckSocket].
//
// Hive's shell uses the marks "<<end>>", "<<error>>", "[stdout]" and "[stderr]" in its protocol. If a
// key or an error text contains one of them, the commands print it with its last character escaped.
package commands

import (
	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/script"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Cell provides the commands to the hive's shell and to script tests. It needs
// [inspect.Cell].
var Cell = cell.Module("reconciler-commands", "Commands to inspect reconcilers", cell.Provide(scriptCommands))

func scriptCommands(registry *inspect.Registry) hive.ScriptCmdsOut {
	return hive.NewScriptCmds(New(registry))
}

// New returns the commands by name, for script engines without a hive. Each command reads the registry
// when it runs, so reconcilers may be added later.
func New(registry *inspect.Registry) map[string]script.Cmd {
	c := &commands{registry: registry}
	named := map[string]script.Cmd{}
	for _, s := range c.all() {
		named[s.full()] = c.command(s)
	}
	return named
}

// commands is the state that all commands share.
type commands struct {
	registry *inspect.Registry
}

// all returns all commands.
func (c *commands) all() (all []*spec) {
	for _, one := range append(operator.Commands(), wait) {
		all = append(all, &spec{one})
	}
	return all
}
