// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package harness

import (
	"bytes"
	"flag"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/script"
	"github.com/cilium/hive/script/scripttest"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// RunScripts runs the scripts testdata/*.txtar, each in a bubble of virtual time that begins at
// 2000-01-01T00:00:00Z. start returns the commands of a script, and a function that stops what start and the
// commands have started. With -scripttest.update the files that a script compares with are replaced by the
// actual output.
func RunScripts(t *testing.T, start func(t *testing.T) (commands map[string]script.Cmd, stop func())) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	update := flag.Lookup("scripttest.update")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			dir := t.TempDir()
			var state *script.State
			synctest.Test(t, func(t *testing.T) {
				state, err = script.NewState(t.Context(), dir, nil)
				require.NoError(t, err)
				require.NoError(t, state.ExtractFiles(archive))
				state.DoUpdate = update != nil && update.Value.String() == "true"
				commands, stop := start(t)
				scripttest.Run(t, &script.Engine{Cmds: commands}, state, file, bytes.NewReader(archive.Comment))
				stop()
			})
			if !state.DoUpdate {
				return
			}
			for i, f := range archive.Files {
				if text, ok := state.FileUpdates[f.Name]; ok {
					archive.Files[i].Data = []byte(text)
				}
			}
			require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
		})
	}
}

// Commands returns the commands of a hive, the standard commands of scripts, "pass", which advances virtual
// time, and others, which replace commands of the same name. All goroutines are idle before and after each
// command, so that a script is deterministic.
func Commands(t testing.TB, h *hive.Hive, log *slog.Logger, others map[string]script.Cmd) map[string]script.Cmd {
	t.Helper()
	all, err := h.ScriptCommands(log)
	require.NoError(t, err)
	maps.Insert(all, maps.All(script.DefaultCmds()))
	all["pass"] = Command("Let virtual time go by", "duration", pass)
	maps.Insert(all, maps.All(others))
	for name, c := range all {
		all[name] = settled{c}
	}
	return all
}

// Command returns a command that prints what run returns.
func Command(summary, args string, run func(args []string) (out string, err error)) script.Cmd {
	return script.Command(script.CmdUsage{Summary: summary, Args: args},
		func(_ *script.State, args ...string) (script.WaitFunc, error) {
			out, err := run(args)
			if err != nil {
				return nil, err
			}
			return func(*script.State) (string, string, error) { return out, "", nil }, nil
		})
}

func pass(args []string) (string, error) {
	d, err := time.ParseDuration(strings.Join(args, ""))
	time.Sleep(d)
	return "", err
}

// settled waits until all goroutines are idle before and after a command.
type settled struct{ script.Cmd }

func (c settled) Run(s *script.State, args ...string) (script.WaitFunc, error) {
	synctest.Wait()
	wait, err := c.Cmd.Run(s, args...)
	synctest.Wait()
	return wait, err
}
