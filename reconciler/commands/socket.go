// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Anyone who can connect to a socket can do what the program can do, and anyone who can replace it receives what a user
// types. So a socket is in a directory that only its user can access.

// SocketPath returns the path of a program's socket: in $XDG_RUNTIME_DIR, or else in a directory with the user's number
// below the directory for temporary files.
func SocketPath(program string) string {
	if directory := os.Getenv("XDG_RUNTIME_DIR"); directory != "" {
		return filepath.Join(directory, program+".sock")
	}
	return filepath.Join(os.TempDir(), program+"-"+strconv.Itoa(os.Getuid()), "socket")
}

// maxSocketPath is the longest path of a Unix socket on Linux.
const maxSocketPath = 107

// PrepareSocket creates the directory of a socket if it is missing, and checks it as [CheckSocket] does. It returns an error
// if a program listens on the socket, or the path is too long for one. [Serve] calls it; a program that listens by
// itself, as with hive's shell, calls it before.
func PrepareSocket(path string) error {
	if len(path) > maxSocketPath {
		return fmt.Errorf("the path of the socket, %q, has %d bytes, must be at most %d", path, len(path), maxSocketPath)
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("directory of the socket: %w", err)
	}
	if err := CheckSocket(path); err != nil {
		return err
	}
	return checkUnused(path)
}

// checkUnused returns an error if a program listens on a socket.
func checkUnused(path string) error {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil
	}
	_ = conn.Close()
	return fmt.Errorf("another program listens on %q", path)
}

// CheckSocket returns an error unless the directory of a socket is a directory, not a symbolic link, belongs to this user
// and is closed to all others. It does not check the directories above: the sticky bit of /tmp keeps others from
// renaming it. [Client] calls it before it connects.
func CheckSocket(path string) error {
	directory := filepath.Dir(path)
	info, err := os.Lstat(directory)
	switch {
	case err != nil:
		return fmt.Errorf("directory of the socket: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%q, for the socket, is not a directory", directory)
	case !isOurs(info):
		return fmt.Errorf("directory %q, for the socket, belongs to another user", directory)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("directory %q, for the socket, is open to others: its mode is %#o, must be 0700", directory, info.Mode().Perm())
	}
	return nil
}

// listen listens on a socket. A socket that a killed program has left behind is replaced. close ends that, and removes the
// socket unless another program's has taken its place.
func listen(path string) (listener *net.UnixListener, close func(), err error) {
	if err := PrepareSocket(path); err != nil {
		return nil, nil, err
	}
	// Of two programs that find an old socket, the second one finds the socket of the first.
	unlock, err := lock(filepath.Dir(path))
	if err != nil {
		return nil, nil, fmt.Errorf("lock the directory of the socket: %w", err)
	}
	defer unlock()
	switch info, err := os.Lstat(path); {
	case err == nil && info.Mode().Type() != fs.ModeSocket:
		return nil, nil, fmt.Errorf("%q, for the socket, is a file of another kind", path)
	case err == nil:
		if err := checkUnused(path); err != nil {
			return nil, nil, err
		}
		if err := os.Remove(path); err != nil {
			return nil, nil, fmt.Errorf("remove an old socket: %w", err)
		}
	}
	listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		return nil, nil, err
	}
	listener.SetUnlinkOnClose(false)
	ours, err := os.Lstat(path)
	return listener, func() {
		if now, gone := os.Lstat(path); err == nil && gone == nil && os.SameFile(ours, now) {
			_ = os.Remove(path)
		}
		_ = listener.Close()
	}, nil
}
