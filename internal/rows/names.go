// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package rows

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// Name returns an object's key as a text for users to read and to type. It is the first column of the
// row if the primary index makes the same key of that text, else [Rows.KeyName] of the key.
func (r *Rows[Obj]) Name(obj Obj) string {
	key := r.Key(obj)
	if column, ok := firstColumn(obj); ok && !bytes.Equal(key, []byte(column)) {
		if read, ok := r.read(column); ok && bytes.Equal(key, read) {
			return plain(column)
		}
	}
	return r.KeyName(key)
}

// firstColumn returns the first column of obj as [statedb.TableWritable]; false if it has none.
func firstColumn(obj any) (column string, ok bool) {
	// A nil object, no columns, or a panic in the user's method, must not stop the caller.
	defer func() { _ = recover() }()
	return obj.(statedb.TableWritable).TableRow()[0], true
}

// KeyName returns a key as a text for which [Rows.Keys] returns this key first. It is the key itself
// if that is printable and one word, quoted if it is printable only, else in hexadecimal. It is also
// in hexadecimal if the table's index makes another key of the printable text.
func (r *Rows[Obj]) KeyName(key index.Key) string {
	if text := string(key); utf8.ValidString(text) && !strings.ContainsFunc(text, unprintable) {
		if read, ok := r.read(text); !ok || bytes.Equal(read, key) {
			return plain(text)
		}
	}
	return "0x" + hex.EncodeToString(key)
}

// plain returns text, quoted unless it is one printable word that cannot be taken for hexadecimal.
func plain(text string) string {
	special := func(r rune) bool { return unicode.IsSpace(r) || unprintable(r) || r == '"' || r == '\\' || r == '\'' }
	if text == "" || strings.HasPrefix(text, "0x") || strings.ContainsFunc(text, special) || !utf8.ValidString(text) {
		return strconv.Quote(text)
	}
	return text
}

// read returns the key that the table's primary index makes of a text; false if it cannot.
func (r *Rows[Obj]) read(text string) (key index.Key, ok bool) {
	if r.fromString == nil {
		return nil, false
	}
	defer func() { _ = recover() }()
	key, err := r.fromString(text)
	return key, err == nil
}

// Keys returns the keys that a text may mean, the most likely first, at least one. A quoted text
// never means the text with its quotes, and a text in hexadecimal means the digits themselves only as
// the last choice: otherwise the name of one object could mean another object that has this name as
// its key.
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

// Named looks up the row that a text names. The key is the first of [Rows.Keys] that has a row or is known; the first of all
// if there is none. No key is known if known is nil.
func (r *Rows[Obj]) Named(txn statedb.ReadTxn, text string, known func(index.Key) bool) (key index.Key, row Obj, revision statedb.Revision, found bool) {
	keys := r.Keys(text)
	for _, key = range keys {
		if row, revision, found = r.ByKey(txn, key); found || known != nil && known(key) {
			return key, row, revision, found
		}
	}
	return keys[0], row, 0, false
}

// Find is [Rows.Named] without the row. If there is none, the revision is that of the table.
func (r *Rows[Obj]) Find(txn statedb.ReadTxn, text string) (key index.Key, revision statedb.Revision, found bool) {
	if key, _, revision, found = r.Named(txn, text, nil); !found {
		revision = r.Table.Revision(txn)
	}
	return key, revision, found
}

// Names returns the names of up to limit rows that begin with a prefix, of the first rows of the table, at
// most scan.
func (r *Rows[Obj]) Names(prefix string, limit, scan int) (names []string) {
	for row := range r.Table.All(r.DB.ReadTxn()) {
		if scan == 0 || len(names) >= limit {
			break
		}
		scan--
		if name := r.Name(row); strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
