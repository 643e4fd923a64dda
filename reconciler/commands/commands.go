// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package commands has the commands to look at reconcilers, and to act on them, in the
// shell of a hive and in script tests: "reconciler", "reconciler/show",
// "reconciler/explain" and so on. "help -v reconciler" lists them with examples.
//
// A hive has them with two cells:
//
//	hive.New(
//		statedb.Cell, job.Cell,
//		inspect.Cell, // the registry
//		commands.Cell,   // the commands, which look into the registry
//		...
//	)
//
// and one option for each reconciler, [reconciler.WithRegistry].
//
// [Cell] does not bring the registry, as a page or a collector looks into the same one, and
// a hive accepts only one that provides it. Without [inspect.Cell] the hive says that
// *inspect.Registry is missing. The shell itself is a third cell and a command of the program, of
// github.com/cilium/hive/shell: docs/GUIDE.md shows both, under "The shell".
//
// Hive's package shell has the cell (shell.ServerCell) that listens on a socket for commands, and the
// client (shell.ShellExchange).
//
// The commands that change something (pause, resume, prune, approve, refresh, retry) are for all
// who can use the shell: guard its socket as you would guard the program.
//
// In what the commands print the marks by which hive's shell ends an answer ("<<end>>",
// "<<error>>", "[stdout]", "[stderr]") have their last character escaped, so that a key or an
// error text cannot end it.
package commands

import (
	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/script"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Cell provides the commands to the hive's shell and to script tests. It needs
// [inspect.Cell].
var Cell = cell.Module("reconciler-commands", "Commands to inspect reconcilers", cell.Provide(scriptCommands))

func scriptCommands(registry *inspect.Registry) hive.ScriptCmdsOut {
	return hive.NewScriptCmds(New(registry))
}

// New returns the commands by their names, for script engines without a hive. They see what
// is in the registry at the time when they run.
func New(registry *inspect.Registry) map[string]script.Cmd {
	c := &commands{registry: registry}
	named := map[string]script.Cmd{}
	for _, s := range []*spec{
		c.list(), c.show(), c.explain(), c.objects(), c.journal(), c.wait(),
		c.pause(), c.resume(), c.prune(), c.approve(), c.refresh(), c.retry(),
	} {
		named[s.name] = c.command(s)
	}
	return named
}

// commands are what all commands share.
type commands struct {
	registry *inspect.Registry
}
