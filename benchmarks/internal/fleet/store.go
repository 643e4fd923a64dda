// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/statekeel/statekeel/internal/tests/freeport"
)

// The server is a tool of the module with the tests of package etcd. It is built when the first store is made, and
// kept in the build cache: the programs and tests of the benchmarks need not contain it.
const (
	rootModule = "github.com/statekeel/statekeel"
	tests      = "internal/tests/real"
	tool       = "server"
)

// Store is an etcd of one member. Its methods must not be called at the same time.
type Store struct {
	dir, program string
	client, peer string

	cmd   *exec.Cmd
	stdin interface{ Close() error }
}

// NewStore builds the server, and starts it with an empty store. Call [Store.Close] to end it. The current
// folder must be in the module of the benchmarks.
func NewStore(ctx context.Context) (*Store, error) {
	dir, err := os.MkdirTemp("", "statekeel-bench-etcd-")
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir}
	if err = s.build(ctx); err == nil {
		err = s.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *Store) build(ctx context.Context) error {
	folder, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", rootModule).Output()
	if err != nil {
		return fmt.Errorf("find the module %s: %w", rootModule, err)
	}
	build := exec.CommandContext(ctx, "go", "tool", "-n", tool)
	build.Dir = filepath.Join(strings.TrimSpace(string(folder)), tests)
	var complaint strings.Builder
	build.Stderr = &complaint
	path, err := build.Output()
	if err != nil {
		return fmt.Errorf("build the etcd server: %w\n%s", err, complaint.String())
	}
	s.program = strings.TrimSpace(string(path))
	for _, to := range []*string{&s.client, &s.peer} {
		port, err := freeport.Get()
		if err != nil {
			return err
		}
		*to = fmt.Sprint("127.0.0.1:", port)
	}
	return nil
}

// Endpoint returns the address for clients.
func (s *Store) Endpoint() string { return s.client }

// Start starts the server with the data that it had. It returns when the server is ready.
func (s *Store) Start() error {
	cmd := exec.Command(s.program, "-dir", filepath.Join(s.dir, "data"), "-no-fsync=false",
		"-client", "http://"+s.client, "-peer", "http://"+s.peer, "-cluster", "one=http://"+s.peer)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		_ = cmd.Process.Kill()
		return fmt.Errorf("start etcd: %w\n%s", errors.Join(err, cmd.Wait()), complaint.String())
	}
	s.cmd, s.stdin = cmd, stdin
	return nil
}

// Kill ends the server without a warning. Its data stays.
func (s *Store) Kill() error {
	if s.cmd == nil {
		return nil
	}
	cmd := s.cmd
	s.cmd = nil
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
	_ = cmd.Wait() // the error is the kill
	return nil
}

// Close ends the server, and removes its data.
func (s *Store) Close() error { return errors.Join(s.Kill(), os.RemoveAll(s.dir)) }
