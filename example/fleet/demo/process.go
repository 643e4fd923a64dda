// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build unix

package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a store or an agent that runs as a process of its own, or as two: an agent starts another
// one in its namespaces.
type process struct {
	name string
	cmd  *exec.Cmd
	// ended is closed when it has ended.
	ended chan struct{}
}

// start starts a process in a process group of its own, which a signal from the terminal does not reach,
// and waits until it prints a line that is [ReadyLine]. Its other output goes to log. It stops when its
// standard input ends, also by the death of this process.
func start(ctx context.Context, name string, cmd *exec.Cmd, log *os.File) (*process, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{name: name, cmd: cmd, ended: make(chan struct{})}
	ready := make(chan struct{})
	go func() {
		defer close(p.ended)
		defer func() { _ = stdin.Close() }() // it has ended
		lines := bufio.NewReader(stdout)
		for told := false; ; {
			line, err := lines.ReadString('\n')
			if !told && strings.TrimSpace(line) == ReadyLine {
				told = true
				close(ready)
			} else {
				_, _ = io.WriteString(log, line) // a log that cannot be written is no reason to stop
			}
			if err != nil {
				break
			}
		}
		_ = cmd.Wait() // stop checks the exit code
	}()
	select {
	case <-ready:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("%s ended at its start, see %s", name, log.Name())
	case <-ctx.Done():
		p.kill()
		return nil, ctx.Err()
	case <-time.After(patience):
		p.kill()
		return nil, fmt.Errorf("%s is not ready after %s, see %s", name, patience, log.Name())
	}
}

// ReadyLine is what a process prints when it is ready.
const ReadyLine = "ready"

// patience bounds how long a process may take to start or to stop.
const patience = time.Minute

// running reports whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill ends the process group with SIGKILL, and waits until it has ended.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may have ended already
	<-p.ended
}

// stop stops the process with SIGTERM. It returns an error if it does not stop, or has failed.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.kill()
		return fmt.Errorf("%s does not stop", p.name)
	}
	if state := p.cmd.ProcessState; !state.Success() {
		return errors.New(p.name + ": " + state.String())
	}
	return nil
}
