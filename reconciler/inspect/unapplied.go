// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"errors"
	"fmt"

	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/text"
)

// maxNamed bounds the keys that the error of an [Unapplied] names.
const maxNamed = 10

// Unapplied lists the objects that were not applied when a wait for them ended. The zero value lists
// none.
type Unapplied struct {
	// Keys are the keys of the objects. After reconciler.Loop.Wait these are the 100 keys that have
	// been unreconciled for the longest time, in that order. After reconciler.Loop.WaitFor these are
	// all of them, in the order of its arguments.
	Keys []Unreconciled
	// More is the number of further keys. Beyond about 10,000 they are not counted.
	More int
}

// Err returns an error that joins the errors of the first ten keys and counts the others. It returns
// nil if there are no keys.
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

// Unreconciled is a key that is not reconciled, with the reason. It is an error, so that a program can
// return it as one.
type Unreconciled struct {
	// Key is the primary key.
	Key index.Key
	// Deleted is true if the object waits for its deletion from the target.
	Deleted bool
	// State is the state of the object, as in its [Explanation].
	State State
	// Attempts is the number of failures in a row; also zero if the loop did not answer.
	Attempts int
	// Err has the text of the last failure, or the reason of a blocked object; nil if there is
	// neither. It is made from the text alone: it does not wrap the operation's error.
	Err error
}

// Error returns one line with the key, the state and the text of Err.
func (u Unreconciled) Error() string {
	line := text.Key(u.Key)
	if u.Deleted {
		line = "deletion of " + line
	}
	if u.State == StateNoStatus {
		line += " has no status"
	} else {
		line += ": " + string(u.State)
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
