// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package shellsocket determines the path of an example's shell socket, and keeps the socket in a directory
// that only this user can access. Anyone who can connect can do what the program can do, and anyone who can
// replace the socket receives what the user types.
package shellsocket

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/cilium/hive/shell"
	"github.com/spf13/cobra"
)

// Path returns the path of the socket of a program's shell: in $XDG_RUNTIME_DIR, or else in a directory with
// the user's number below the directory for temporary files.
func Path(program string) string {
	if directory := os.Getenv("XDG_RUNTIME_DIR"); directory != "" {
		return filepath.Join(directory, program+".sock")
	}
	return filepath.Join(os.TempDir(), program+"-"+strconv.Itoa(os.Getuid()), "shell.sock")
}

// Prepare creates the directory of a socket if it is missing, and checks it as [Check] does. It returns an
// error if a program listens on the socket. The server calls it before it listens.
func Prepare(path string) error {
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("directory of the shell's socket: %w", err)
	}
	if err := Check(path); err != nil {
		return err
	}
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close()
		return fmt.Errorf("another program listens on %q", path)
	}
	return nil
}

// Check returns an error unless the directory of a socket is a directory, not a symbolic link, belongs to
// this user and is closed to all others. It does not check the directories above: the sticky bit of /tmp
// keeps others from renaming it.
func Check(path string) error {
	directory := filepath.Dir(path)
	info, err := os.Lstat(directory)
	switch {
	case err != nil:
		return fmt.Errorf("directory of the shell's socket: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%q, for the shell's socket, is not a directory", directory)
	case !isOurs(info):
		return fmt.Errorf("directory %q, for the shell's socket, belongs to another user", directory)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("directory %q, for the shell's socket, is open to others: its mode is %#o, must be 0700", directory, info.Mode().Perm())
	}
	return nil
}

// Command returns the client of a program's shell: it runs one command, or shows a prompt below the
// greeting. It connects only to a socket that passes [Check].
func Command(program, greeting string, args []string) *cobra.Command {
	cmd := shell.ShellCmd(Path(program), program+"> ", func(w io.Writer) { fmt.Fprintln(w, greeting) })
	cmd.Use = program + " shell [command] [args]..."
	cmd.Flags().SetInterspersed(false)
	cmd.SilenceUsage = true
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		path, err := cmd.Flags().GetString(shell.ShellSockPathName)
		if err != nil {
			return err
		}
		return Check(path)
	}
	cmd.SetArgs(args)
	return cmd
}
