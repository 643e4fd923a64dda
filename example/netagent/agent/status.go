// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package agent

import (
	"expvar"
	"fmt"
	"strings"

	"github.com/cilium/hive"
	"github.com/cilium/hive/script"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/internal/health"
	"github.com/statekeel/statekeel/example/netagent/desired"
)

// status has a line for each object that is not Done, and for each part of the program that is degraded, or says that
// there is none.
func status(db *statedb.DB, tables *desired.Tables, registry *health.Registry) string {
	var lines []string
	snapshot, _ := tables.Snapshot(db.ReadTxn())
	if !snapshot.Initialized {
		lines = append(lines, "the state file has not been read yet")
	}
	for _, item := range snapshot.Items {
		if !item.Settled() {
			lines = append(lines, item.String())
		}
	}
	for _, report := range registry.Degraded() {
		lines = append(lines, report.String())
	}
	if lines == nil {
		lines = []string{fmt.Sprintf("ok, %d objects are Done", len(snapshot.Items))}
	}
	return strings.Join(lines, "\n") + "\n"
}

// newCommands returns the commands of the shell that are netagent's own.
func newCommands(db *statedb.DB, tables *desired.Tables, registry *health.Registry) hive.ScriptCmdsOut {
	command := func(summary string, text func() string) script.Cmd {
		return script.Command(script.CmdUsage{Summary: summary}, func(*script.State, ...string) (script.WaitFunc, error) {
			return func(*script.State) (stdout, stderr string, _ error) { return text(), "", nil }, nil
		})
	}
	return hive.NewScriptCmds(map[string]script.Cmd{
		"netagent/status": command("Show what is not Done or not healthy, one line each", func() string { return status(db, tables, registry) }),
		"netagent/vars":   command("Show the metrics as JSON, as package expvar has them", vars),
	})
}

// vars returns what expvar.Handler serves.
func vars() string {
	var all []string
	expvar.Do(func(v expvar.KeyValue) { all = append(all, fmt.Sprintf("%q: %s", v.Key, v.Value)) })
	return "{" + strings.Join(all, ",\n") + "}\n"
}
