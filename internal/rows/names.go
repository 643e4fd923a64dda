// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package rows

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// Name returns the text of an object's key, for people to read and to type. It is the
// first column of the row if the table's index makes the same key of that, the key itself
// if that is text, else the key in hexadecimal.
func (r *Rows[Obj]) Name(obj Obj) string {
	key := r.Key(obj)
	if column, ok := firstColumn(obj); ok && !bytes.Equal(key, []byte(column)) {
		if read, ok := r.read(column); ok && bytes.Equal(key, read) {
			return plain(column)
		}
	}
	return r.KeyName(key)
}

// firstColumn returns the first column of the object's row in a table for people, if it
// has one.
func firstColumn(obj any) (column string, ok bool) {
	// A nil object, or a method that panics, is not to take the reader down.
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	w, ok := obj.(statedb.TableWritable)
	if !ok {
		return "", false
	}
	row := w.TableRow()
	if len(row) == 0 {
		return "", false
	}
	return row[0], true
}

// KeyName returns a key as text: as it is if it is plain text, quoted if it is text that a
// person could not type back, and else, or if the table's index makes another key of that
// text, in hexadecimal. [Rows.Keys] reads this key out of it first.
func (r *Rows[Obj]) KeyName(key index.Key) string {
	if text := string(key); utf8.ValidString(text) && !strings.ContainsFunc(text, unprintable) {
		if read, ok := r.read(text); !ok || bytes.Equal(read, key) {
			return plain(text)
		}
	}
	return "0x" + hex.EncodeToString(key)
}

// plain returns a text as it is, unless it has to be quoted to be one word.
func plain(text string) string {
	special := func(r rune) bool { return unicode.IsSpace(r) || unprintable(r) || r == '"' || r == '\\' || r == '\'' }
	if text == "" || strings.HasPrefix(text, "0x") || strings.ContainsFunc(text, special) || !utf8.ValidString(text) {
		return strconv.Quote(text)
	}
	return text
}

// read returns the key that the table's primary index makes of a text.
func (r *Rows[Obj]) read(text string) (key index.Key, ok bool) {
	if r.fromString == nil {
		return nil, false
	}
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	key, err := r.fromString(text)
	return key, err == nil
}

// Keys returns the keys that a text may mean, at least one, the likeliest first. A text in
// quotes does not mean itself, and one in hexadecimal does so last: else the name of one object
// would mean another whose key is that name.
func (r *Rows[Obj]) Keys(text string) (keys []index.Key) {
	add := func(text string) {
		if key, ok := r.read(text); ok {
			keys = append(keys, key)
		}
	}
	if unquoted, err := strconv.Unquote(text); err == nil && strings.HasPrefix(text, `"`) {
		add(unquoted)
		return append(keys, index.Key(unquoted))
	}
	if digits, ok := strings.CutPrefix(text, "0x"); ok {
		if key, err := hex.DecodeString(digits); err == nil {
			keys = append(keys, key)
		}
	}
	add(text)
	return append(keys, index.Key(text))
}

// KeyText returns a key for people to read: as it is if it is text, else in hexadecimal.
func KeyText(key []byte) string {
	if name := string(key); utf8.ValidString(name) && !strings.ContainsFunc(name, unprintable) {
		return strconv.Quote(name)
	}
	return fmt.Sprintf("0x%x", key)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
