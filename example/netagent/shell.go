// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/cilium/hive/shell"
)

// defaultShell is the path of the shell's socket: in a directory that only this user
// can write to, as whoever can connect can do what the agent can.
func defaultShell() string {
	if directory := os.Getenv("XDG_RUNTIME_DIR"); directory != "" {
		return filepath.Join(directory, "netagent.sock")
	}
	return filepath.Join(os.TempDir(), "netagent-"+strconv.Itoa(os.Getuid()), "shell.sock")
}

// runShell is the client: it runs one command, or shows a prompt.
func runShell(args []string) int {
	cmd := shell.ShellCmd(defaultShell(), "netagent> ", func(w io.Writer) {
		fmt.Fprintln(w, "This is the shell of a netagent, inside its namespace. Try: db/show routes, exec ip route, help.")
	})
	cmd.Use = "netagent shell [command] [args]..."
	cmd.Flags().SetInterspersed(false)
	cmd.SetArgs(args)
	if cmd.Execute() != nil {
		return 2
	}
	return 0
}
