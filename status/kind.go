// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"fmt"
	"strconv"

	"github.com/cilium/statedb/index"
)

// Kind is the state of an object for one reconciler. Its text form is the word of the constant's
// name ("Done"), and "" for [KindUnset]; JSON and YAML use it for values and for map keys.
type Kind uint8

const (
	// KindUnset is the zero Kind: the object was never marked to be reconciled, and reconcilers
	// leave it alone.
	KindUnset Kind = iota

	// KindPending marks an object that the program wants reconciled.
	KindPending

	// KindRefreshing marks an unchanged object to be reconciled again, against drift of the target.
	KindRefreshing

	// KindDone marks an object that is in the target.
	KindDone

	// KindError marks an object whose last operation failed.
	KindError

	// KindBlocked marks an object whose operation waits for something that it named.
	KindBlocked

	// numKinds is the first value that is no Kind.
	numKinds
)

// kindWords holds the text of each Kind.
var kindWords = [numKinds]string{
	KindUnset:      "",
	KindPending:    "Pending",
	KindRefreshing: "Refreshing",
	KindDone:       "Done",
	KindError:      "Error",
	KindBlocked:    "Blocked",
}

// kindKeys holds the one-byte index key of each Kind, and last the key of every invalid value.
// Bytes 0 and 1 are not used: statedb escapes them, which doubles the key.
var kindKeys = [numKinds + 1]byte{
	KindUnset:      '?',
	KindPending:    'P',
	KindRefreshing: 'R',
	KindDone:       'D',
	KindError:      'E',
	KindBlocked:    'B',
	numKinds:       '!',
}

// String returns the word of the kind: "" for [KindUnset], and "Kind(n)" for an invalid value.
func (k Kind) String() string {
	if k >= numKinds {
		return "Kind(" + strconv.Itoa(int(k)) + ")"
	}
	return kindWords[k]
}

// Key returns the kind's index key: one byte, distinct for each constant; all invalid values share
// one more. It does not allocate. Callers must not write to the key.
func (k Kind) Key() index.Key {
	k = min(k, numKinds)
	return kindKeys[k : k+1 : k+1]
}

// MarshalText returns the kind's word. It returns an error for an invalid value.
func (k Kind) MarshalText() ([]byte, error) {
	if k >= numKinds {
		return nil, fmt.Errorf("status kind %d has no name", uint8(k))
	}
	return []byte(kindWords[k]), nil
}

// UnmarshalText sets the kind from its word; "" is [KindUnset]. For any other word it returns an
// error with the word, and does not change the kind.
func (k *Kind) UnmarshalText(text []byte) error {
	kind, err := parseKind(string(text))
	if err != nil {
		return err
	}
	*k = kind
	return nil
}

// parseKind is the inverse of [Kind.String].
func parseKind(word string) (Kind, error) {
	for kind, known := range kindWords {
		if word == known {
			return Kind(kind), nil
		}
	}
	return KindUnset, fmt.Errorf("unknown status kind %q, want one of %q", word, kindWords)
}
