// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build unix

package commands

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// program is a program that serves a socket.
type program struct {
	*testing.T
	path     string
	registry inspect.Registry
	stop     func()
}

// serving serves the socket for some reconcilers until the end of the test.
func serving(t *testing.T, all ...inspect.Controller) *program {
	dir, err := os.MkdirTemp("", "s") // with a short name, as a socket needs
	require.NoError(t, err)
	p := &program{T: t, path: filepath.Join(dir, "d", "s")}
	for _, r := range all {
		p.registry.Add(r)
	}
	p.serve()
	t.Cleanup(func() {
		p.stop()
		require.NoError(t, os.RemoveAll(dir))
	})
	return p
}

func (p *program) serve() {
	ctx, cancel := context.WithCancel(p.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, p.path, &p.registry) }()
	p.stop = func() {
		cancel()
		if err, first := <-ended; first {
			require.NoError(p, err)
			close(ended)
		}
	}
	for {
		if conn, err := net.Dial("unix", p.path); err == nil {
			_ = conn.Close()
			return
		}
		select {
		case err := <-ended:
			require.FailNow(p, "not served", err)
		case <-time.After(time.Millisecond):
		}
	}
}

// client runs a command, and requires its exit status. It returns what was printed.
func (p *program) client(status int, args ...string) (stdout, stderr string) {
	p.Helper()
	var out, errs strings.Builder
	require.Equal(p, status, runClient(p.path, args, &out, &errs), "%q prints %s%s", args, &out, &errs)
	return out.String(), errs.String()
}

func agent() *fake.Controller {
	return &fake.Controller{
		Identity: inspect.ID{Module: "agent", Name: "routes", Table: "routes"}, Approves: true,
		Shown: inspect.Snapshot{Condition: "running", Initialized: true, Lists: true},
	}
}

func TestClientRunsTheCommandsOfARunningProgram(t *testing.T) {
	r := agent()
	p := serving(t, r)
	for _, c := range []struct {
		args          []string
		prints, asked string
	}{
		{[]string{"status"}, "agent/routes   routes", ""},
		{[]string{"status", "--format=json"}, `"id":`, ""},
		{[]string{"status", "routes"}, "agent/routes: running", ""},
		{[]string{"why", "routes", "10.0.0.0/24"}, "object   10.0.0.0/24", `explain "10.0.0.0/24"`},
		{[]string{"why", "10.0.0.0/24"}, "object   10.0.0.0/24", `explain "10.0.0.0/24"`},
		{[]string{"why", "routes", "--", "-a b"}, "object   -a b", `explain "-a b"`},
		{[]string{"wait"}, "agent/routes is applied\n", `wait "" applied`},
		{[]string{"wait", "routes", "a", "--attempted"}, "agent/routes a is attempted\n", `wait "a" attempted`},
		{[]string{"plan"}, "nothing to do", "plan"},
		{[]string{"plan", "routes"}, "nothing to do", "plan"},
		{[]string{"approve"}, "agent/routes: the next resync may delete beyond its budget\n", "approve"},
		{[]string{"pause", "routes"}, "agent/routes: paused, until it is resumed\n", "pause"},
		{[]string{"pause"}, "agent/routes: paused, until it is resumed\n", "pause"},
		{[]string{"resume", "routes"}, "agent/routes: resumed\n", "resume"},
		{[]string{"retry", "routes", "a"}, "agent/routes a: 1 object(s) will be retried now\n", `retry ["a"]`},
		{[]string{"reconciler/retry", "routes"}, "agent/routes: 1 object(s) will be retried now\n", "retry []"},
		{[]string{"retry", "--help"}, "retry NAME [KEY]\n\nObjects that wait for a retry", ""},
		{[]string{"help"}, "why", ""},
		{nil, "plan      Show what a resync would do now, without doing it", ""},
	} {
		out, _ := p.client(0, c.args...)
		require.Contains(t, out, c.prints, "%q", c.args)
		if asked := strings.Join(r.Take(), "\n"); c.asked == "" {
			require.Empty(t, asked, "%q", c.args)
		} else {
			require.Contains(t, asked, c.asked, "%q", c.args)
		}
	}
}

func TestExitStatusOfAPlanWithSomethingToDoIsTwo(t *testing.T) {
	r, other := agent(), agent()
	other.Identity.Name, other.Identity.Table = "links", "links"
	p := serving(t, r, other)
	r.Planned = inspect.Plan{Reconciler: "agent/routes", Resync: inspect.Resync{Missing: 1, Differences: []inspect.Difference{{Key: "a", Kind: inspect.Missing}}}}
	out, _ := p.client(2, "plan")
	require.Contains(t, out, ": nothing to do; 0 equal\n")
	require.Contains(t, out, "agent/routes: 1 operation(s) to do: 1 missing; 0 equal\n")
	p.client(2, "plan", "routes", "--format=json")
	p.client(0, "plan", "links")
	r.Err = errors.New("no route")
	_, errs := p.client(1, "plan", "--timeout=1ms")
	require.Equal(t, "not within 1 ms: no route: context deadline exceeded\n", errs)
}

func TestClientFailsWithTheReason(t *testing.T) {
	r, other := agent(), agent()
	other.Identity.Name = "links"
	p := serving(t, r, other)
	for want, args := range map[string][]string{
		`there is no command "frob"`:                                {"frob", "routes"},
		`no reconciler "bgp", there are: agent/links, agent/routes`: {"pause", "bgp"},
		"NAME is missing":                                           {"pause"},
		"KEY is missing":                                            {"why", "routes"},
		`unexpected argument "b"`:                                   {"pause", "routes", "a", "b"},
		"unknown flag: --keys":                                      {"journal", "routes", "--keys=a"},
		`--format is "xml", must be table or json`:                  {"status", "--format=xml"},
	} {
		_, errs := p.client(1, args...)
		require.Equal(t, want+"\n", errs, "%q", args)
	}
	require.Empty(t, r.Acts())
	r.Rest = inspect.Unapplied{Keys: []inspect.Unreconciled{{Key: []byte("a"), State: inspect.StateRetry, Attempts: 2}}}
	r.Err = errors.New("waiting")
	out, errs := p.client(1, "wait", "agent/routes", "--timeout=1ms")
	require.Equal(t, "\"a\": retry after 2 attempt(s)\n", out)
	require.Equal(t, "not within 1 ms: waiting: context deadline exceeded\n", errs)

	p.stop()
	_, errs = p.client(1, "status")
	require.Contains(t, errs, "no program answers on")
	require.NoError(t, os.Chmod(filepath.Dir(p.path), 0o755))
	_, errs = p.client(1, "status")
	require.Contains(t, errs, "is open to others: its mode is 0755, must be 0700")
	require.NoError(t, os.Chmod(filepath.Dir(p.path), 0o700))
}

func TestSocketThatWasLeftBehindIsReplacedAndOneInUseIsNot(t *testing.T) {
	p := serving(t, agent())
	require.ErrorContains(t, Serve(t.Context(), p.path, &p.registry), "another program listens on")
	p.client(0, "status")
	p.stop()
	require.NoFileExists(t, p.path)

	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.path})
	require.NoError(t, err)
	old.SetUnlinkOnClose(false)
	require.NoError(t, old.Close())
	require.FileExists(t, p.path)
	p.serve()
	p.client(0, "status")
	p.stop()

	require.NoError(t, os.WriteFile(p.path, nil, 0o600))
	require.ErrorContains(t, Serve(t.Context(), p.path, &p.registry), "is a file of another kind")
	require.FileExists(t, p.path)
	require.ErrorContains(t, Serve(t.Context(), "/"+strings.Repeat("a", 120), &p.registry), "must be at most 107")
}

func TestPartsRunBesideTheSocket(t *testing.T) {
	p := serving(t, agent())
	never := func(context.Context) error { return errors.New("it has begun") }
	err := Serve(t.Context(), p.path, &p.registry, never)
	require.ErrorContains(t, err, "another program listens on", "nobody works on the target twice")
	require.NotContains(t, err.Error(), "it has begun")
	p.stop()

	ctx, stop := context.WithCancel(t.Context())
	began, broken := make(chan struct{}, 3), errors.New("broken")
	part := func(ctx context.Context) error { began <- struct{}{}; <-ctx.Done(); return nil }
	ended := make(chan error)
	go func() {
		ended <- Serve(ctx, p.path, &p.registry, part, part, func(context.Context) error { return nil })
	}()
	<-began
	<-began
	p.client(0, "status") // A part that ends without an error ends nothing.
	stop()
	require.NoError(t, <-ended)
	require.NoFileExists(t, p.path)

	err = Serve(t.Context(), p.path, &p.registry, part, func(context.Context) error { return broken })
	require.ErrorIs(t, err, broken)
	require.NoFileExists(t, p.path)
}

// Programs that start at once find the socket of one that was killed.
func TestOneOfSeveralProgramsServesASocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // with a short name, as a socket needs
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "s")
	for range 30 {
		old, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		require.NoError(t, err)
		old.SetUnlinkOnClose(false)
		require.NoError(t, old.Close())
		const programs = 8
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, programs)
		for range programs {
			go func() { ended <- Serve(ctx, path, &inspect.Registry{}) }()
		}
		for range programs - 1 {
			require.ErrorContains(t, <-ended, "another program listens on")
		}
		require.Error(t, checkUnused(path))
		stop()
		require.NoError(t, <-ended)
		require.NoFileExists(t, path)
	}
}

func TestSocketOfAnotherProgramIsNotRemoved(t *testing.T) {
	p := serving(t, agent())
	require.NoError(t, os.Remove(p.path)) // as by what cleans /tmp
	other, err := net.Listen("unix", p.path)
	require.NoError(t, err)
	defer other.Close()
	p.stop()
	require.FileExists(t, p.path)
}

func TestSocketAnswersWithThePageAndItsButtons(t *testing.T) {
	r := agent()
	p := serving(t, r)
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", p.path)
	}}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("http://localhost/show?reconciler=routes&format=json")
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Contains(t, string(body), `"reconciler":"agent/routes"`)
	answer, err = client.Post("http://localhost/pause?reconciler=routes&all=true&format=json", "", nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, []string{"pause"}, r.Acts())
}

// A client that is killed, and a program that ends, end the command.
func TestCommandEndsWithItsClientAndItsProgram(t *testing.T) {
	r := agent()
	r.Err = errors.New("waiting")
	p := serving(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", p.path)
	}}}
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/run", strings.NewReader(`{"Args": ["wait", "--timeout=1h"]}`))
	require.NoError(t, err)
	gone := make(chan error)
	go func() { _, err := client.Do(asked); gone <- err }()
	for len(r.Take()) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	require.Error(t, <-gone)
	client.CloseIdleConnections()

	status := make(chan int)
	go func() {
		var out strings.Builder
		status <- runClient(p.path, []string{"wait", "--timeout=1h"}, &out, &out)
	}()
	for len(r.Take()) == 0 {
		time.Sleep(time.Millisecond)
	}
	p.stop()
	require.Equal(t, 1, <-status)
}

// A loop whose table is derived waits for the derivations on the way, from the first on.
func TestWaitCoversTheDerivationsOfATable(t *testing.T) {
	r := agent()
	r.Identity.Table = "best"
	first, second, other := agent(), agent(), agent()
	first.Identity, first.Shown.Output = inspect.ID{Name: "z-first", Table: "wanted"}, "checked"
	second.Identity, second.Shown.Output = inspect.ID{Name: "a-second", Table: "checked"}, "best"
	other.Identity, other.Shown.Output = inspect.ID{Name: "other", Table: "wanted"}, "unrelated"
	p := serving(t, r, struct{ inspect.Controller }{first}, struct{ inspect.Controller }{second}, struct{ inspect.Controller }{other})
	p.client(0, "wait", "agent/routes")
	require.Equal(t, []string{`wait "" attempted`}, first.Take())
	require.Equal(t, []string{`wait "" attempted`}, second.Take())
	require.Empty(t, other.Take())
	require.Equal(t, []string{`wait "" applied`}, r.Take())
	first.Err = errors.New("it is paused")
	_, errs := p.client(1, "wait", "--timeout=1ms")
	require.Equal(t, "not within 1 ms: z-first: it is paused: context deadline exceeded\n", errs)
	require.Empty(t, second.Take())
}

// saved is a source that reads what was saved when Loaded is called.
type saved struct {
	inspect.Source
	name  string
	err   error
	notes func(string)
}

func (s *saved) Input() string { return s.name }

func (s *saved) Snapshot() inspect.SourceSnapshot {
	table, _, _ := strings.Cut(s.name, "/")
	return inspect.SourceSnapshot{Name: s.name, Table: table}
}

func (s *saved) Loaded(context.Context) error {
	s.notes("loaded " + s.name)
	return s.err
}

func TestWaitCoversWhatTheSourcesHaveNow(t *testing.T) {
	r, derived, derivation := agent(), agent(), agent()
	derived.Identity.Name, derived.Identity.Table = "best", "best"
	derivation.Identity, derivation.Shown.Output = inspect.ID{Name: "derive-best", Table: "wanted"}, "best"
	p := serving(t, r, derived, struct{ inspect.Controller }{derivation})
	var notes []string
	note := func(s string) {
		notes = append(notes, s+" "+strings.Join(r.Take(), "")+strings.Join(derivation.Take(), ""))
	}
	files, other := &saved{name: "routes/files", notes: note}, &saved{name: "wanted/files", notes: note}
	p.registry.AddSource(files)
	p.registry.AddSource(other)
	p.client(0, "wait", "agent/routes", "a")
	require.Equal(t, []string{"loaded routes/files "}, notes, "before it waits")
	require.Equal(t, []string{`wait "a" applied`}, r.Take())
	notes = nil
	p.client(0, "wait", "agent/best")
	require.Equal(t, []string{"loaded wanted/files "}, notes)
	require.Equal(t, []string{`wait "" attempted`}, derivation.Take())

	files.err = errors.New("routes.yaml:3:1: no such field")
	_, errs := p.client(1, "wait", "agent/routes")
	require.Equal(t, "source routes/files: routes.yaml:3:1: no such field\n", errs)
	require.Empty(t, r.Take(), "what is saved is not in the table")
	_, errs = p.client(1, "wait")
	require.Equal(t, "source routes/files: routes.yaml:3:1: no such field\n", errs)
	p.client(0, "wait", "agent/best")
}
