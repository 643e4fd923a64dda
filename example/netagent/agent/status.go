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

// situation is how far the kernel is at one moment.
type situation struct {
	// objects counts all objects. unsettled has a line for each that is not Done, and unhealthy one for each part of
	// the program that is degraded.
	objects              int
	unsettled, unhealthy []string

	// changed are channels of which one closes when an object changes.
	changed []<-chan struct{}
}

func situationNow(db *statedb.DB, tables *desired.Tables, registry *health.Registry) (s situation) {
	snapshot, changed := tables.Snapshot(db.ReadTxn())
	s.objects, s.changed = len(snapshot.Items), changed
	if !snapshot.Initialized {
		s.unsettled = append(s.unsettled, "the state file has not been read yet")
	}
	for _, item := range snapshot.Items {
		if !item.Settled() {
			s.unsettled = append(s.unsettled, item.String())
		}
	}
	for _, report := range registry.Degraded() {
		s.unhealthy = append(s.unhealthy, report.String())
	}
	return s
}

func (s situation) isSettled() bool { return len(s.unsettled)+len(s.unhealthy) == 0 }

// String has a line for each problem, or says that there is none.
func (s situation) String() string {
	if s.isSettled() {
		return fmt.Sprintf("ok, %d objects are Done\n", s.objects)
	}
	return strings.Join(append(s.unsettled, s.unhealthy...), "\n") + "\n"
}

// newCommands returns the commands of the shell that are netagent's own.
func newCommands(now func() situation) hive.ScriptCmdsOut {
	command := func(summary string, text func() string) script.Cmd {
		return script.Command(script.CmdUsage{Summary: summary}, func(*script.State, ...string) (script.WaitFunc, error) {
			return func(*script.State) (stdout, stderr string, _ error) { return text(), "", nil }, nil
		})
	}
	return hive.NewScriptCmds(map[string]script.Cmd{
		"netagent/status": command("Show what is not Done or not healthy, one line each", func() string { return now().String() }),
		"netagent/vars":   command("Show the metrics as JSON, as package expvar has them", vars),
	})
}

// vars returns what expvar.Handler serves.
func vars() string {
	var all []string
	expvar.Do(func(v expvar.KeyValue) { all = append(all, fmt.Sprintf("%q: %s", v.Key, v.Value)) })
	return "{" + strings.Join(all, ",\n") + "}\n"
}
