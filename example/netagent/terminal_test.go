// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/internal/tests/testlog"
)

// openTerminal returns the program's standard output, and what arrives at the user's screen.
func openTerminal(t *testing.T, width, height uint16) (program *os.File, screen *testlog.Buffer) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}))
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	screen = &testlog.Buffer{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(screen, master) // EIO, when all copies of the program's end are closed
	}()
	t.Cleanup(func() {
		_ = program.Close()
		<-read
		_ = master.Close()
	})
	return program, screen
}

var escape = regexp.MustCompile(`\x1b\[\d*[A-Za-z]`)

// drawnLast returns the table that was drawn last; package view checks that it takes the place of the one before.
func drawnLast(screen *testlog.Buffer) string {
	text := strings.ReplaceAll(escape.ReplaceAllString(screen.String(), ""), "\r", "")
	if at := regexp.MustCompile(`(?m)^\d+ of \d+ Done`).FindAllStringIndex(text, -1); len(at) > 0 {
		text = text[at[len(at)-1][0]:]
	}
	return text
}

func TestTerminalShowsALiveTable(t *testing.T) {
	t.Parallel()
	path := write(t, small+"  net.ipv4.nonsense: 1\n")
	program, screen := openTerminal(t, 100, 24)
	cmd := netagent(t, "-state", path, "-shell", shellOf(path))
	cmd.Stdout = program
	startCommand(t, cmd)
	shows := func(table string) {
		t.Helper()
		eventually(t, "the terminal shows "+table, func() bool { return regexp.MustCompile(table).MatchString(drawnLast(screen)) })
	}
	shows(`^7 of 8 Done   netagent /tmp/\S+   namespace of pid \d+
KIND     NAME                 STATUS  SINCE  ERROR
link     a0                   Done[ \dms]*
link     a1                   Done[ \dms]*
link     br0                  Done[ \dms]*
address  br0/10\.0\.0\.1/24      Done[ \dms]*
route    100/10\.2\.0\.0/16      Done[ \dms]*
route    main/10\.1\.0\.0/16     Done[ \dms]*
sysctl   net\.ipv4\.ip_forward  Done[ \dms]*
sysctl   net\.ipv4\.nonsense    Error   [\dms]+     sysctl "net\.ipv4\.nonsense": unknown in a network names…
job-reconcile-sysctls: 1 error\(s\): sysctl "net\.ipv4\.nonsense": unknown in a network namespace`)

	// An edit is drawn, with a note while the file is invalid.
	require.NoError(t, writeFile(path, "links: [a]\n"))
	shows(`state-file: 1 problem\(s\) of the source: `)
	require.NoError(t, writeFile(path, "links: [{name: br0, kind: bridge}]\n"))
	shows(`^1 of 1 Done   netagent .*\nKIND  NAME  STATUS  SINCE  ERROR\nlink  br0   Done[ \dms]*`)
	assert.NotContains(t, screen.String(), "level=", "the log goes to standard error")
}

func TestTableIsDrawnBelowTheLog(t *testing.T) {
	program, screen := openTerminal(t, 400, 24)
	cmd := netagent(t, "-state", write(t, small), "-shell", "")
	cmd.Stdout, cmd.Stderr = program, program
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		assert.NoError(t, cmd.Wait())
	}()
	eventually(t, "the terminal shows it", func() bool { return strings.HasPrefix(drawnLast(screen), "7 of 7 Done") })
	assert.Contains(t, screen.String(), "netagent runs in a network namespace of its own")
	assert.Contains(t, screen.String(), "File read")
}
