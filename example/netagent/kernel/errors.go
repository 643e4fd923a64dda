// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/reconciler"
)

// classed returns the outcome of an update of a link that the kernel rejected with err. The outcome is terminal, until
// the object changes, if the kernel would reject it again; otherwise it is retried. Addresses and routes are always
// retried: see failedOn. Deletions are never terminal: no row would show that they were given up.
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
	// Mostly EBUSY, EAGAIN, EINTR, ENOBUFS, ENOMEM, ETIMEDOUT, which are temporary. EEXIST: what is in the place
	// may go. EROFS: a user may mount /proc/sys again.
	return false
}
