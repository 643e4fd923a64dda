// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

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

// process is a broker or an agent that runs as a process of its own.
type process struct {
	cmd *exec.Cmd
	// stdin is its standard input. It stops when that is closed, also by the death of this process.
	stdin io.Closer
	// url is the URL of its HTTP server.
	url string
	// ended is closed when it has ended.
	ended chan struct{}
}

// start starts a process, and waits until it prints the URL of its HTTP server. Its log goes to log.
func start(ctx context.Context, cmd *exec.Cmd, log *os.File) (*process, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	line := make(chan string, 1)
	go func() {
		defer close(p.ended)
		text, _ := bufio.NewReader(stdout).ReadString('\n')
		line <- strings.TrimSpace(text)
		_, _ = io.Copy(io.Discard, stdout) // until it ends
		_ = cmd.Wait()                     // stop checks the exit code
	}()
	select {
	case p.url = <-line:
	case <-ctx.Done():
	}
	if !strings.HasPrefix(p.url, "http://") {
		p.kill()
		return nil, errors.Join(fmt.Errorf("%q did not start, see %s", cmd.Args, log.Name()), ctx.Err())
	}
	return p, nil
}

// kill ends a process with SIGKILL, and waits until it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
}

// stopTimeout bounds how long a process may take to stop.
const stopTimeout = 20 * time.Second

// stop stops a process with SIGTERM. It returns an error if the process does not stop, or has failed.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		p.kill()
		return fmt.Errorf("%q does not stop", p.cmd.Args)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%q ended with exit code %d", p.cmd.Args, code)
	}
	return nil
}
