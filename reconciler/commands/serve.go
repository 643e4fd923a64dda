// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Serve answers [Client] on a Unix socket until ctx ends, for a program without a hive. registry has its reconcilers and
// sources. Beside that it runs the parts of the program, such as the Run methods of loops and sources. The socket also
// answers HTTP with the page of package debug, with its buttons:
//
//	curl --unix-socket PATH 'http://localhost/show?reconciler=NAME&format=json'
//
// A person who can connect can do what the program can do. So the socket is in a directory that only its user can access, which
// Serve creates if it is missing: see [PrepareSocket] and [SocketPath]. A socket that a killed program has left behind is
// replaced; the error says so if a program listens on it.
//
// The parts begin when the socket is there: of two programs with one path, one works on the target. If a part returns an
// error, the context of the others ends, and so does the socket. Serve returns when all have returned, with their errors,
// or nil if ctx has ended, and has removed the socket then. Call it once for a path, from any goroutine.
func Serve(ctx context.Context, path string, registry *inspect.Registry, parts ...func(context.Context) error) error {
	listener, end, err := listen(path)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	errs := make([]error, len(parts)+1)
	for i, part := range parts {
		running.Go(func() {
			if errs[i] = part(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	if err := serve(ctx, listener, registry); err != nil {
		errs[len(parts)] = fmt.Errorf("serve the socket %q: %w", path, err)
	}
	cancel()
	running.Wait()
	return errors.Join(errs...)
}

// serve answers on a socket until ctx ends.
func serve(ctx context.Context, listener net.Listener, registry *inspect.Registry) error {
	mux := http.NewServeMux()
	mux.Handle("/", debug.New(registry, debug.WithWrites()))
	mux.HandleFunc("POST /"+runPath, (&commands{registry: registry}).serveRun)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		// Requests end with their contexts, except those of clients that do not read their answers.
		ending, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ending) != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(listener)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	_ = server.Close()
	return err
}

// runPath is the path of the requests of [Client].
const runPath = "run"

// call is a command of a client: its name and its arguments. answered is the answer.
type (
	call     struct{ Args []string }
	answered struct {
		Output string
		// Error is the text of the error; empty if there is none.
		Error  string
		Status int
	}
)

// The exit statuses of [Client].
const (
	statusDone   = 0
	statusFailed = 1
	statusToDo   = 2
)

// maxCall bounds the bytes of a call.
const maxCall = 1 << 20

// serveRun runs a command of a client.
func (c *commands) serveRun(w http.ResponseWriter, r *http.Request) {
	var asked call
	if err := json.NewDecoder(io.LimitReader(r.Body, maxCall)).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	encoded, err := json.Marshal(c.run(r.Context(), asked.Args))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// The error is that of the connection: the client is gone then.
	_, _ = w.Write(encoded)
}

// run runs a command of a client.
func (c *commands) run(ctx context.Context, args []string) (a answered) {
	s, args := c.verb(args)
	if s == nil {
		return answered{Output: c.usage(), Status: statusDone}
	}
	flags := pflag.NewFlagSet(s.full(), pflag.ContinueOnError)
	flags.Usage = func() {}
	s.addFlags(flags)
	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return answered{Output: s.usage(flags), Status: statusDone}
	}
	var in *operator.Input
	if err == nil {
		in, err = c.read(s, flags, c.named(s, flags.Args()))
	}
	if err != nil {
		return answered{Error: shellError{err}.Error(), Status: statusFailed}
	}
	r := s.start(ctx, in)()
	a.Output = r.printed
	switch {
	case r.err != nil:
		a.Error, a.Status = r.err.Error(), statusFailed
	case r.toDo:
		a.Status = statusToDo
	}
	return a
}

// verbs are other names of commands.
var verbs = map[string]string{"status": "show", "why": "explain"}

// verb returns the command that the first argument names, and the others; nil if it names none. "status" without a
// reconciler is the list.
func (c *commands) verb(args []string) (*spec, []string) {
	if len(args) == 0 {
		return nil, nil
	}
	name := strings.TrimPrefix(args[0], "reconciler/")
	if name == "status" && !slices.ContainsFunc(args[1:], func(arg string) bool { return !strings.HasPrefix(arg, "-") }) {
		name = "reconciler"
	} else if other := verbs[name]; other != "" {
		name = other
	}
	for _, s := range c.all() {
		if s.short() == name {
			return s, args[1:]
		}
	}
	return nil, nil
}

// named adds the name of the only reconciler to arguments that lack one. A derivation counts only if there is no other.
func (c *commands) named(s *spec, args []string) []string {
	needed := 0
	for _, arg := range s.Args {
		if !strings.HasPrefix(arg, "[") {
			needed++
		}
	}
	all := c.registry.All()
	if of := operator.Loops(all); len(of) > 0 {
		all = nil
		for _, loop := range of {
			all = append(all, loop)
		}
	}
	if len(args) >= needed || len(all) != 1 {
		return args
	}
	return append([]string{all[0].ID().String()}, args...)
}

// short returns the name of the command without that of all: "reconciler" is the list.
func (s *spec) short() string { return strings.TrimPrefix(s.full(), "reconciler/") }

// usage lists the commands.
func (c *commands) usage() string {
	summaries := map[string]string{}
	for _, s := range c.all() {
		summaries[s.short()] = s.Summary
	}
	summaries["status"] = summaries["reconciler"] + "; with a name, all figures of one"
	summaries["why"] = summaries["explain"]
	for _, other := range []string{"reconciler", "show", "explain"} {
		delete(summaries, other)
	}
	var lines [][]text.Value
	for _, name := range slices.Sorted(maps.Keys(summaries)) {
		lines = append(lines, []text.Value{{Text: name}, {Text: summaries[name]}})
	}
	r := text.Report{Lead: text.Value{Text: "Commands; --help after one describes it:"}, Fields: lines}
	return r.String()
}

// usage describes a command.
func (s *spec) usage(flags *pflag.FlagSet) string {
	return fmt.Sprintf("%s %s\n\n%s\n\nFlags:\n%s", s.short(), strings.Join(s.Args, " "),
		strings.Join(s.help(), "\n"), flags.FlagUsages())
}

// Client runs a command in the program that serves a socket, prints the answer to the standard output, or the error to the
// standard error, and returns the exit status: 0, or 1 if the command failed, or 2 if a plan has something to do. The
// commands are
//
//	status [NAME]         the state of the reconcilers, or of one
//	why NAME KEY          why an object is, or is not, applied
//	wait [NAME [KEY]]     until what is wanted now is applied: the sources have read it, and the loops have applied it
//	plan [NAME]           what a resync would do, without doing it
//	pause, resume, retry NAME [KEY], approve NAME
//
// and the others of this package. Without a command it lists them. The name of the only reconciler may be left out where
// it is not optional. A program that handles its arguments like this has them all:
//
//	if len(os.Args) > 1 {
//		os.Exit(commands.Client(path, os.Args[1:]...))
//	}
//
// It connects only to a socket that passes [CheckSocket].
func Client(path string, args ...string) (status int) {
	return runClient(path, args, os.Stdout, os.Stderr)
}

func runClient(path string, args []string, stdout, stderr io.Writer) (status int) {
	a, err := askServer(path, args)
	if err != nil {
		a = answered{Error: err.Error(), Status: statusFailed}
	}
	_, err = io.WriteString(stdout, a.Output)
	if a.Error == "" && err != nil {
		a.Error, a.Status = err.Error(), statusFailed
	}
	if a.Error != "" {
		fmt.Fprintln(stderr, a.Error)
	}
	return a.Status
}

// askServer has the program that serves a socket run a command.
func askServer(path string, args []string) (a answered, err error) {
	local := &commands{registry: &inspect.Registry{}}
	if s, _ := local.verb(args); s == nil {
		if a.Output = local.usage(); len(args) > 0 && args[0] != "help" && args[0] != "-h" && args[0] != "--help" {
			a.Error, a.Status = fmt.Sprintf("there is no command %q", args[0]), statusFailed
		}
		return a, nil
	}
	if err := CheckSocket(path); err != nil {
		return a, fmt.Errorf("no program answers: %w", err)
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	encoded, err := json.Marshal(call{args})
	if err != nil {
		return a, err
	}
	answer, err := client.Post("http://localhost/"+runPath, "application/json", bytes.NewReader(encoded))
	if err != nil {
		return a, fmt.Errorf("no program answers on %q: %w", path, errors.Unwrap(err))
	}
	defer answer.Body.Close()
	if err = json.NewDecoder(answer.Body).Decode(&a); err != nil {
		err = fmt.Errorf("the program answers %s: %w", answer.Status, err)
	}
	return a, err
}
