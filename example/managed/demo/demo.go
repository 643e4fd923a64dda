// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package demo tells a story of a broker and an agent, as processes: tunnels are created, drift,
// are repaired and deleted, the broker fails now and then, and the agent is killed whenever it
// is in the middle of something. In the end the broker has to have what is wanted.
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

// Demo is a story to be told.
type Demo struct {
	// Command returns the command that runs this program with arguments.
	Command func(args ...string) *exec.Cmd
	// Dir is an empty directory for the broker's file, the agent's, and what they log.
	Dir string
	// Broker are further arguments of the broker: its faults.
	Broker []string
	// Out is where the story goes.
	Out io.Writer
}

// patience is how long to wait for what takes a second or two: with the race detector, on a
// machine that does something else, too.
const patience = 60 * time.Second

// owner is whose the tunnels are.
const owner = "demo"

// teller is a story that is being told.
type teller struct {
	Demo
	began  time.Time
	log    *os.File
	broker *process
	agent  *process
	client *client.Client
	wanted wanted
	// orphans are the names of those that stay when they are not wanted any more, left what stayed.
	orphans map[string]bool
	left    wanted
	kills   int
}

// Run tells the story. The error says how what the broker holds differs from what is wanted, or
// what else went wrong.
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
	t.say("the broker runs as process %d; it tells of changes late, and fails now and then", t.broker.cmd.Process.Pid)
	return nil
}

// ending compares.
func (t *teller) ending(ctx context.Context) error {
	events, err := t.events(ctx)
	if err != nil {
		return err
	}
	h, err := t.look(ctx)
	if err != nil {
		return err
	}
	t.say("what the last agent has to tell:")
	fmt.Fprint(t.Out, events)
	t.say("the end, after %d kills:", t.kills)
	if err := h.print(t.Out, t.wanted); err != nil {
		return err
	}
	if err := h.check(t.stays()); err != nil {
		return err
	}
	t.say("the broker holds what is wanted, and %s; nothing was leaked, nothing created twice", orphan)
	return nil
}

// end stops what still runs.
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

// do does one thing after the other, until one fails.
func (t *teller) do(things ...func() error) error {
	for _, thing := range things {
		if err := thing(); err != nil {
			return err
		}
	}
	return nil
}

// stays is what the broker has to hold: what is wanted, and what was left.
func (t *teller) stays() wanted {
	all := maps.Clone(t.wanted)
	maps.Copy(all, t.left)
	return all
}

func (t *teller) file() string { return filepath.Join(t.Dir, "tunnels.json") }

// write puts a file with what is wanted in the place of the old one.
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
		"-listen", "127.0.0.1:0", "-poll", "300ms", "-sweep", "1s", "-grace", "2s", "-shell", "", "-with-parent"), t.log)
	if err != nil {
		return err
	}
	t.say("an agent runs as process %d", t.agent.cmd.Process.Pid)
	return nil
}

// killWhen kills the agent when something has been done at least so often.
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

// settle waits until the broker holds what is wanted, and the agent says so.
func (t *teller) settle(ctx context.Context) error {
	err := t.until(ctx, "the broker holds what is wanted", func() (bool, error) {
		h, err := t.look(ctx)
		if err != nil || !h.same(t.stays()) {
			return false, err
		}
		body, err := t.ask(ctx, "/healthz")
		return body == fmt.Sprintf("ok, %d tunnels\n", len(t.wanted)), err
	})
	if err == nil {
		t.say("the broker holds the %d tunnels that are wanted, and the agent knows it", len(t.wanted))
	}
	return err
}

// lookEvery is how often a condition is looked at.
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
			return fmt.Errorf("waited in vain until %s, see %s: %w", what, t.log.Name(), waiting.Err())
		}
	}
}

// look returns what the broker really has.
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

// ask returns what the agent answers.
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
	defer func() { _ = response.Body.Close() }() // it was read
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
