// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	hiveshell "github.com/cilium/hive/shell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// marks are the texts that the client of hive's shell reads as marks: at the end of a line, at the end
// of 4096 bytes of a long line, or as a whole line.
var marks = []string{"<<end>>", "<<error>>", "[stdout]", "[stderr]"}

// overSocket runs a line in the shell, and returns the answer as a client of hive's shell receives it.
func (s *shell) overSocket(line string) (string, error) {
	listener, err := net.Listen("unix", filepath.Join(s.TempDir(), "sock"))
	require.NoError(s, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		asked, _ := bufio.NewReader(conn).ReadString('\n')
		if err := s.engine.ExecuteLine(s.state, strings.TrimSpace(asked), conn); err != nil {
			_, _ = fmt.Fprintf(conn, "%s<<error>>\n", err)
		} else {
			_, _ = fmt.Fprintln(conn, "<<end>>")
		}
	}()
	var got strings.Builder
	err = hiveshell.ShellExchange(hiveshell.Config{ShellSockPath: listener.Addr().String()}, &got, "%s", line)
	require.NoError(s, listener.Close())
	<-ended
	return got.String(), err
}

// hostileRoutes returns a reconciler that has a text in every field, followed by a last element.
func hostileRoutes(text string) *fake.Controller {
	r := routes()
	r.Names = []string{text, "zzz last"}
	r.Explanation = inspect.Explanation{Key: text, Why: text, Error: text, Notes: []string{text, "last"}}
	r.Shown = inspect.Snapshot{
		Condition: "running", Busy: text, Waiting: []string{text}, Stuck: []string{text}, PruneFailure: text,
		Errors:   []inspect.ErrorClass{{Class: text, Key: text, Example: text}},
		Settings: []inspect.SettingText{{Name: "last", Value: text}},
	}
	r.Page = inspect.ObjectPage{Objects: []inspect.ObjectLine{{Key: text, Error: text}, {Key: "last"}}, Next: text}
	r.History = []inspect.Operation{{Key: text, Error: text, Note: text}, {Key: "last"}}
	r.Passed = []inspect.Round{{Prune: &inspect.Prune{Error: text}}, {Prune: &inspect.Prune{Error: "last"}}}
	r.Rest = inspect.Unapplied{Keys: []inspect.Unreconciled{{Key: []byte(text), Err: errors.New(text)}, {Err: errors.New("last")}}}
	return r
}

var looks = []string{
	"reconciler", "reconciler/show agent", "reconciler/explain agent x", "reconciler/objects agent", "reconciler/journal",
	"reconciler/journal agent --rounds", "reconciler/wait agent",
	"reconciler/explain --autocomplete='agent '", "reconciler/journal --autocomplete='agent --key='",
}

func TestMarksInTextsDoNotEndTheShellOutput(t *testing.T) {
	for _, mark := range marks {
		// The second text puts the mark at every position of 4096 bytes.
		for _, text := range []string{mark, strings.Repeat(mark+".", 1<<12), "a\n" + mark + "\nb", "\x1b " + mark} {
			s := newShell(t, hostileRoutes(text))
			for _, line := range looks {
				for _, format := range []string{"", " --format=json"} {
					if strings.Contains(line, "autocomplete") {
						format = ""
					}
					sent, err := s.run(line + format)
					require.NoError(t, err, line)
					for _, m := range marks {
						require.NotContains(t, sent, m, line)
					}
					got, err := s.overSocket(line + format)
					require.NoError(t, err, line)
					// The client adds an empty line to each answer.
					require.Equal(t, sent+"\n", got, line)
				}
			}
		}
	}
}

func TestErrorsWithMarksReachTheShellClientAsErrors(t *testing.T) {
	r := routes()
	s := newShell(t, r)
	texts := []string{"a <<end>>\nb", "<<end>>", "a\n[stderr]\nb <<error>>\nc"}
	for n := 3900; n < 4100; n++ {
		texts = append(texts, strings.Repeat("x", n))
	}
	for _, text := range texts {
		r.Err = errors.New(text)
		_, err := s.overSocket("reconciler/retry agent 7")
		require.Error(t, err, "%d bytes: %.20q", len(text), text)
		require.ErrorIs(t, s.errorOf("reconciler/retry agent 7"), r.Err)
	}
	require.Less(t, len(s.errorOf("reconciler/retry agent 7").Error()), 2200)
}

func (s *shell) errorOf(line string) error {
	_, err := s.run(line)
	return err
}

func TestCompletedKeysWithMarksCanBeTyped(t *testing.T) {
	r := routes()
	r.Names = []string{"a<<end>>", "[stdout]"}
	s := newShell(t, r)
	s.prints(`reconciler/explain agent "a<<end>\x3e"`+"\n"+`reconciler/explain agent "[stdout\x5d"`+"\n", "reconciler/explain --autocomplete='agent '")
}

func TestCommandErrorsEscapeControlCharacters(t *testing.T) {
	r := routes()
	r.Err = errors.New("no object \x1b[2J\u202e\nand more")
	newShell(t, r).fails("no object \\x1b[2J\\u202e\nand more", "reconciler/retry agent 7")
}
