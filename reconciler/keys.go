// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// nameOf returns the text of an object's key, for people to read and to type. It is the
// first column of the row if the table's index makes the same key of that, the key itself
// if that is text, else the key in hexadecimal.
func (l *Loop[Obj]) nameOf(obj Obj) string {
	key := l.indexer.ObjectToKey(obj)
	if column, ok := firstColumn(obj); ok && !bytes.Equal(key, []byte(column)) {
		if read, ok := l.read(column); ok && bytes.Equal(key, read) {
			return plain(column)
		}
	}
	return l.rawName(key)
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

// rawName returns a key as text: as it is if it is plain text, quoted if it is text that a
// person could not type back, and else, or if the table's index makes another key of that
// text, in hexadecimal. rawKeys reads this key out of it first.
func (l *Loop[Obj]) rawName(key index.Key) string {
	if text := string(key); utf8.ValidString(text) && !strings.ContainsFunc(text, unprintable) {
		if read, ok := l.read(text); !ok || bytes.Equal(read, key) {
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

// keyReader returns how an index makes a key of a text, as the commands of statedb do; nil
// if it cannot. That is a field of statedb's indexes, which their interface does not have.
func keyReader(indexer any) func(text string) (index.Key, error) {
	v := reflect.ValueOf(indexer)
	if v.Kind() != reflect.Struct {
		return nil
	}
	field := v.FieldByName("FromString")
	if !field.IsValid() || !field.CanInterface() {
		return nil
	}
	from, _ := field.Interface().(func(string) (index.Key, error))
	return from
}

// read returns the key that the table's primary index makes of a text.
func (l *Loop[Obj]) read(text string) (key index.Key, ok bool) {
	if l.fromString == nil {
		return nil, false
	}
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	key, err := l.fromString(text)
	return key, err == nil
}

// byKey returns the row with a key.
func (l *Loop[Obj]) byKey(txn statedb.ReadTxn, key index.Key) (row Obj, revision statedb.Revision, found bool) {
	indexer, ok := l.indexer.(interface {
		QueryFromKey(index.Key) statedb.Query[Obj]
	})
	if !ok {
		return row, 0, false
	}
	row, revision, found = l.cfg.Table.Get(txn, indexer.QueryFromKey(key))
	return row, revision, found && bytes.Equal(l.indexer.ObjectToKey(row), key)
}

// rawKeys returns the keys that a text may mean, at least one, the likeliest first. A text in
// quotes does not mean itself, and one in hexadecimal does so last: else the name of one object
// would mean another whose key is that name.
func (l *Loop[Obj]) rawKeys(text string) (keys []index.Key) {
	add := func(text string) {
		if key, ok := l.read(text); ok {
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
