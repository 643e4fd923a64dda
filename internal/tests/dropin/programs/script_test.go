// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"bytes"
	"context"
	"expvar"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/script"
	"github.com/cilium/hive/script/scripttest"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// The scripts in testdata use the commands of the hive (hive, db/... and health) and those of scriptCmds.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { runScript(t, file, dir) })
		})
	}
}

func runScript(t *testing.T, file, dir string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	archive := txtar.Parse(text)

	a := newApp(t)
	t.Cleanup(func() { assert.NoError(t, a.hive.Stop(a.log, context.Background())) })
	cmds, err := a.hive.ScriptCommands(a.log)
	require.NoError(t, err)
	maps.Copy(cmds, script.DefaultCmds())
	maps.Copy(cmds, scriptCmds(a))

	// The engine prints the environment, so it must not be that of the process.
	state, err := script.NewState(t.Context(), dir, []string{"HOME=" + dir})
	require.NoError(t, err)
	require.NoError(t, state.ExtractFiles(archive))
	scripttest.Run(t, &script.Engine{Cmds: cmds}, state, file, bytes.NewReader(archive.Comment))
}

// scriptCmds returns the commands of the program itself.
func scriptCmds(a *app) map[string]script.Cmd {
	tg, m := newTarget(), reconciler.NewUnpublishedExpVarMetrics()
	var r reconciler.Reconciler[*service]
	complete := a.initializer()
	command := func(summary string, run func(s *script.State, args ...string) (string, error)) script.Cmd {
		return script.Command(script.CmdUsage{Summary: summary},
			func(s *script.State, args ...string) (script.WaitFunc, error) {
				out, err := run(s, args...)
				return func(*script.State) (string, string, error) { return out, "", err }, nil
			})
	}
	return map[string]script.Cmd{
		"health": cell.SimpleHealthCmd(a.health),
		"reconcile": command("register a reconciler, 'batch' for batch operations", func(_ *script.State, args ...string) (string, error) {
			var batchOps reconciler.BatchOperations[*service]
			if len(args) > 0 && args[0] == "batch" {
				batchOps = tg
			}
			var err error
			r, err = reconciler.Register(a.params, a.services,
				(*service).Clone, (*service).SetStatus, (*service).GetStatus, tg, batchOps,
				withQuickRetry, reconciler.WithMetrics(m), reconciler.WithRefreshing(time.Minute, nil))
			return "", err
		}),
		"initialized": command("complete the table's initializer", func(*script.State, ...string) (string, error) {
			complete()
			return "", nil
		}),
		"prune": command("ask for a prune", func(*script.State, ...string) (string, error) {
			r.Prune()
			return "", nil
		}),
		"fail": command("make operations on service 1 fail", func(*script.State, ...string) (string, error) {
			tg.fail("no room", 1)
			return "", nil
		}),
		"heal": command("end all failures", func(*script.State, ...string) (string, error) {
			tg.heal()
			return "", nil
		}),
		"pass": command("let time go by", func(_ *script.State, args ...string) (string, error) {
			d, err := time.ParseDuration(args[0])
			pass(d)
			return "", err
		}),
		"target": command("print what the target has, and what was done to service 1", func(*script.State, ...string) (string, error) {
			return fmt.Sprintf("%s\n%s\n", tg.has(), tg.story(1)), nil
		}),
		"expvar": command("print the metrics", func(*script.State, ...string) (string, error) {
			var b strings.Builder
			m.Map().Do(func(v expvar.KeyValue) {
				v.Value.(*expvar.Map).Do(func(kv expvar.KeyValue) { fmt.Fprintf(&b, "%s.%s: %s\n", v.Key, kv.Key, kv.Value) })
			})
			return b.String(), nil
		}),
	}
}
