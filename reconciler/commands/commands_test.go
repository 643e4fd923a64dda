// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/cilium/hive/script"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/internal/tests/filled"
	"github.com/statekeel/statekeel/reconciler/commands"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell runs command lines as the shell of a hive does.
type shell struct {
	*testing.T
	registry inspect.Registry
	engine   *script.Engine
	state    *script.State
}

func newShell(t *testing.T, all ...inspect.Controller) *shell {
	s := &shell{T: t}
	for _, i := range all {
		s.registry.Add(i)
	}
	s.engine = &script.Engine{Cmds: commands.New(&s.registry)}
	for _, name := range []string{"help", "wait"} {
		s.engine.Cmds[name] = script.DefaultCmds()[name]
	}
	state, err := script.NewState(t.Context(), t.TempDir(), nil)
	require.NoError(t, err)
	s.state = state
	return s
}

// run runs a line and returns its output.
func (s *shell) run(line string) (string, error) {
	var log strings.Builder
	err := s.engine.ExecuteLine(s.state, line, &log)
	return s.state.Stdout(), err
}

func (s *shell) prints(want, line string) {
	s.Helper()
	got, err := s.run(line)
	require.NoError(s, err, line)
	require.Equal(s, want, got, line)
}

func (s *shell) fails(want, line string) {
	s.Helper()
	_, err := s.run(line)
	require.Error(s, err, line)
	var cmd *script.CommandError
	if errors.As(err, &cmd) {
		err = cmd.Err
	}
	require.Equal(s, want, err.Error(), line)
}

func routes() *fake.Controller {
	return &fake.Controller{Identity: inspect.ID{Module: "agent", Table: "routes"}}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	s := newShell(t)
	all := commands.New(&s.registry)
	require.Len(t, all, 13)
	for name, c := range all {
		require.NotEmpty(t, c.Usage().Summary)
		help, err := s.run("help -v ^" + name + "$")
		require.NoError(t, err)
		for _, text := range []string{"> " + name, "--format"} {
			require.Contains(t, help, text)
		}
	}
}

// A script passes an empty name if its variable is not set. The registry has a reconciler without a name.
func TestAnEmptyNameNamesNoReconciler(t *testing.T) {
	f := routes()
	s := newShell(t, f)
	for name, c := range commands.New(&s.registry) {
		args, key := c.Usage().Args, ""
		if !strings.Contains(args, "NAME") {
			continue
		}
		if strings.HasSuffix(args, " KEY") {
			key = " a"
		}
		for _, empty := range []string{`''`, `"''"`} {
			_, err := s.run(name + " " + empty + key)
			require.ErrorContains(t, err, `no reconciler "", there are: agent`, "%s %s", name, empty)
		}
	}
	require.Empty(t, f.Acts())
}

func TestErrorsNameTheWrongArgument(t *testing.T) {
	s := newShell(t, routes(), &fake.Controller{Identity: inspect.ID{Name: "links", Table: "links"}})
	for line, want := range map[string]string{
		"reconciler/explain":                          "NAME is missing: usage: reconciler/explain NAME KEY",
		"reconciler/explain agent":                    "KEY is missing: usage: reconciler/explain NAME KEY",
		"reconciler/show":                             "NAME is missing: usage: reconciler/show NAME",
		"reconciler/show agent 7":                     `unexpected argument "7": usage: reconciler/show NAME`,
		"reconciler/pause":                            "NAME is missing: usage: reconciler/pause NAME [KEY]",
		"reconciler/show bgp":                         `no reconciler "bgp", there are: agent, links`,
		"reconciler --format=xml":                     `--format is "xml", must be table or json`,
		"reconciler/objects agent --status=Broken":    `--status is "Broken", must be one of Pending, Refreshing, Done, Error, Blocked, Unset, Deleted`,
		"reconciler/objects agent --limit=-1":         "--limit is -1, must not be negative",
		"reconciler/journal --since=-1m --limit=-2":   "--since is -1m0s, must not be negative\n--limit is -2, must not be negative",
		"reconciler/journal agent --rounds --key=7":   "--rounds and --key are both set: a round is of many objects",
		"reconciler/wait agent --applied --attempted": "--applied and --attempted are both set",
		"reconciler/wait agent --timeout=-1s":         "--timeout is -1s, must not be negative",
		"reconciler/plan agent --timeout=-1s":         "--timeout is -1s, must not be negative",
	} {
		s.fails(want, line)
	}
	newShell(t).fails(`no reconciler "x", there are: none`, "reconciler/show x")
}

func TestEveryCommandWritesJSON(t *testing.T) {
	r := routes()
	r.Shown.Condition = "run\u009bning"
	r.Page.Next = "\x7f"
	r.Approves, r.Explanation.Key = true, "7"
	s := newShell(t, r)
	for _, line := range []string{
		"reconciler", "reconciler/show agent", "reconciler/explain agent 7", "reconciler/objects agent",
		"reconciler/journal", "reconciler/journal agent --rounds", "reconciler/pause agent", "reconciler/pause agent 7", "reconciler/resume agent",
		"reconciler/prune agent", "reconciler/approve agent", "reconciler/refresh agent 7", "reconciler/retry agent", "reconciler/wait agent",
		"reconciler/plan agent",
	} {
		for _, flags := range []string{" --format=json", " -f json"} {
			out, err := s.run(line + flags)
			require.NoError(t, err, line)
			require.True(t, json.Valid([]byte(out)), "%s: %s", line, out)
			for _, c := range strings.ReplaceAll(out, "\n", "") {
				require.True(t, unicode.IsPrint(c), "%q in %s", c, out)
			}
		}
		out, err := s.run(line)
		require.NoError(t, err)
		require.NotEmpty(t, out)
	}
}

func TestListReadsAllReconcilersConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShell(t, slow{&fake.Controller{Identity: inspect.ID{Table: "a"}}}, slow{&fake.Controller{Identity: inspect.ID{Table: "b"}}})
		began := time.Now()
		out, err := s.run("reconciler")
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, time.Since(began))
		require.Less(t, strings.Index(out, "\na "), strings.Index(out, "\nb "))
	})
}

// slow answers after 100 ms, as a busy reconciler does.
type slow struct{ *fake.Controller }

func (s slow) Snapshot(ctx context.Context) inspect.Snapshot {
	time.Sleep(100 * time.Millisecond)
	return s.Controller.Snapshot(ctx)
}

func TestArgumentsAndFlagsBecomeQueries(t *testing.T) {
	r := routes()
	s := newShell(t, r)
	for line, want := range map[string]string{
		`reconciler/explain agent 10.0.0.0/24`: `explain "10.0.0.0/24"`,
		`reconciler/explain agent 'a b'`:       `explain "a b"`,
		`reconciler/explain agent "\x1b[1m"`:   `explain "\"\\x1b[1m\""`,
		`reconciler/explain agent '"a\tb"'`:    `explain "\"a\\tb\""`,
		`reconciler/explain agent -- -7`:       `explain "-7"`,
		`reconciler/explain agent ''`:          `explain ""`,

		`reconciler/objects agent --status=error --limit=10 --after=7`: `objects {Status:error After:7 Limit:10}`,

		`reconciler/journal agent --key=7 --limit=3`: `operations {Key:7 Since:0001-01-01 00:00:00 +0000 UTC Limit:3}`,
	} {
		_, err := s.run(line)
		require.NoError(t, err)
		require.Equal(t, []string{want}, r.Take(), line)
	}
}

func TestNamesAndKeysAreCompleted(t *testing.T) {
	r := routes()
	r.Names = []string{"10.0.0.0/24", "10.1.0.0/16", "a b", "it's", "\x1b[2J"}
	s := newShell(t, r, &fake.Controller{Identity: inspect.ID{Name: "links", Table: "links"}})
	for _, c := range []struct {
		line, typed string
		want        []string
	}{
		{"reconciler/explain", "", []string{"agent", "links"}},
		{"reconciler/explain", "ag", []string{"agent"}},
		{"reconciler/explain", "agent 10.1", []string{"agent 10.1.0.0/16"}},
		{"reconciler/explain", "agent ", []string{"agent 10.0.0.0/24", "agent 10.1.0.0/16", "agent 'a b'", "agent 'it''s'", `agent "\x1b[2J"`}},
		{"reconciler/explain", "agent 10.0.0.0/24 ", nil},
		{"reconciler/explain", "bgp ", nil},
		{"reconciler/show", "agent 1", nil},
		{"reconciler/journal", "--key=10.1", nil},
		{"reconciler/journal", "agent --key=10.1", []string{"agent --key=10.1.0.0/16"}},
		{"reconciler/explain", "--format=", []string{"--format=table", "--format=json"}},
		{"reconciler/objects", "--status=D", []string{"--status=Done", "--status=Deleted"}},
	} {
		out, err := s.run(c.line + " --autocomplete='" + strings.ReplaceAll(c.typed, "'", "''") + "'")
		require.NoError(t, err)
		var want []string
		for _, w := range c.want {
			want = append(want, c.line+" "+w)
		}
		require.Equal(t, strings.Join(want, "\n")+"\n", out, "%q", c.typed)
	}
}

func TestObjectPagePrintsTheCommandForTheNextPage(t *testing.T) {
	r := routes()
	r.Page = inspect.ObjectPage{Objects: []inspect.ObjectLine{{Key: "7", Status: "Error", State: "retry", Revision: 3, Attempts: 2}}, Next: "a b"}
	s := newShell(t, r)
	s.prints(""+
		"Key   Status   State   Since   Failures   Next attempt   Revision   Blocked on   Error\n"+
		"7     Error    retry   -       2          -              3          -\n"+
		"more: reconciler/objects agent --status=Error --limit=1 --after='a b'\n",
		"reconciler/objects agent --status=Error --limit=1")
	r.ListErr = errors.New("too busy")
	s.fails("too busy", "reconciler/objects agent")
}

func TestFirstFailuresListEachObjectOnce(t *testing.T) {
	r := routes()
	for i, what := range []string{"a done", "b failed", "c blocked", "b failed", "d terminal", "b done", "c failed", "e requeue", "a failed"} {
		key, result, _ := strings.Cut(what, " ")
		r.History = append(r.History, inspect.Operation{Round: uint64(i), Key: key, Result: inspect.Result(result)})
	}
	s := newShell(t, r)
	for line, want := range map[string]string{"": "b1 d4 c6 a8", " --limit=2": "b1 d4", " --limit=9": "b1 d4 c6 a8"} {
		out, err := s.run("reconciler/journal agent --first-failures --format=json" + line)
		require.NoError(t, err)
		var journals []struct{ Events []inspect.Operation }
		require.NoError(t, json.Unmarshal([]byte(out), &journals))
		var got []string
		for _, e := range journals[0].Events {
			got = append(got, fmt.Sprint(e.Key, e.Round))
		}
		require.Equal(t, want, strings.Join(got, " "), line)
	}
	_, err := s.run("reconciler/journal agent --first-failures --since=5m --key=a --limit=1")
	require.NoError(t, err)
	require.Regexp(t, "^operations {Key:a Since:20.* Limit:0}$", r.Take()[3])
	s.fails("--rounds and --first-failures are both set", "reconciler/journal agent --rounds --first-failures")
}

func TestRoundsAreListedWithTheirPrunes(t *testing.T) {
	r := routes()
	r.Passed = []inspect.Round{
		{Resync: &inspect.Resync{Listed: 9, Orphan: 2, Took: time.Second}}, {Prune: &inspect.Prune{Error: "no\nmemory"}},
	}
	out, err := newShell(t, r).run("reconciler/journal agent --rounds")
	require.NoError(t, err)
	require.Contains(t, out, "9 listed in 1 s: 0 equal, 0 different, 0 missing, 2 orphan")
	require.Contains(t, out, "failed: no\\nmemory\n")
	require.Equal(t, 3, strings.Count(out, "\n"))
}

// filledFake is a reconciler whose answers have no zero field.
func filledFake() *fake.Controller {
	f := routes()
	f.Explanation, f.Shown, f.Passed = filled.Value[inspect.Explanation](), filled.Value[inspect.Snapshot](), filled.Rounds()
	f.Identity, f.Planned = f.Shown.ID, filled.Value[inspect.Plan]()
	return f
}

func TestCommandJSONEqualsTheGoldenFiles(t *testing.T) {
	f := filledFake()
	s := newShell(t, f)
	name := "'" + f.Identity.String() + "'"
	answer := func(line string) []byte {
		t.Helper()
		out, err := s.run(line + " --format=json")
		require.NoError(t, err)
		return []byte(out)
	}
	filled.RequireGolden(t, "explanation", answer("reconciler/explain "+name+" x"))
	filled.RequireGolden(t, "snapshot", answer("reconciler/show "+name))
	filled.RequireGolden(t, "plan", answer("reconciler/plan "+name))
	var all struct{ Reconcilers []json.RawMessage }
	require.NoError(t, json.Unmarshal(answer("reconciler"), &all))
	filled.RequireGolden(t, "snapshot", all.Reconcilers[0])

	var journals []struct{ Rounds []json.RawMessage }
	require.NoError(t, json.Unmarshal(answer("reconciler/journal --rounds"), &journals))
	filled.RequireGolden(t, "round", journals[0].Rounds[0])
	filled.RequireGolden(t, "operation", filled.OperationOf(t, journals[0].Rounds[1]))
}
