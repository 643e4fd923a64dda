// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"errors"
	"fmt"

	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/text"
)

// maxNamed bounds the keys that an error names.
const maxNamed = 10

// Unapplied lists the objects that a wait was for and that were not applied when it ended. The
// zero value: none.
type Unapplied struct {
	// Keys are those keys: of reconciler.Loop.Wait the 100 that have been unreconciled the
	// longest, in that order, of reconciler.Loop.WaitFor all, in the order of its arguments.
	Keys []Unreconciled
	// More is how many further keys there are, counted up to 10,000 or so.
	More int
}

// Err returns an error that names some of the keys, each with its own error, and counts
// the others; nil if there are none.
func (o Unapplied) Err() error {
	var errs []error
	for i, u := range o.Keys {
		if i == maxNamed {
			break
		}
		errs = append(errs, u)
	}
	if omitted := len(o.Keys) + o.More - len(errs); omitted > 0 {
		errs = append(errs, fmt.Errorf("%d further keys are not reconciled", omitted))
	}
	return errors.Join(errs...)
}

// Unreconciled is a key that is not reconciled, and why. It is an error, for those who
// want to return it as one.
type Unreconciled struct {
	// Key is the primary key.
	Key index.Key
	// Deleted: it is to leave the target.
	Deleted bool
	// State is where it is, as an [Explanation] says of its object.
	State State
	// Attempts is how many attempts in a row have failed; zero, too, if the reconciler
	// was too busy to be asked.
	Attempts int
	// Err is the text of the last failure, or the reason of a blocked row; nil if there
	// is neither. It is made of a text: it wraps nothing.
	Err error
}

// Error returns one line with the key, the state and the error.
func (u Unreconciled) Error() string {
	line := rows.KeyText(u.Key)
	if u.Deleted {
		line = "deletion of " + line
	}
	if u.State == StateNoStatus {
		line += " has no status"
	} else {
		line += " is " + string(u.State)
	}
	if u.State == StateRetry {
		line = fmt.Sprintf("%s after %d attempt(s)", line, u.Attempts)
	}
	if u.Err != nil {
		line += ": " + text.Printable(u.Err.Error())
	}
	return line
}

// Unwrap returns Err.
func (u Unreconciled) Unwrap() error { return u.Err }
