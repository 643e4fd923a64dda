// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/internal/health"
	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/nettest"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// asProgram is the variable that makes this test binary a program with the cell, in the namespace in which it was started.
const asProgram = "SERVICES_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		nettest.Main(m)
		return
	}
	if err := runProgram(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// program is a hive with the cell.
type program struct {
	*hive.Hive
	db        *statedb.DB
	services  statedb.RWTable[*Service]
	slices    statedb.RWTable[*EndpointSlice]
	frontends statedb.RWTable[*Frontend]
	loop      *reconciler.Loop[*Frontend]
	registry  *inspect.Registry
	// unread are the initialisers of the two tables, until the first write.
	unread []func(statedb.WriteTxn)
}

var quiet = slog.New(slog.DiscardHandler)

// startedProgram starts one. Its tables are initialized with the first write.
func startedProgram(ctx context.Context, target Target) (*program, error) {
	p := &program{}
	p.Hive = hive.New(
		statedb.Cell, job.Cell, inspect.Cell, Cell,
		cell.Provide(func() Target { return target }, func() Options { return Options{} }, health.New),
		cell.Invoke(func(
			db *statedb.DB, services statedb.RWTable[*Service], endpoints statedb.RWTable[*EndpointSlice],
			frontends statedb.RWTable[*Frontend], loop *reconciler.Loop[*Frontend], registry *inspect.Registry,
		) {
			p.db, p.services, p.slices, p.frontends, p.loop, p.registry = db, services, endpoints, frontends, loop, registry
			txn := db.WriteTxn(services, endpoints)
			p.unread = []func(statedb.WriteTxn){services.RegisterInitializer(txn, "test"), endpoints.RegisterInitializer(txn, "test")}
			txn.Commit()
		}),
	)
	return p, p.Start(quiet, ctx)
}

// message changes the tables.
type message struct {
	Rows []*wish
	Gone []string
	// Number asks for an answer, unless it is zero, once all is applied.
	Number int
}

// write writes a message in one transaction. The first message is what a source has read at the start: the services are
// written before the slices.
func (p *program) write(m message) error {
	if p.unread == nil {
		return p.commit(m, p.writeServices, p.writeSlices)
	}
	err := p.commit(m, p.writeServices, p.read(0))
	if err == nil {
		err = p.commit(m, p.writeSlices, p.read(1))
	}
	p.unread = nil
	return err
}

// read ends an initialiser.
func (p *program) read(i int) func(statedb.WriteTxn, message) error {
	return func(txn statedb.WriteTxn, _ message) error {
		p.unread[i](txn)
		return nil
	}
}

func (p *program) commit(m message, changes ...func(statedb.WriteTxn, message) error) error {
	txn := p.db.WriteTxn(p.services, p.slices)
	defer txn.Abort()
	for _, change := range changes {
		if err := change(txn, m); err != nil {
			return err
		}
	}
	txn.Commit()
	return nil
}

func (p *program) writeServices(txn statedb.WriteTxn, m message) error {
	for _, w := range m.Rows {
		if _, _, err := p.services.Insert(txn, w.service()); err != nil {
			return err
		}
	}
	for _, name := range m.Gone {
		if _, _, err := p.services.Delete(txn, &Service{Name: name}); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) writeSlices(txn statedb.WriteTxn, m message) error {
	of := func(name string) []*EndpointSlice { return statedb.Collect(p.slices.List(txn, byService.Query(name))) }
	var gone []*EndpointSlice
	for _, name := range m.Gone {
		gone = append(gone, of(name)...)
	}
	for _, w := range m.Rows {
		wanted := w.slices()
		for _, s := range of(w.Name) {
			if !slices.ContainsFunc(wanted, func(w *EndpointSlice) bool { return w.Name == s.Name }) {
				gone = append(gone, s)
			}
		}
		for _, s := range wanted {
			if _, _, err := p.slices.Insert(txn, s); err != nil {
				return err
			}
		}
	}
	for _, s := range gone {
		if _, _, err := p.slices.Delete(txn, s); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until everything has been attempted, and returns what is not applied.
func (p *program) wait(ctx context.Context) (rest inspect.Unapplied, err error) {
	// A derivation is in the registry from when its job begins on.
	if ready, initialized := p.frontends.Initialized(p.db.ReadTxn()); !ready {
		select {
		case <-initialized:
		case <-ctx.Done():
			return rest, ctx.Err()
		}
	}
	// What was derived in the first round is new for the reconciler that was waited for before.
	for range 2 {
		for _, c := range p.registry.All() {
			if rest, err = c.WaitAll(ctx, reconciler.Attempted); err != nil {
				return rest, err
			}
		}
	}
	return p.loop.WaitAll(ctx, reconciler.Attempted)
}

// runProgram runs the cell with the real kernel. It takes messages until the end of the input.
func runProgram(in io.Reader, out io.Writer) error {
	ctx := context.Background()
	table, err := kernel.Open("services")
	if err != nil {
		return err
	}
	p, err := startedProgram(ctx, table)
	if err != nil {
		return err
	}
	for messages := json.NewDecoder(in); ; {
		var m message
		if err := messages.Decode(&m); err == io.EOF {
			return p.Stop(quiet, ctx)
		} else if err != nil {
			return err
		}
		if err := p.write(m); err != nil {
			return err
		}
		if m.Number == 0 {
			continue
		}
		rest, err := p.wait(ctx)
		if err == nil {
			err = rest.Err()
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, m.Number); err != nil {
			return err
		}
	}
}

// child is the program in a process of its own.
type child struct {
	*testing.T
	cmd    *exec.Cmd
	stderr bytes.Buffer
	in     io.WriteCloser
	out    *bufio.Scanner
	ended  bool
}

// startChild starts one in a namespace. It ends with its input, so it ends with the tests, too.
func startChild(t *testing.T, at *nettest.Place) *child {
	c := &child{T: t, cmd: exec.Command("/proc/self/exe")}
	c.cmd.Env = append(os.Environ(), asProgram+"=1")
	c.cmd.Stderr = &c.stderr
	var err error
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.out = bufio.NewScanner(out)
	at.Do(c.cmd.Start)
	t.Cleanup(func() {
		if !c.ended {
			c.stop()
		}
	})
	return c
}

func (c *child) send(m message) {
	c.Helper()
	if err := json.NewEncoder(c.in).Encode(m); err != nil {
		_ = c.cmd.Wait()
		require.NoError(c, err, "standard error:\n%s", &c.stderr)
	}
}

// applied waits until everything up to a message is applied.
func (c *child) applied(number int) {
	c.Helper()
	if !c.out.Scan() {
		c.ended = true
		err := c.cmd.Wait()
		require.Fail(c, "the program has ended", "%v, standard error:\n%s", err, &c.stderr)
	}
	require.Equal(c, fmt.Sprint(number), c.out.Text())
}

func (c *child) stop() {
	c.ended = true
	assert.NoError(c, c.in.Close())
	assert.NoError(c, c.cmd.Wait(), "standard error:\n%s", &c.stderr)
	assert.Empty(c, c.stderr.String())
}

// kill kills it in the middle of whatever it does.
func (c *child) kill() {
	c.ended = true
	require.NoError(c, c.cmd.Process.Kill())
	_ = c.cmd.Wait() // it was killed
	assert.Empty(c, c.stderr.String())
}
