// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package agent

import (
	"context"
	"expvar"
	"fmt"
	"strings"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/script"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/internal/health"
	"github.com/statekeel/statekeel/example/netagent/desired"
)

// status has a line for each object that is not Done, and for each part of the program that is degraded, or says that
// there is none.
func status(snapshot desired.Snapshot, registry *health.Registry) string {
	var lines []string
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
	command := func(summary string, text func(ctx context.Context) (string, error)) script.Cmd {
		return script.Command(script.CmdUsage{Summary: summary}, func(s *script.State, _ ...string) (script.WaitFunc, error) {
			text, err := text(s.Context())
			return func(*script.State) (stdout, stderr string, _ error) { return text, "", err }, nil
		})
	}
	return hive.NewScriptCmds(map[string]script.Cmd{
		"netagent/ready": command("Fail until the namespace was taken over once, then show what netagent/status does",
			func(ctx context.Context) (string, error) {
				ctx, cancel := context.WithTimeout(ctx, readyTimeout)
				defer cancel()
				snapshot, err := tables.Ready(ctx)
				if err != nil {
					return "", err
				}
				return "ready\n" + status(snapshot, registry), nil
			}),
		"netagent/status": command("Show what is not Done or not healthy, one line each", func(context.Context) (string, error) {
			snapshot, _ := tables.Snapshot(db.ReadTxn())
			return status(snapshot, registry), nil
		}),
		"netagent/vars": command("Show the metrics as JSON, as package expvar has them",
			func(context.Context) (string, error) { return vars(), nil }),
	})
}

// readyTimeout bounds how long a probe waits for its answer.
const readyTimeout = 500 * time.Millisecond

// vars returns what expvar.Handler serves.
func vars() string {
	var all []string
	expvar.Do(func(v expvar.KeyValue) { all = append(all, fmt.Sprintf("%q: %s", v.Key, v.Value)) })
	return "{" + strings.Join(all, ",\n") + "}\n"
}
