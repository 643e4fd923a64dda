// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// asProgram is the variable that makes this test binary run as the program.
const asProgram = "POSTGRES_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	code := m.Run()
	if err := errors.Join(stopServer(), goleak.Find()); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// world is a server, a folder, and an agent.
type world struct {
	*testing.T
	*instance
	*proxy
	dir   string
	agent *exec.Cmd
	log   *os.File
}

func newWorld(t *testing.T) *world {
	s := theServer(t)
	w := &world{T: t, instance: s, proxy: newProxy(t, s.port), dir: t.TempDir()}
	require.NoError(t, os.Chmod(w.dir, 0o700))
	require.NoError(t, os.Mkdir(w.path("roles"), 0o700))
	log, err := os.Create(w.path("log"))
	require.NoError(t, err)
	w.log = log
	t.Cleanup(func() {
		w.kill()
		text, err := os.ReadFile(w.path("log"))
		assert.NoError(t, err)
		assert.NotContains(t, string(text), "DATA RACE")
		if t.Failed() {
			t.Logf("the log of the agents ends with\n%s", text[max(0, len(text)-5000):])
		}
		assert.NoError(t, log.Close())
	})
	return w
}

func (w *world) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

// program returns the command that runs the program with arguments.
func (w *world) program(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(w.Context(), os.Args[0], append([]string{"-url", w.url("postgres", w.proxy.port()),
		"-folder", w.path("roles"), "-socket", w.path("socket"), "-resync", "1s"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start starts an agent, and waits until it takes commands.
func (w *world) start() {
	w.agent = w.program("agent")
	w.agent.Stderr = w.log
	require.NoError(w, w.agent.Start())
	w.eventually("the agent takes commands", func() bool { return w.program("status").Run() == nil })
}

// kill ends the agent at once.
func (w *world) kill() {
	if w.agent != nil {
		_ = w.agent.Process.Kill() // It may have ended.
		_ = w.agent.Wait()
		w.agent = nil
	}
}

// stop ends the agent as a person does.
func (w *world) stop() {
	require.NoError(w, w.agent.Process.Signal(syscall.SIGTERM))
	require.NoError(w, w.agent.Wait())
	w.agent = nil
}

// ask has the agent carry out a command.
func (w *world) ask(args ...string) (string, error) {
	out, err := w.program(args...).CombinedOutput()
	return string(out), err
}

// applied waits until the agent says that all is applied, and requires that the server has what it should have.
func (w *world) applied(want map[string]string) {
	w.Helper()
	out, err := w.ask("wait", "--timeout", patience.String())
	require.NoError(w, err, out)
	w.has(want)
}

// has requires that the server has exactly this, and what others have made.
func (w *world) has(want map[string]string) {
	w.Helper()
	want = maps.Clone(want)
	maps.Copy(want, others)
	require.Equal(w, want, w.dump(w))
}

// becomes waits until the server has exactly this, and what others have made.
func (w *world) becomes(want map[string]string) {
	w.Helper()
	want = maps.Clone(want)
	maps.Copy(want, others)
	for begun := time.Now(); !maps.Equal(want, w.dump(w)); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > patience {
			require.Equal(w, want, w.dump(w))
		}
	}
}

func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	for begun := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > patience {
			w.Fatalf("not in time: %s", what)
		}
	}
}

// says waits until a command of the agent prints a text.
func (w *world) says(text string, args ...string) {
	w.Helper()
	var out string
	for begun := time.Now(); !strings.Contains(out, text); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > patience {
			w.Fatalf("%q does not print %q, but\n%s", args, text, out)
		}
		out, _ = w.ask(args...)
	}
}

// write replaces a file of the folder at once.
func (w *world) write(name, text string) {
	w.Helper()
	require.NoError(w, os.WriteFile(w.path("new"), []byte(text), 0o600))
	require.NoError(w, os.Rename(w.path("new"), w.path("roles", name)))
}

// others are what the statements of others in theirs make, as a dump has it.
var others = map[string]string{
	"role their_role":                                     "f t f f f f f -1",
	"role their_app":                                      "f t f f f f f -1 kept by other: app",
	"database their_database":                             "their_role",
	"database other_new_shop":                             "postgres",
	"member their_app in their_role":                      "f",
	"grant of their_database to PUBLIC by their_role":     "CONNECT TEMPORARY",
	"grant of their_database to their_role by their_role": "CONNECT CREATE TEMPORARY",
	"grant of their_database to their_app by their_role":  "CONNECT",
	"grant of other_new_shop to PUBLIC by postgres":       "CONNECT TEMPORARY",
	"grant of other_new_shop to postgres by postgres":     "CONNECT CREATE TEMPORARY",
}

// wish is a file, and what the server has then.
type wish struct {
	roles, databases strings.Builder
	want             map[string]string
}

func newWish() *wish { return &wish{want: map[string]string{}} }

func (f *wish) role(name string, in ...string) {
	fmt.Fprintf(&f.roles, "- {name: %s, options: [LOGIN], in: [%s]}\n", name, strings.Join(in, ", "))
	f.want["role "+name] = "f t f f t f f -1 kept by statekeel: " + name
	for _, group := range in {
		f.want["member "+name+" in "+group] = "f"
	}
}

// database wants a database; each of the roles may connect.
func (f *wish) database(name, owner string, roles ...string) {
	fmt.Fprintf(&f.databases, "- name: %s\n  owner: %s\n  grants:\n", name, owner)
	f.want["database "+name] = owner + " kept by statekeel: " + name
	of := "grant of " + name + " to "
	f.want[of+"PUBLIC by "+owner], f.want[of+owner+" by "+owner] = "CONNECT TEMPORARY", "CONNECT CREATE TEMPORARY"
	for _, r := range roles {
		fmt.Fprintf(&f.databases, "    %s: [CONNECT]\n", r)
		f.want[of+r+" by "+owner] = "CONNECT"
	}
}

// text returns the file. Roles are last.
func (f *wish) text() string {
	text := "databases:\n" + f.databases.String() + "roles:\n" + f.roles.String()
	if f.databases.Len() == 0 {
		text = strings.TrimPrefix(text, "databases:\n")
	}
	return text
}

// join returns what the server has with several files.
func join(files ...*wish) map[string]string {
	all := map[string]string{}
	for _, f := range files {
		maps.Copy(all, f.want)
	}
	return all
}

// small is a file with a few of each kind.
func small() *wish {
	f := newWish()
	f.role("app", "readers", "pg_monitor")
	f.role("readers")
	f.role("ann", "readers")
	f.database("shop", "app", "readers", "ann")
	return f
}

func TestAnAgentThatIsKilledTenTimesAppliesAllAndTouchesNothingElse(t *testing.T) {
	w := newWorld(t)
	const count, teams = 2000, 20
	var files []*wish
	for team := range teams {
		f := newWish()
		group := fmt.Sprintf("team%d", team)
		f.role(group)
		var members []string
		for i := 1; i < count/teams; i++ {
			name := fmt.Sprintf("user%d_%d", team, i)
			in := slices.Repeat([]string{group}, i%3/2)
			if team > 0 && i%7 == 0 {
				in = append(in, "team0") // a role of another file
			}
			f.role(name, in...)
			members = append(members, name)
		}
		if team%4 == 0 {
			f.database("base"+fmt.Sprint(team), group, members[:40]...)
		}
		files = append(files, f)
		w.write(fmt.Sprintf("%02d.yaml", team), f.text())
	}
	made := func() int {
		return len(w.query(t, "SELECT rolname::text FROM pg_roles WHERE rolname ~ '^(team|user)'"))
	}
	for kill := range 10 {
		enough := (kill + 1) * count / 13
		w.proxy.allow(enough + 100 - made()) // a test that is late to kill the agent does not find it done
		w.start()
		w.eventually("roles are made", func() bool { return made() >= enough })
		w.kill()
		require.Less(t, made(), count, "the agent was done before kill %d", kill)
	}
	w.proxy.allow(-1)
	w.start()
	w.applied(join(files...))

	w.kill()
	writes := len(w.writes(t))
	w.start()
	w.applied(join(files...))
	w.says("0 different, 0 missing, 0 orphan", "status", "objects")
	require.Empty(t, w.writes(t)[writes:], "a restart writes nothing if nothing has changed")

	out, err := w.ask("plan")
	require.NoError(t, err, out)
	require.Contains(t, out, "nothing to do")
	require.NoError(t, os.Remove(w.path("roles", "19.yaml")))
	out, err = w.ask("plan")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, out)
	require.Equal(t, 2, exit.ExitCode(), out)
}

func TestConnectionsThatAreCutDelayTheAgentOnly(t *testing.T) {
	w, f := newWorld(t), small()
	w.write("small.yaml", f.text())
	w.start()
	w.applied(f.want)

	w.proxy.set(true, false) // Nothing arrives any more, also not that the connection has ended.
	more := newWish()
	for i := range 200 {
		more.role(fmt.Sprint("more", i), "readers")
	}
	w.write("more.yaml", more.text())
	w.says("timed out after", "why", "objects", "role/more0")
	w.proxy.set(false, true) // Connections are refused.
	w.says("failed to connect", "why", "objects", "role/more0")
	time.Sleep(4 * time.Second) // The cut may be long: the agent has to come back soon, whatever it has seen.
	w.has(f.want)
	w.proxy.set(false, false)
	w.applied(join(f, more))
}

func TestAServerThatIsKilledEndsAsTheFolderSays(t *testing.T) {
	w, f := newWorld(t), small()
	for i := range 400 {
		f.role(fmt.Sprint("more", i), "readers")
	}
	w.write("small.yaml", f.text())
	w.start()
	for kill := range 3 {
		w.eventually("roles are made", func() bool {
			return len(w.query(t, "SELECT rolname::text FROM pg_roles WHERE rolname ~ '^more'")) > 100*kill
		})
		w.instance.kill()
		require.NoError(t, w.instance.start())
	}
	w.applied(f.want)
}

func TestWhatIsChangedByHandIsUndone(t *testing.T) {
	w, f := newWorld(t), small()
	w.write("small.yaml", f.text())
	w.start()
	w.applied(f.want)
	for name, statements := range map[string][]string{
		"a role is dropped":     {"REVOKE ALL ON DATABASE shop FROM ann", "DROP ROLE ann"},
		"a role is renamed":     {"ALTER ROLE readers RENAME TO writers"},
		"a database is renamed": {"ALTER DATABASE shop RENAME TO store"},
		"a database is dropped": {"DROP DATABASE shop"},
		"a role may do more": {
			"ALTER ROLE app SUPERUSER NOINHERIT CREATEDB CONNECTION LIMIT 3", "ALTER ROLE app VALID UNTIL '2030-01-01' PASSWORD 'x'",
		},
		"a database goes":       {"ALTER DATABASE shop OWNER TO their_role"},
		"privileges are added":  {"GRANT CREATE ON DATABASE shop TO readers WITH GRANT OPTION"},
		"privileges are taken":  {"REVOKE ALL ON DATABASE shop FROM readers"},
		"memberships are added": {"GRANT pg_signal_backend TO ann", "GRANT readers TO app WITH ADMIN OPTION"},
		"memberships are taken": {"REVOKE readers FROM ann", "REVOKE pg_monitor FROM app"},
		"something looks like ours": {
			"CREATE ROLE stray", "COMMENT ON ROLE stray IS 'kept by statekeel: stray'", "CREATE DATABASE statekeel_new_stray",
		},
	} {
		t.Log(name)
		w.exec(t, statements...)
		w.becomes(f.want)
	}
	w.applied(f.want)
}

func TestARenamedFileWritesNothingAndARenamedRoleIsAnother(t *testing.T) {
	w, f := newWorld(t), small()
	w.write("small.yaml", f.text())
	w.start()
	w.applied(f.want)
	writes := len(w.writes(t))
	require.NoError(t, os.Rename(w.path("roles", "small.yaml"), w.path("roles", "other.yaml")))
	w.applied(f.want)
	require.Empty(t, w.writes(t)[writes:])

	f = newWish()
	f.role("app", "readers", "pg_monitor")
	f.role("readers")
	f.role("anna", "readers")
	f.database("shop", "app", "readers", "anna")
	w.write("other.yaml", f.text())
	w.applied(f.want)
}

func TestTheFirstFileThatClaimsARoleHasIt(t *testing.T) {
	w, first, second := newWorld(t), newWish(), newWish()
	first.role("app")
	second.role("app", "pg_monitor")
	w.write("a.yaml", first.text())
	w.write("b.yaml", second.text())
	w.start()
	w.becomes(join(first, second)) // The membership is claimed once.
	w.says("b.yaml:2:3", "status", "objects/files")
	w.says("a.yaml:2:3", "status", "objects/files")
	require.NoError(t, os.Remove(w.path("roles", "a.yaml")))
	w.applied(second.want)
}

func TestARoleOfOthersIsLeftAlone(t *testing.T) {
	w, f := newWorld(t), newWish()
	f.role("app")
	w.write("f.yaml", f.text()+"- {name: their_role, options: [LOGIN]}\n")
	w.start()
	w.says("is not of this agent", "why", "objects", "role/their_role")
	w.becomes(f.want)
	w.write("f.yaml", f.text())
	w.applied(f.want)
}

func TestAFileThatIsHalfWrittenChangesNothing(t *testing.T) {
	w, f := newWorld(t), small()
	w.write("small.yaml", f.text())
	w.start()
	w.applied(f.want)
	writes := len(w.writes(t))

	file, err := os.OpenFile(w.path("roles", "small.yaml"), os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err)
	defer file.Close()
	half := strings.Index(f.text(), "- {name: ann") // the roles up to there are a file that parses
	_, err = file.WriteString(f.text()[:half])
	require.NoError(t, err)
	time.Sleep(3 * time.Second) // longer than Settle, and than two resyncs
	require.Empty(t, w.writes(t)[writes:])
	_, err = file.WriteString(f.text()[half:] + "- {name: bob, options: [LOGIN]}\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	f.role("bob")
	w.applied(f.want)
}

func TestABadFileIsNamedAndItsLastGoodVersionStays(t *testing.T) {
	w, f := newWorld(t), small()
	w.write("small.yaml", f.text())
	w.start()
	w.applied(f.want)
	writes := len(w.writes(t))
	for text, problem := range map[string]string{
		"roles: [{name: app, option: LOGIN}]": "small.yaml:1: field option not found",
		"roles:\n- name: app\n  in: app]":     "small.yaml:3:",
		"roles:\n- {name: Ann}":               `small.yaml:2:3: no name of a role: "Ann"`,
		"":                                    "the file is empty",
	} {
		w.write("small.yaml", text)
		w.says(problem, "status", "objects/files")
	}
	require.Empty(t, w.writes(t)[writes:])
	w.write("small.yaml", f.text())
	w.applied(f.want)
}

func TestAFileThatWasCutIsHeldUntilAPersonApproves(t *testing.T) {
	w, f, rest := newWorld(t), small(), newWish()
	for i := range 40 {
		rest.role(fmt.Sprint("more", i), "readers")
	}
	w.write("small.yaml", f.text())
	w.write("rest.yaml", rest.text())
	w.start()
	w.applied(join(f, rest))
	writes := len(w.writes(t))
	w.write("rest.yaml", "roles: []\n")
	w.says("80 deletion(s) await approval", "status", "objects/files")
	time.Sleep(2 * time.Second) // two resyncs
	require.Empty(t, w.writes(t)[writes:])
	out, err := w.ask("approve", "objects/files")
	require.Error(t, err, "a person approves what was shown")
	shown := regexp.MustCompile("approve objects/files ([0-9a-f]+)").FindStringSubmatch(out)
	require.NotNil(t, shown, out)
	out, err = w.ask("approve", "objects/files", shown[1])
	require.NoError(t, err, out)
	w.applied(f.want)
}

func TestAFolderThatWasCutWhileNoAgentRanIsHeld(t *testing.T) {
	w, f, rest := newWorld(t), small(), newWish()
	for i := range 40 {
		rest.role(fmt.Sprint("more", i), "readers")
	}
	w.write("small.yaml", f.text())
	w.write("rest.yaml", rest.text())
	w.start()
	w.applied(join(f, rest))
	w.stop()
	require.NoError(t, os.Remove(w.path("roles", "rest.yaml")))
	w.start()
	w.says("80 orphan", "status", "objects")
	w.has(join(f, rest))
	out, err := w.ask("approve", "objects")
	require.NoError(t, err, out)
	w.becomes(f.want)
}
