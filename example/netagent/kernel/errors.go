// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"errors"
	"slices"

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

// final reports whether a retry cannot help: the kernel rejects the object as invalid, or it or the link does not support
// this, or this process has no permission. Other errors are retried, mostly EBUSY, EAGAIN, EINTR, ENOBUFS, ENOMEM,
// ETIMEDOUT, which are temporary. EEXIST: what is in the place may go. EROFS: a user may mount /proc/sys again. A useless
// retry every few seconds costs less than an object that waits for ever.
func final(err error) bool {
	var errno unix.Errno
	return errors.As(err, &errno) && slices.Contains(finals, errno)
}

// ENODEV: the link exists, as the caller has checked, but does not support this.
var finals = []unix.Errno{
	unix.EINVAL, unix.ERANGE, unix.ENODEV, unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT, unix.EPERM,
}
