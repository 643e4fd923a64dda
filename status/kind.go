// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"fmt"
	"strconv"

	"github.com/cilium/statedb/index"
)

// Kind says where an object stands. Its text form, which JSON and YAML use too, both
// for values and for map keys, is the word of the constant's name ("Done"), and "" for
// [KindUnset].
type Kind uint8

const (
	// KindUnset is the zero Kind: nobody has asked for the object to be reconciled,
	// and no reconciler touches it.
	KindUnset Kind = iota

	// KindPending marks an object that the program wants reconciled.
	KindPending

	// KindRefreshing marks an unchanged object that is to be reconciled again, to
	// repair what may have drifted in the target.
	KindRefreshing

	// KindDone marks an object that the target has.
	KindDone

	// KindError marks an object whose last operation failed.
	KindError

	// KindBlocked marks an object that waits for something its operation named.
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

// kindKeys holds the one-byte index key of each Kind, and last that of every value that
// is none. Bytes 0 and 1 are left out: statedb escapes them, which doubles a key.
var kindKeys = [numKinds + 1]byte{
	KindUnset:      '?',
	KindPending:    'P',
	KindRefreshing: 'R',
	KindDone:       'D',
	KindError:      'E',
	KindBlocked:    'B',
	numKinds:       '!',
}

// String returns the word for the kind: "" for [KindUnset], and "Kind(n)" for a value
// that is none of the constants.
func (k Kind) String() string {
	if k >= numKinds {
		return "Kind(" + strconv.Itoa(int(k)) + ")"
	}
	return kindWords[k]
}

// Key returns the kind's index key: one byte, distinct for each of the constants, and
// one more that all other values share. It does not allocate; callers must not write to it.
func (k Kind) Key() index.Key {
	k = min(k, numKinds)
	return kindKeys[k : k+1 : k+1]
}

// MarshalText returns the kind's word. It fails for a value that is none of the constants.
func (k Kind) MarshalText() ([]byte, error) {
	if k >= numKinds {
		return nil, fmt.Errorf("status kind %d has no name", uint8(k))
	}
	return []byte(kindWords[k]), nil
}

// UnmarshalText sets the kind from its word; "" is [KindUnset]. It fails for any other
// word, naming it, and leaves the kind as it was.
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
