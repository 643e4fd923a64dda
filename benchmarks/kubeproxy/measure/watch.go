// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// destroyElement is NFT_MSG_DESTROYSETELEM: a deletion by a command that accepts that the element is missing.
const destroyElement = 30

// A first load of 100,000 elements arrives at once: 120 MB, as the kernel counts socket buffers.
const watchBuffer = 1 << 30

// Writes counts what the kernel said was written.
type Writes struct {
	Commits int
	Objects int // new and deleted elements, rules, sets, chains, and others
}

func (w Writes) minus(before Writes) Writes {
	return Writes{Commits: w.Commits - before.Commits, Objects: w.Objects - before.Objects}
}

// watcher reads what the kernel says about commits to the nftables of the network namespace, in a thread of its own:
// then what it takes can be told from what the contender takes.
type watcher struct {
	layout  Layout
	waiting *waiting
	// socket waits by Go's poller. A thread that waits in the kernel would keep Go's monitor busy, whose time counts as
	// the contender's: half a millisecond for each message.
	socket   *os.File
	stopping atomic.Bool
	thread   int
	done     chan struct{}

	mu     sync.Mutex
	writes Writes
	err    error
}

func watch(layout Layout, waiting *waiting) (*watcher, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open a socket to the kernel: %w", err)
	}
	err = errors.Join(
		os.NewSyscallError("bind a socket to the kernel",
			unix.Bind(socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})),
		os.NewSyscallError("enlarge the buffer",
			unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, watchBuffer)),
		os.NewSyscallError("join the group of nftables",
			unix.SetsockoptInt(socket, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_NFTABLES)),
	)
	if err != nil {
		return nil, errors.Join(err, unix.Close(socket))
	}
	w := &watcher{
		layout:  layout,
		waiting: waiting,
		socket:  os.NewFile(uintptr(socket), "netlink"),
		done:    make(chan struct{}),
	}
	conn, err := w.socket.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, w.socket.Close())
	}
	thread := make(chan int)
	go func() {
		// The thread ends with the goroutine, as it is never unlocked.
		runtime.LockOSThread()
		defer close(w.done)
		thread <- unix.Gettid()
		buffer := make([]byte, 1<<18)
		err := conn.Read(func(fd uintptr) bool { return w.receive(int(fd), buffer) })
		if err != nil && !w.stopping.Load() {
			w.fail(fmt.Errorf("wait for the kernel: %w", err))
		}
	}()
	w.thread = <-thread
	return w, nil
}

func (w *watcher) stop() error {
	w.stopping.Store(true)
	err := w.socket.Close()
	<-w.done
	return err
}

// receive handles the messages that are there, and returns false to wait for more.
func (w *watcher) receive(socket int, buffer []byte) (ended bool) {
	for {
		n, _, err := unix.Recvfrom(socket, buffer, unix.MSG_TRUNC)
		switch {
		case err == nil && n > len(buffer):
			w.fail(fmt.Errorf("a message of the kernel has %d bytes", n))
		case err == nil:
			w.handle(buffer[:n], time.Now())
		case err == unix.ENOBUFS:
			w.fail(errors.New("the kernel dropped messages about its changes: nothing after them can be measured"))
		case err == unix.EAGAIN:
			return false
		case err != unix.EINTR:
			w.fail(fmt.Errorf("receive from the kernel: %w", err))
			return true
		}
	}
}

// fail makes all who wait give up: without a message they would wait for ever.
func (w *watcher) fail(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
	}
	w.mu.Unlock()
	w.waiting.fail(err)
}

func (w *watcher) handle(b []byte, now time.Time) {
	var writes Writes
	for kind, payload := range messages(b) {
		kind, ok := nftables(kind)
		if !ok {
			continue
		}
		switch kind {
		case unix.NFT_MSG_NEWGEN:
			writes.Commits++
		case unix.NFT_MSG_NEWRULE:
			writes.Objects++
			if a, ok := w.layout.rule(payload); ok {
				w.waiting.sawEndpoint(a, now)
			}
		case unix.NFT_MSG_DELSETELEM, destroyElement:
			for range elements(payload) {
				writes.Objects++
			}
		case unix.NFT_MSG_NEWSETELEM:
			for e := range elements(payload) {
				writes.Objects++
				if a, ok := w.layout.Endpoint(e); ok {
					w.waiting.sawEndpoint(a, now)
				}
				if a, ok := w.layout.Service(e); ok {
					w.waiting.sawService(a, now)
				}
			}
		default:
			writes.Objects++
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes.Commits += writes.Commits
	w.writes.Objects += writes.Objects
}

// soFar returns what was written so far.
func (w *watcher) soFar() (Writes, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes, w.err
}
