// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/freeport"
)

// patience bounds waits for what takes seconds on an idle machine.
const patience = 2 * time.Minute

// nobody is the user that runs the server if the tests are root, since PostgreSQL refuses to be.
const nobody = 65534

// instance is a PostgreSQL of the tests.
type instance struct {
	dir string
	// port is where it listens on 127.0.0.1.
	port  int
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
	mu    sync.Mutex
	conn  *pgx.Conn // with mu
}

// command returns a command of PostgreSQL, such as initdb.
func (s *instance) command(name string, args ...string) *exec.Cmd {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // Debian's, which are not in PATH
	slices.Sort(found)
	path := name
	if len(found) > 0 {
		path = found[len(found)-1]
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// newInstance makes a server in a folder, and starts it.
func newInstance(dir string) (*instance, error) {
	s := &instance{dir: dir}
	if os.Getuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			return nil, err
		}
	}
	// Nobody turns the machine off, so what is written need not reach a disk.
	initdb := s.command("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb (of Debian's package postgresql): %w\n%s", err, out)
	}
	var err error
	if s.port, err = freeport.Get(); err != nil {
		return nil, err
	}
	return s, s.start()
}

// start starts the server, and waits until it answers.
func (s *instance) start() error {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	for begun := time.Now(); time.Since(begun) < patience; {
		s.cmd = s.command("postgres", "-D", "data", "-p", fmt.Sprint(s.port), "-h", "127.0.0.1", "-k", "", "-c", "fsync=off",
			"-c", "log_statement=ddl", "-c", "autovacuum=off", "-c", "shared_buffers=32MB")
		s.cmd.Stderr = log
		if err := s.cmd.Start(); err != nil {
			return err
		}
		ended := make(chan struct{})
		s.ended = ended
		go func() {
			_ = s.cmd.Wait() // It is killed.
			close(ended)
		}()
		if s.answers() {
			return nil
		}
		// Processes of the one before still have its memory.
	}
	text, _ := os.ReadFile(s.log())
	return fmt.Errorf("the server does not answer:\n%s", text)
}

// answers waits until the server answers. It is false if it has ended.
func (s *instance) answers() bool {
	for {
		if conn, err := pgx.Connect(context.Background(), s.url("postgres", s.port)); err == nil {
			return conn.Close(context.Background()) == nil
		}
		select {
		case <-s.ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// kill ends all processes of the server at once.
func (s *instance) kill() {
	pid := s.cmd.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, process := range append(strings.Fields(string(children)), fmt.Sprint(pid)) {
		if p, err := strconv.Atoi(process); err == nil {
			_ = syscall.Kill(p, syscall.SIGKILL) // It may have ended.
		}
	}
	<-s.ended
}

func (s *instance) log() string { return filepath.Join(s.dir, "log") }

func (s *instance) url(database string, port int) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable&connect_timeout=5", port, database)
}

// writes returns the statements that change something and that the server was sent since it began.
func (s *instance) writes(t testing.TB) (statements []string) {
	file, err := os.Open(s.log())
	require.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if _, statement, is := strings.Cut(lines.Text(), "LOG:  statement: "); is {
			statements = append(statements, statement)
		}
	}
	require.NoError(t, lines.Err())
	return statements
}

// shared is the server of all tests.
var shared struct {
	sync.Once
	*instance
	err error
}

// theServer returns the server of all tests, without objects of earlier tests.
func theServer(t testing.TB) *instance {
	shared.Do(func() {
		var dir string
		if dir, shared.err = os.MkdirTemp("", "postgres-test"); shared.err == nil {
			shared.instance, shared.err = newInstance(dir)
		}
	})
	require.NoError(t, shared.err)
	shared.empty(t)
	if _, made := shared.dump(t)["role their_role"]; !made {
		for _, statements := range theirs {
			shared.exec(t, statements...)
		}
	}
	return shared.instance
}

// stopServer stops the server of all tests.
func stopServer() error {
	if shared.instance == nil {
		return nil
	}
	shared.kill()
	return os.RemoveAll(shared.dir)
}

// query returns rows of text, each joined by spaces.
func (s *instance) query(t testing.TB, sql string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	conn, err := s.connection()
	require.NoError(t, err)
	rows, err := conn.Query(context.Background(), sql)
	require.NoError(t, err)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return texts
}

// exec carries out statements, each on its own.
func (s *instance) exec(t testing.TB, statements ...string) {
	require.NoError(t, s.try(statements...))
}

func (s *instance) try(statements ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	conn, err := s.connection()
	if err != nil {
		return err
	}
	var errs []error
	for _, statement := range statements {
		_, err := conn.Exec(context.Background(), statement)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// connection returns the connection of the test. It is another one after the server was killed.
func (s *instance) connection() (_ *pgx.Conn, err error) {
	if s.conn == nil || s.conn.Ping(context.Background()) != nil {
		s.conn, err = pgx.Connect(context.Background(), s.url("postgres", s.port))
	}
	return s.conn, err
}

// empty removes all databases and roles but those of a new server and of others. What agents that have ended have sent is
// carried out before, or not at all.
func (s *instance) empty(t testing.TB) {
	s.query(t, fmt.Sprintf(`SELECT pg_terminate_backend(pid, %d)::text FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`, patience.Milliseconds()))
	s.exec(t, s.query(t, `
		SELECT format('DROP DATABASE %I WITH (FORCE)', datname) FROM pg_database
		WHERE datname NOT IN ('postgres', 'template0', 'template1', 'their_database', 'other_new_shop')
		UNION ALL SELECT format('DROP ROLE %I', rolname) FROM pg_roles WHERE oid >= 16384 AND rolname !~ '^their_'`)...)
}

// dump returns all that somebody has made, without list.sql.
func (s *instance) dump(t testing.TB) map[string]string {
	dump := map[string]string{}
	for _, row := range s.query(t, `
		SELECT 'role ' || rolname || '|' || concat_ws(' ', rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,
			rolbypassrls, rolconnlimit, rolpassword, nullif(rolvaliduntil, 'infinity'), shobj_description(oid, 'pg_authid'))
		FROM pg_authid WHERE oid >= 16384
		UNION ALL SELECT 'database ' || datname || '|' || concat_ws(' ', pg_get_userbyid(datdba), shobj_description(oid, 'pg_database'))
		FROM pg_database WHERE datname NOT IN ('postgres', 'template0', 'template1')
		UNION ALL SELECT format('member %s in %s|%s', pg_get_userbyid(member), pg_get_userbyid(roleid), admin_option)
		FROM pg_auth_members WHERE member >= 16384
		UNION ALL SELECT format('grant of %s to %s by %s|%s', datname, coalesce(nullif(grantee, 0)::regrole::text, 'PUBLIC'), grantor::regrole,
			string_agg(privilege_type || CASE WHEN is_grantable THEN '*' ELSE '' END, ' ' ORDER BY privilege_type))
		FROM pg_database, aclexplode(coalesce(datacl, acldefault('d', datdba))) WHERE datname NOT IN ('postgres', 'template0', 'template1')
		GROUP BY datname, grantee, grantor`) {
		name, value, _ := strings.Cut(row, "|")
		dump[name] = value
	}
	return dump
}

// proxy is between an agent and a server.
type proxy struct {
	net.Listener
	to   string
	mu   sync.Mutex
	open map[net.Conn]bool
	// silent: nothing goes through, as when a cable is cut. refusing: connections are closed.
	silent, refusing bool
	// roles is the number of statements that make roles and go through before it is silent; negative means any.
	roles int
	done  sync.WaitGroup
}

func newProxy(t testing.TB, to int) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{Listener: listener, to: fmt.Sprintf("127.0.0.1:%d", to), open: map[net.Conn]bool{}, roles: -1}
	p.done.Go(func() {
		for {
			conn, err := p.Accept()
			if err != nil {
				return
			}
			p.done.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = p.Close()
		p.set(false, true)
		p.done.Wait()
	})
	return p
}

func (p *proxy) port() int { return p.Addr().(*net.TCPAddr).Port }

// set changes what goes through. What was swallowed never arrives, so what was silent is closed then.
func (p *proxy) set(silent, refusing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if refusing || p.silent && !silent {
		for conn := range p.open {
			_ = conn.Close()
		}
	}
	p.silent, p.refusing = silent, refusing
}

// allow lets all go through, until so many roles are made.
func (p *proxy) allow(roles int) {
	p.mu.Lock()
	p.roles = roles
	p.mu.Unlock()
	p.set(false, false)
}

// add keeps a connection, to be closed by set.
func (p *proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		p.open[conn] = true
	}
	return !p.refusing
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	if !p.add(client) {
		return
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.add(server) {
		return
	}
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		both.Go(func() {
			_, _ = io.Copy(through{p, to}, from)
			_, _ = client.Close(), server.Close()
		})
	}
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, client)
	delete(p.open, server)
}

// through writes to a connection, unless the proxy is silent.
type through struct {
	p *proxy
	net.Conn
}

func (t through) Write(b []byte) (int, error) {
	t.p.mu.Lock()
	if t.p.roles >= 0 {
		t.p.roles = max(0, t.p.roles-bytes.Count(b, []byte(`CREATE ROLE "`))) // the answer is without a name
		t.p.silent = t.p.silent || t.p.roles == 0
	}
	silent := t.p.silent
	t.p.mu.Unlock()
	if silent {
		return len(b), nil
	}
	return t.Conn.Write(b)
}
