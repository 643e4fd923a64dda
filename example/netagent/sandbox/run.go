// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// self is this program, even if its file was moved or replaced.
const self = "/proc/self/exe"

// Run runs this program again in new namespaces, with the given arguments (without its name) and open files,
// which become descriptors 3 and up. Standard output and error are shared. It waits for the end and returns
// the exit code, or 128 plus the signal's number if a signal ended the process.
//
// Signals that ask to stop are passed on. If this process is killed, the other one gets SIGTERM. An error
// means that the process did not start, and says what to do.
func Run(args []string, files ...*os.File) (exitCode int, err error) {
	outside, err := ownNamespaces()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), environment+"="+outside.String())
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		Pdeathsig:   syscall.SIGTERM,
	}

	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)

	// Pdeathsig is sent when the thread that started the process ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 0, explain(err, readProcSys)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case s := <-signals:
				// An error means that the process has already ended.
				_ = cmd.Process.Signal(s)
			case <-ended:
				return
			}
		}
	}()
	return exitCodeOf(cmd.Wait())
}

func exitCodeOf(err error) (int, error) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}

// environment is the variable that marks the inner process, with the namespaces of the outer one.
const environment = "NETAGENT_STARTED_FROM"

// initialUser is the user namespace of the host, whose number never changes.
const initialUser = "user:[4026531837]"

// Inside reports whether [Run] started this process. It returns an error if the variable says so and the
// process is not in new namespaces: it must not change the network then.
func Inside() (bool, error) {
	outside := os.Getenv(environment)
	if outside == "" {
		return false, nil
	}
	here, err := ownNamespaces()
	if err == nil {
		err = checkNew(here, outside)
	}
	if err != nil {
		return false, err
	}
	return true, os.Unsetenv(environment)
}

// checkNew returns an error if the namespaces are not different from those of the process that started this
// one.
func checkNew(here namespaces, outside string) error {
	var from namespaces
	if _, err := fmt.Sscan(outside, &from.user, &from.net); err != nil {
		return fmt.Errorf("%s is %q, which names no namespaces: unset it", environment, outside)
	}
	if here.user == from.user || here.user == initialUser || here.net == from.net {
		return fmt.Errorf("%s is set, but this process is not in namespaces of its own: unset it", environment)
	}
	return nil
}

// namespaces names the user and the network namespace.
type namespaces struct{ user, net string }

func (n namespaces) String() string { return n.user + " " + n.net }

func ownNamespaces() (n namespaces, err error) {
	var userErr, netErr error
	n.user, userErr = os.Readlink("/proc/self/ns/user")
	n.net, netErr = os.Readlink("/proc/self/ns/net")
	if err := errors.Join(userErr, netErr); err != nil {
		return n, fmt.Errorf("find out in which namespaces this is: %w", err)
	}
	return n, nil
}
