// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package demo runs a broker and an agent as processes: tunnels are created, drift, are repaired and
// deleted; the broker fails now and then; the agent is killed in the middle of its work. At the end the
// demo compares the broker's tunnels with the desired ones.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/statekeel/statekeel/example/managed/agent"
	"github.com/statekeel/statekeel/example/managed/api"
	"github.com/statekeel/statekeel/example/managed/client"
)

// Demo is the configuration of a run.
type Demo struct {
	// Command returns the command that runs this program with arguments.
	Command func(args ...string) *exec.Cmd
	// Dir is an empty directory for the files of the broker and the agent, and for their log.
	Dir string
	// Broker holds further arguments of the broker: its faults.
	Broker []string
	// Out receives the report of the run.
	Out io.Writer
}

// patience bounds waits for what takes a second or two. It allows for the race detector on a busy
// machine.
const patience = 60 * time.Second

// owner is the owner of the tunnels.
const owner = "demo"

// teller is a running demo.
type teller struct {
	Demo
	began  time.Time
	log    *os.File
	broker *process
	agent  *process
	client *client.Client
	wanted wanted
	// orphans are the names of the tunnels that stay when they are removed from the file; left are
	// those that stayed.
	orphans map[string]bool
	left    wanted
	kills   int
}

// Run runs the demo. The error names the differences between the broker's tunnels and the desired ones,
// or what else failed.
func (d Demo) Run(ctx context.Context) (err error) {
	log, err := os.OpenFile(filepath.Join(d.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	t := &teller{Demo: d, began: time.Now(), log: log, wanted: wanted{}, orphans: map[string]bool{orphan: true}, left: wanted{}}
	defer func() { err = errors.Join(err, t.end(), log.Close()) }()
	for _, chapter := range []func(context.Context) error{
		t.open, t.creation, t.drift, t.edits, t.leaving, t.deletion, t.ending,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *teller) say(format string, args ...any) {
	fmt.Fprintf(t.Out, "%6.2fs  %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
}

// open starts the broker.
func (t *teller) open(ctx context.Context) (err error) {
	args := append([]string{"broker", "-file", filepath.Join(t.Dir, "broker.db"), "-listen", "127.0.0.1:0", "-with-parent"}, t.Broker...)
	if t.broker, err = start(ctx, t.Command(args...), t.log); err != nil {
		return err
	}
	t.client = client.New(t.broker.url)
	t.say("the broker runs as process %d; its reads are late, and it fails now and then", t.broker.cmd.Process.Pid)
	return nil
}

// ending compares the broker's tunnels with the desired ones.
func (t *teller) ending(ctx context.Context) error {
	events, err := t.events(ctx)
	if err != nil {
		return err
	}
	h, err := t.look(ctx)
	if err != nil {
		return err
	}
	t.say("events of the last agent:")
	fmt.Fprint(t.Out, events)
	t.say("the end, after %d kills:", t.kills)
	if err := h.print(t.Out, t.wanted); err != nil {
		return err
	}
	if err := h.check(t.stays()); err != nil {
		return err
	}
	t.say("the broker holds the listed tunnels and %s; nothing was leaked, nothing created twice", orphan)
	return nil
}

// end stops the processes that still run.
func (t *teller) end() error {
	var errs []error
	for _, p := range []*process{t.agent, t.broker} {
		if p != nil {
			errs = append(errs, p.stop())
		}
	}
	if t.client != nil {
		t.client.Close()
	}
	return errors.Join(errs...)
}

// do calls functions in order until one fails.
func (t *teller) do(things ...func() error) error {
	for _, thing := range things {
		if err := thing(); err != nil {
			return err
		}
	}
	return nil
}

// stays returns what the broker must hold: the desired tunnels, and those that were left in place.
func (t *teller) stays() wanted {
	all := maps.Clone(t.wanted)
	maps.Copy(all, t.left)
	return all
}

func (t *teller) file() string { return filepath.Join(t.Dir, "tunnels.json") }

// write replaces the file of the desired tunnels.
func (t *teller) write() error {
	var d agent.Desired
	for _, name := range (holds{}).names(t.wanted) {
		d.Tunnels = append(d.Tunnels, agent.DesiredTunnel{Name: name, Settings: t.wanted[name], Orphan: t.orphans[name]})
	}
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(t.file()+"~", data, 0o600); err != nil {
		return err
	}
	return os.Rename(t.file()+"~", t.file())
}

func (t *teller) startAgent(ctx context.Context) (err error) {
	t.agent, err = start(ctx, t.Command("agent", "-file", t.file(), "-broker", t.broker.url, "-owner", owner,
		"-listen", "127.0.0.1:0", "-poll", "300ms", "-resync", "1s", "-grace", "2s", "-shell", "", "-with-parent"), t.log)
	if err != nil {
		return err
	}
	t.say("an agent runs as process %d", t.agent.cmd.Process.Pid)
	return nil
}

// killWhen kills the agent when a count of the audit has reached times.
func (t *teller) killWhen(ctx context.Context, what string, times int, of func(api.Audit) int) error {
	done := 0
	err := t.until(ctx, what, func() (bool, error) {
		h, err := t.look(ctx)
		done = h.done(of)
		return done >= times, err
	})
	if err != nil {
		return err
	}
	t.agent.kill()
	t.agent, t.kills = nil, t.kills+1
	t.say("the agent is killed, with %d %s", done, what)
	return nil
}

// settle waits until the broker holds the desired tunnels and the agent reports that.
func (t *teller) settle(ctx context.Context) error {
	err := t.until(ctx, "the broker holds the listed tunnels", func() (bool, error) {
		h, err := t.look(ctx)
		if err != nil || !h.same(t.stays()) {
			return false, err
		}
		body, err := t.ask(ctx, "/healthz")
		return body == fmt.Sprintf("ok, %d tunnels\n", len(t.wanted)), err
	})
	if err == nil {
		t.say("the broker holds the %d listed tunnels, and the agent reports success", len(t.wanted))
	}
	return err
}

// lookEvery is how often a condition is checked.
const lookEvery = 5 * time.Millisecond

func (t *teller) until(ctx context.Context, what string, condition func() (bool, error)) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		ok, err := condition()
		if ok || err != nil {
			return err
		}
		select {
		case <-time.After(lookEvery):
		case <-waiting.Done():
			return fmt.Errorf("timed out waiting for %q, see %s: %w", what, t.log.Name(), waiting.Err())
		}
	}
}

// look returns the true state of the broker.
func (t *teller) look(ctx context.Context) (h holds, err error) {
	all, err := t.client.Truth(ctx)
	if err != nil {
		return h, err
	}
	h.tunnels = map[string]api.Tunnel{}
	for _, tunnel := range all {
		h.tunnels[tunnel.Name] = tunnel
	}
	h.audit, err = t.client.Audit(ctx)
	return h, err
}

// ask returns the body of the agent's answer to a GET request.
func (t *teller) ask(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.agent.url+path, nil)
	if err != nil {
		return "", err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // the body was read
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
