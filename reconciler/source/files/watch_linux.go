// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package files

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/statekeel/statekeel/internal/signal"
)

// inotify tells when files of folders change, and whether their writers have closed them. Its methods are safe from any
// goroutine.
type inotify struct {
	file *os.File
	fd   int
	buf  []byte
	wake signal.Signal
	done chan struct{}

	mu sync.Mutex
	// folders are those that are watched, by the number of the watch; watches has the numbers, with the inode of each.
	folders map[int32]string
	watches map[string]watched
	// writers is what was seen of the writers of each file since it was asked for last.
	writers map[string]writer
	// lost reports whether events were lost since the last call of follow.
	lost bool
}

type watched struct {
	number int32
	info   os.FileInfo
}

const (
	// changes are the events that the kernel tells of a folder. Modifications wake nothing: the end of a writer does.
	changes = syscall.IN_MODIFY | wakes | syscall.IN_ONLYDIR
	wakes   = syscall.IN_CREATE | syscall.IN_CLOSE_WRITE | syscall.IN_MOVED_TO | syscall.IN_MOVED_FROM | syscall.IN_DELETE |
		syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF
)

// newWatcher returns a watcher that sends a signal when a file may have changed, or may be whole. It returns an error if
// the system has none left: see fs.inotify.max_user_instances.
func newWatcher(wake signal.Signal) (watcher, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	w := &inotify{
		file: os.NewFile(uintptr(fd), "inotify"), fd: fd, buf: make([]byte, 64<<10), wake: wake, done: make(chan struct{}),
		folders: map[int32]string{}, watches: map[string]watched{}, writers: map[string]writer{},
	}
	conn, err := w.file.SyscallConn()
	if err != nil {
		_ = w.file.Close()
		return nil, fmt.Errorf("inotify: %w", err)
	}
	go w.read(conn)
	return w, nil
}

// close ends the watcher.
func (w *inotify) close() {
	_ = w.file.Close() // it ends read
	<-w.done
}

// follow watches exactly these folders. It returns those of which it has not told all since the last call: they were not
// watched, or were replaced, or events were lost. The error is of the first one that cannot be watched.
func (w *inotify) follow(folders map[string]struct{}) (fresh map[string]struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh = map[string]struct{}{}
	if w.lost {
		maps.Copy(fresh, folders)
	}
	w.lost = false
	for folder, old := range w.watches {
		info, failed := os.Stat(folder)
		if _, wanted := folders[folder]; !wanted || failed != nil || !os.SameFile(info, old.info) {
			_, _ = syscall.InotifyRmWatch(w.fd, uint32(old.number)) // it may be gone
			w.forget(old.number)
		}
	}
	for folder := range folders {
		if _, is := w.watches[folder]; is {
			continue
		}
		// Before the watch: a folder that is put in its place then is noticed at the next look.
		info, failed := os.Stat(folder)
		number := -1
		if failed == nil {
			number, failed = syscall.InotifyAddWatch(w.fd, folder, changes)
		}
		if failed != nil {
			if !os.IsNotExist(failed) {
				fresh[folder] = struct{}{}
				err = cmp.Or(err, fmt.Errorf("inotify: %s: %w", folder, failed))
			}
			continue
		}
		w.folders[int32(number)], w.watches[folder] = folder, watched{int32(number), info}
		fresh[folder] = struct{}{}
	}
	return fresh, err
}

// forget forgets a watch, and what it has told. The caller holds mu.
func (w *inotify) forget(number int32) {
	folder, is := w.folders[number]
	if !is {
		return
	}
	delete(w.folders, number)
	if w.watches[folder].number == number {
		delete(w.watches, folder)
	}
	for path := range w.writers {
		if filepath.Dir(path) == folder {
			delete(w.writers, path)
		}
	}
}

// of returns what is known of the writers of a file.
func (w *inotify) of(path string) writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writers[path]
}

// take is of, and forgets it: what comes is of a change after the call. It knows of all changes before the call.
func (w *inotify) take(path string) writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.receive()
	was := w.writers[path]
	delete(w.writers, path)
	return was
}

// restore undoes take, unless there was a change since.
func (w *inotify) restore(path string, was writer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writers[path] == writerUnseen {
		w.writers[path] = was
	}
}

// read takes events until the watcher is closed.
func (w *inotify) read(conn syscall.RawConn) {
	defer close(w.done)
	_ = conn.Read(func(uintptr) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.receive()
		return false // wait for more
	})
}

// receive takes the events that are there. The caller holds mu, so that they stay in their order.
func (w *inotify) receive() {
	for {
		n, err := syscall.Read(w.fd, w.buf)
		if n <= 0 || err != nil {
			return
		}
		w.events(w.buf[:n])
	}
}

// events takes events. The caller holds mu.
func (w *inotify) events(events []byte) {
	for len(events) >= syscall.SizeofInotifyEvent {
		order := binary.NativeEndian
		number, mask := int32(order.Uint32(events)), order.Uint32(events[4:])
		length := int(order.Uint32(events[12:]))
		name := strings.TrimRight(string(events[syscall.SizeofInotifyEvent:][:length]), "\x00")
		events = events[syscall.SizeofInotifyEvent+length:]
		w.event(number, mask, name)
	}
}

// event takes an event. The caller holds mu.
func (w *inotify) event(number int32, mask uint32, name string) {
	if mask&(wakes|syscall.IN_Q_OVERFLOW|syscall.IN_IGNORED) != 0 {
		w.wake.Send()
	}
	if mask&syscall.IN_Q_OVERFLOW != 0 {
		clear(w.writers)
		w.lost = true
	}
	if mask&syscall.IN_IGNORED != 0 {
		w.forget(number)
	}
	folder, is := w.folders[number]
	if !is || name == "" || mask&syscall.IN_ISDIR != 0 {
		return
	}
	path := filepath.Join(folder, name)
	switch {
	case mask&(syscall.IN_CLOSE_WRITE|syscall.IN_MOVED_TO) != 0:
		w.writers[path] = writerClosed
	case mask&syscall.IN_MODIFY != 0:
		w.writers[path] = writerWrites
	case mask&syscall.IN_CREATE != 0:
		w.writers[path] = writerCreated
	case mask&(syscall.IN_DELETE|syscall.IN_MOVED_FROM) != 0:
		delete(w.writers, path)
	}
}

// isWritten reports whether a program has a file open for writing, and whether that can be known: the kernel gives a
// lease only while none has. It does not for the file of another user without CAP_LEASE, nor on most network
// file systems.
func isWritten(file *os.File) (is, known bool) {
	fcntl := func(command, argument uintptr) syscall.Errno {
		_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), command, argument)
		return errno
	}
	// A program that opens the file while the lease is held, for a few microseconds, waits, and the kernel tells it
	// with a signal: with the one that Go's runtime sends itself all the time, and not with SIGIO, which a program may
	// have asked for.
	_ = fcntl(syscall.F_SETSIG, uintptr(syscall.SIGURG))
	switch fcntl(syscall.F_SETLEASE, syscall.F_RDLCK) {
	case 0:
		_ = fcntl(syscall.F_SETLEASE, syscall.F_UNLCK) // closing the file ends it, too
		return false, true
	case syscall.EAGAIN:
		return true, true
	}
	return false, false
}
