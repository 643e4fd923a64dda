// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import "github.com/statekeel/statekeel/example/internal/shellsocket"

// shellName is the name in the shell's prompt and in its socket's path.
const shellName = "netagent"

// runShell is the client: it runs one command, or shows a prompt.
func runShell(args []string) int {
	cmd := shellsocket.Command(shellName,
		"This is the shell of a netagent, inside its namespace. Try: db/show routes, exec ip route, help.", args)
	if cmd.Execute() != nil {
		return 2
	}
	return 0
}
