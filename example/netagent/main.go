// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Netagent keeps the links, addresses, routes and sysctls of a network namespace of its own equal to a YAML
// file: an example of Statekeel's reconcilers on a real target. The README in the parent directory shows
// what to try.
//
//	netagent -state state.yaml   run until a signal arrives
//	netagent shell [command]     send commands to a running one
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cilium/hive/shell"
	"github.com/spf13/cobra"

	"github.com/statekeel/statekeel/reconciler/commands"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

// run is main with a result: the exit code, 2 if the arguments are wrong.
func run(args []string, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "shell" {
		return runShell(args[1:])
	}
	s, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "netagent:", err)
		return 2
	}
	code, err := runAgent(s, args)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return code
}

// settings are the values of the command line.
type settings struct {
	state   string
	resync  time.Duration
	shell   string
	verbose bool
}

const usage = `netagent keeps the links, addresses, routes and sysctls of a network namespace of
its own equal to a YAML file. It needs no root and does not change the host.

  netagent [flags]            run
  netagent shell [command]    send a command to a running one; without a command, a prompt

Flags:
`

func parseFlags(args []string, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("netagent", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.state, "state", "state.yaml", "the `file`, or folder of files, with the desired state; edits are applied, and one that is bad changes nothing")
	flags.DurationVar(&s.resync, "resync", 5*time.Second, "how often to compare the kernel with what is wanted; 0 means only at the start")
	flags.StringVar(&s.shell, "shell", commands.SocketPath(shellName), "`path` of the socket for netagent shell; \"\" is none")
	flags.BoolVar(&s.verbose, "v", false, "also log what the hive does")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stderr, usage)
		flags.SetOutput(stderr)
		flags.PrintDefaults()
		return s, err
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q; the file is named by -state", flags.Arg(0))
	}
	if err == nil && s.resync < 0 {
		err = fmt.Errorf("-resync is %s, must not be negative", s.resync)
	}
	return s, err
}

// shellName is the name in the shell's prompt and in its socket's path.
const shellName = "netagent"

// runShell is the client: it runs one command, or shows a prompt.
func runShell(args []string) int {
	cmd := shell.ShellCmd(commands.SocketPath(shellName), shellName+"> ", func(w io.Writer) {
		fmt.Fprintln(w, "This is the shell of a netagent, inside its namespace. Try: netagent/status, db/show routes, exec ip route, help.")
	})
	cmd.Use, cmd.SilenceUsage = shellName+" shell [command] [args]...", true
	cmd.Flags().SetInterspersed(false)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		return commands.CheckSocket(cmd.Flags().Lookup(shell.ShellSockPathName).Value.String())
	}
	cmd.SetArgs(args)
	if cmd.Execute() != nil {
		return 2
	}
	return 0
}
