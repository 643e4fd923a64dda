// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/reconciler"
)

// classed returns the outcome of an update that the kernel rejected with err. The outcome is terminal, until
// the object changes, if the kernel would reject it again; otherwise it is retried. Where another program
// may have been faster, the caller checks again before it uses this. Deletions are never terminal: no row
// would show that they were given up.
func classed(err error) error {
	if final(err) {
		return reconciler.TerminalError(err)
	}
	return err
}

// final reports whether a retry cannot help. Unknown errors are retried: a useless retry every few seconds
// costs less than an object that waits for ever.
func final(err error) bool {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case unix.EINVAL, unix.ERANGE:
		// The kernel rejects the object as invalid.
		return true
	case unix.EEXIST:
		// An object of the kernel's own is in its place.
		return true
	case unix.ENODEV:
		// The link exists, as the caller has checked, but does not support this.
		return true
	case unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT:
		// The kernel, or this kind of link, does not support this.
		return true
	case unix.EPERM:
		// This process has no permission, and will not get it.
		return true
	}
	// Mostly EBUSY, EAGAIN, EINTR, ENOBUFS, ENOMEM, ETIMEDOUT, which are temporary. EACCES: IPv6 may be off
	// for a link, and a sysctl may turn it on. ENETDOWN, ENETUNREACH, EHOSTUNREACH: the address or route to
	// the gateway may follow. EROFS: a user may mount /proc/sys again.
	return false
}
