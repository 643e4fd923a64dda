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
	// stdin holds it: it stops when that is closed, as it is when this process dies.
	stdin io.Closer
	// url is where it serves HTTP.
	url string
	// ended is closed when it has ended.
	ended chan struct{}
}

// start starts a process and waits until it says where it serves HTTP. What it logs goes to log.
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
		_ = cmd.Wait()                     // the exit code says it
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

// kill ends a process without a warning, and waits for that.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// stopTimeout is how long a process may take to stop.
const stopTimeout = 20 * time.Second

// stop asks a process to stop, and returns an error if it does not, or not well.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
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
