// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// found is what the kernel has of a chain.
type found struct {
	exists bool
	hooked hooked
	rules  []foundRule
}

// hooked says how the kernel calls a chain. It is zero for one that is the target of elements.
type hooked struct {
	kind                   string
	hook, priority, policy uint32
}

// foundRule is a rule with its expressions as the kernel sends them.
type foundRule struct {
	comment string
	exprs   []attribute
}

// attribute is the content of an attribute with its kind.
type attribute struct {
	kind  int
	value []byte
}

// split returns the attributes of a list.
func split(buf []byte) (all []attribute, err error) {
	err = attributes(buf, func(kind int, value []byte, _ int) error {
		all = append(all, attribute{kind, bytes.Clone(value)})
		return nil
	})
	return all, err
}

// pick returns the first attribute of a kind in a list, or nil.
func pick(buf []byte, kind int) (picked []byte) {
	all, _ := split(buf)
	for _, a := range all {
		if a.kind == kind {
			return a.value
		}
	}
	return nil
}

// number decodes the first attribute of a kind, or returns zero.
func number(buf []byte, kind int) uint32 {
	if value := pick(buf, kind); len(value) == 4 {
		return binary.BigEndian.Uint32(value)
	}
	return 0
}

// text decodes the first attribute of a kind, or returns nothing.
func text(buf []byte, kind int) string { return string(bytes.TrimRight(pick(buf, kind), "\x00")) }

func (c chain) hooked() (h hooked) {
	if c.Hooknum != nil {
		h = hooked{string(c.Type), uint32(*c.Hooknum), uint32(*c.Priority), uint32(*c.Policy)}
	}
	return h
}

// find reads a chain.
func (t *single) find(name string) (f found, err error) {
	err = t.ask(unix.NFT_MSG_GETCHAIN, 0, unix.NFTA_CHAIN_NAME, name, nil, func(a answer) error {
		data := a.data[nfHeader:]
		hook := pick(data, unix.NFTA_CHAIN_HOOK)
		f.exists = true
		f.hooked = hooked{
			text(data, unix.NFTA_CHAIN_TYPE), number(hook, unix.NFTA_HOOK_HOOKNUM), number(hook, unix.NFTA_HOOK_PRIORITY),
			number(data, unix.NFTA_CHAIN_POLICY),
		}
		return nil
	})
	if errors.Is(err, unix.ENOENT) {
		return found{}, nil
	}
	if err == nil {
		err = t.ask(unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP, unix.NFTA_RULE_CHAIN, name, nil, func(a answer) (err error) {
			data := a.data[nfHeader:]
			var r foundRule
			r.comment, _ = userdata.GetString(pick(data, unix.NFTA_RULE_USERDATA), userdata.TypeComment)
			r.exprs, err = split(pick(data, unix.NFTA_RULE_EXPRESSIONS))
			f.rules = append(f.rules, r)
			return err
		})
	}
	if err != nil {
		err = fmt.Errorf("read chain %s: %w", name, err)
	}
	return f, err
}

// isOurs reports whether a rule is of this program, or of an older one.
func (r foundRule) isOurs() bool { return strings.HasPrefix(r.comment, program) }

// is reports whether the kernel's chain is the one that this program would write.
func (c chain) is(have found) bool {
	return have.exists && have.hooked == c.hooked() && slices.EqualFunc(c.rules, have.rules, func(want rule, have foundRule) bool {
		return have.comment == layout+want.comment && slices.EqualFunc(want.exprs, have.exprs, c.equal)
	})
}

// equal reports whether the kernel's expression is the one that is wanted.
func (c chain) equal(want expr.Any, have attribute) bool {
	message, err := expr.Marshal(byte(c.Table.Family), want)
	if err != nil || text(message, unix.NFTA_EXPR_NAME) != text(have.value, unix.NFTA_EXPR_NAME) {
		return false
	}
	decoded := reflect.New(reflect.TypeOf(want).Elem()).Interface().(expr.Any)
	err = expr.Unmarshal(byte(c.Table.Family), pick(have.value, unix.NFTA_EXPR_DATA), decoded)
	return err == nil && reflect.DeepEqual(want, decoded)
}

// wake makes the kernel call the chains of the table again, if another program has made it dormant.
func (t *single) wake() error {
	var flags uint32
	err := t.ask(unix.NFT_MSG_GETTABLE, 0, 0, "", nil, func(a answer) error {
		flags = number(a.data[nfHeader:], unix.NFTA_TABLE_FLAGS)
		return nil
	})
	const dormant = unix.NFT_TABLE_F_DORMANT
	switch {
	case errors.Is(err, unix.ENOENT) || err == nil && flags&dormant == 0:
		return nil
	case err == nil:
		// Some kernels refuse other changes of the chains in the same transaction.
		t.conn.AddTable(t.table)
		t.writes++
		err = t.conn.Flush()
	}
	if err != nil {
		return fmt.Errorf("wake table %s: %w", t, err)
	}
	return nil
}
