// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build unix

package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Dir is the absolute path of the directory of a running fleet. It belongs to this user alone: a
// connection to one of its sockets may do all that the fleet can.
type Dir string

// DefaultDir returns a directory with the number of this user below that for temporary files.
func DefaultDir() Dir { return Dir(filepath.Join(os.TempDir(), "fleet-"+strconv.Itoa(os.Geteuid()))) }

func (d Dir) in(name string) string { return filepath.Join(string(d), name) }

// Store returns the URL of the store.
func (d Dir) Store() string { return "unix://" + d.socket() }

// Shell returns the path of the socket of the shell of an agent.
func (d Dir) Shell(agent string) string { return d.in(agent + shellSuffix) }

const shellSuffix = ".shell.sock"

// Log returns the path of the log of all processes.
func (d Dir) Log() string { return d.in("log") }

func (d Dir) data() string    { return d.in("data") }
func (d Dir) socket() string  { return d.in("store.sock") }
func (d Dir) control() string { return d.in("control.sock") }

// maxDir is the longest path of a Dir: that of a socket may have 107 bytes.
const maxDir = 60

// create creates the directory, and locks it: it is that of this fleet until the file is closed. What a fleet
// left there that was killed is removed.
func (d Dir) create() (lock *os.File, err error) {
	if !filepath.IsAbs(string(d)) {
		return nil, fmt.Errorf("directory %q: the path is not absolute", d)
	}
	if len(d) > maxDir {
		return nil, fmt.Errorf("directory %q: the path has more than %d bytes", d, maxDir)
	}
	if err := os.Mkdir(string(d), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	if lock, err = os.Open(string(d)); err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = fmt.Errorf("a fleet runs in %q already: %w", d, err)
	} else {
		err = d.empty()
	}
	if err != nil {
		_ = lock.Close() // nothing was written
		return nil, err
	}
	return lock, nil
}

// check returns an error unless the directory belongs to this user and is closed to others.
func (d Dir) check() error {
	info, err := os.Lstat(string(d))
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || info.Mode().Perm()&0o077 != 0 || int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%q is not a directory of this user that is closed to others", d)
	}
	return nil
}

// empty removes what a fleet makes, and nothing else.
func (d Dir) empty() error {
	shells, err := filepath.Glob(d.Shell("*"))
	errs := []error{err}
	for _, path := range append(shells, d.socket(), d.data(), d.control(), d.Log()) {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

// remove removes the directory, unless something in it is not of a fleet.
func (d Dir) remove() error { return errors.Join(d.empty(), os.Remove(string(d))) }
