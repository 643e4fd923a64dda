// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openTerminal returns the two ends of a terminal: the program's standard output, and the user's screen.
func openTerminal(t *testing.T, width, height uint16) (program *os.File, person *terminal) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}))
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	person = &terminal{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			person.write(string(buffer[:n]))
			if err != nil {
				return // EIO, when all copies of the program's end are closed
			}
		}
	}()
	t.Cleanup(func() {
		_ = program.Close()
		<-read
		_ = master.Close()
	})
	return program, person
}

// terminal implements the subset of a terminal that netagent uses: text, \r, \n, moving up, clearing to the
// end, and colours.
type terminal struct {
	mu          sync.Mutex
	lines       [][]rune
	row, column int
	rest        string // the beginning of an escape sequence
	raw         strings.Builder
}

var escape = regexp.MustCompile(`^\x1b\[(\d*)([A-Za-z])`)

func (s *terminal) write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw.WriteString(text)
	text = s.rest + text
	s.rest = ""
	for len(text) > 0 {
		if text[0] == 0x1b {
			m := escape.FindStringSubmatch(text)
			if m == nil {
				s.rest = text
				return
			}
			s.obey(m[2], m[1])
			text = text[len(m[0]):]
			continue
		}
		switch text[0] {
		case '\r':
			s.column = 0
		case '\n':
			s.row++
		default:
			c, size := utf8.DecodeRuneInString(text)
			if c == utf8.RuneError && !utf8.FullRuneInString(text) {
				s.rest = text
				return
			}
			s.put(c)
			text = text[size:]
			continue
		}
		text = text[1:]
	}
}

func (s *terminal) put(c rune) {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, nil)
	}
	line := s.lines[s.row]
	for len(line) <= s.column {
		line = append(line, ' ')
	}
	line[s.column] = c
	s.lines[s.row] = line
	s.column++
}

func (s *terminal) obey(command, argument string) {
	switch command {
	case "A":
		n, _ := strconv.Atoi(argument)
		s.row -= n
	case "J":
		s.lines = s.lines[:min(s.row, len(s.lines))]
	case "m":
	default:
		panic("the terminal does not know " + command)
	}
}

// text returns the visible text.
func (s *terminal) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := make([]string, len(s.lines))
	for i, line := range s.lines {
		lines[i] = string(line)
	}
	return strings.Join(lines, "\n")
}

// written returns everything that was written.
func (s *terminal) written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw.String()
}

func TestTerminalShowsALiveTable(t *testing.T) {
	t.Parallel()
	path := write(t, small+"  net.ipv4.nonsense: 1\n")
	program, person := openTerminal(t, 100, 24)
	cmd := netagent(t, "-state", path, "-listen", "127.0.0.1:0", "-shell", shellOf(path))
	cmd.Stdout = program
	startCommand(t, cmd)

	kept := regexp.MustCompile(`^7 of 8 Done   netagent /tmp/\S+   namespace of pid \d+   http://127.*
KIND     NAME                 STATUS  SINCE  ERROR
link     a0                   Done    \d+s
link     a1                   Done    \d+s
link     br0                  Done    \d+s
address  br0/10\.0\.0\.1/24      Done    \d+s
route    100/10\.2\.0\.0/16      Done    \d+s
route    main/10\.1\.0\.0/16     Done    \d+s
sysctl   net\.ipv4\.ip_forward  Done    \d+s
sysctl   net\.ipv4\.nonsense    Error   \d+s     sysctl "net\.ipv4\.nonsense": unknown in a network names…
job-reconcile-sysctls: 1 error\(s\): sysctl "net\.ipv4\.nonsense": unknown in a network namespace$`)
	person.eventually(t, kept.MatchString)

	// An edit is drawn in the same place, with a note while the file is invalid.
	require.NoError(t, writeFile(path, "links: [a]\n"))
	person.eventually(t, func(text string) bool {
		return strings.Contains(text, "job-state-file: the state file is broken, its last good state stays in force:")
	})
	require.NoError(t, writeFile(path, "links: [{name: br0, kind: bridge}]\n"))
	person.eventually(t, func(text string) bool {
		return regexp.MustCompile(`^1 of 1 Done   netagent .*\nKIND  NAME  STATUS  SINCE  ERROR\nlink  br0   Done    \d+s$`).MatchString(text)
	})
	assert.Contains(t, person.written(), "\x1b[32mDone\x1b[0m", "in colour")
	assert.NotContains(t, person.text(), "level=", "the log goes to standard error")
}

func TestTerminalLogScrollsAboveTheTable(t *testing.T) {
	path := write(t, small)
	program, person := openTerminal(t, 400, 24)
	cmd := netagent(t, "-state", path, "-listen", "", "-shell", "", "-once")
	cmd.Env = append(cmd.Env, "NO_COLOR=1")
	cmd.Stdout, cmd.Stderr = program, program
	require.NoError(t, cmd.Run())
	person.eventually(t, regexp.MustCompile(`Done    \d+s$`).MatchString)
	lines := strings.Split(person.text(), "\n")
	require.Len(t, lines, 2+2+7, "%q", lines)
	assert.Contains(t, lines[0], "netagent runs in a network namespace of its own")
	assert.Contains(t, lines[1], "state file applied")
	assert.Contains(t, lines[2], "7 of 7 Done")
	assert.NotContains(t, person.written(), "\x1b[32m")
}

// eventually waits until the visible text is right.
func (s *terminal) eventually(t *testing.T, right func(text string) bool) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("on the terminal:\n%s", s.text())
		}
	}()
	eventually(t, "the terminal shows it", func() bool { return right(s.text()) })
}
