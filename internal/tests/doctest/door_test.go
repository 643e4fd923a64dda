// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The commands are those of the README, word for word. They ask the module proxy, as those of a user do.
func TestFirstProgramBuildsInAnEmptyFolder(t *testing.T) {
	root := projectRoot(t)
	first := parsePage(t, root, "README.md")[0]
	parent := t.TempDir()
	require.NoError(t, os.Symlink(root, filepath.Join(parent, "statekeel")))
	dir := filepath.Join(parent, "example")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.Len(t, first.Files, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, first.Files[0].Name), []byte(first.Files[0].Blocks[0].Text), 0o644))

	var out string
	for _, command := range doorCommands(t, read(t, root, "README.md")) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir, cmd.Stderr = dir, &strings.Builder{}
		cmd.Env = append(os.Environ(), "GOWORK=off", goflags(), "PWD="+dir)
		printed, err := cmd.Output()
		require.NoError(t, err, "%s: %s", command, cmd.Stderr)
		out = string(printed)
	}
	require.Equal(t, first.Output.Text, out)
	require.Equal(t, storeIn(t, root), storeIn(t, dir), "another version of the store than the library is tested with")
}

// doorCommands returns the commands of a page that make the first program, which begin with "go mod init". For as long
// as there is no version, the page has a command instead of "go get".
func doorCommands(t *testing.T, page string) (commands []string) {
	blocks, err := split("README.md", page)
	require.NoError(t, err)
	for _, block := range blocks {
		if block.word != "console" || !strings.Contains(block.Text, "$ go mod ") {
			continue
		}
		for line := range strings.Lines(block.Text) {
			command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			require.True(t, ok, line)
			if strings.HasPrefix(command, "go mod edit") {
				instead := slices.IndexFunc(commands, func(c string) bool { return strings.HasPrefix(c, "go get") })
				commands[instead] = command
			} else {
				commands = append(commands, command)
			}
		}
	}
	require.NotEmpty(t, commands)
	return commands
}

// storeIn returns the line of a go.mod that requires statedb.
func storeIn(t *testing.T, dir string) string {
	for line := range strings.Lines(read(t, dir, "go.mod")) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "github.com/cilium/statedb" {
			return fields[1]
		}
	}
	require.Fail(t, "statedb is not required", dir)
	return ""
}
