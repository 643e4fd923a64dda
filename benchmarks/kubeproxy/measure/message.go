// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"bytes"
	"encoding/binary"
	"iter"

	"golang.org/x/sys/unix"
)

// generationHeader is the length of struct nfgenmsg, with which the payload of each message of nftables begins.
const generationHeader = 4

// messages returns the types and payloads of the netlink messages in b.
func messages(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlMsghdr {
			length := int(binary.NativeEndian.Uint32(b))
			if length < unix.SizeofNlMsghdr || length > len(b) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(b[4:]), b[unix.SizeofNlMsghdr:length]) {
				return
			}
			b = b[min(align(length), len(b)):]
		}
	}
}

// attributes returns the types and values of the attributes in b.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			length := int(binary.NativeEndian.Uint16(b))
			if length < unix.SizeofNlAttr || length > len(b) {
				return
			}
			kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if !yield(kind, b[unix.SizeofNlAttr:length]) {
				return
			}
			b = b[min(align(length), len(b)):]
		}
	}
}

// attribute returns the value of the attribute of a type in b, nil if there is none.
func attribute(b []byte, kind uint16) []byte {
	for k, value := range attributes(b) {
		if k == kind {
			return value
		}
	}
	return nil
}

func align(length int) int { return (length + unix.NLA_ALIGNTO - 1) &^ (unix.NLA_ALIGNTO - 1) }

// text returns a string attribute without the zero at its end.
func text(b []byte) []byte { return bytes.TrimSuffix(b, []byte{0}) }

// elements returns the elements in the payload of a message about elements of a set.
func elements(payload []byte) iter.Seq[Element] {
	return func(yield func(Element) bool) {
		if len(payload) < generationHeader {
			return
		}
		var e Element
		var list []byte
		for kind, value := range attributes(payload[generationHeader:]) {
			switch kind {
			case unix.NFTA_SET_ELEM_LIST_TABLE:
				e.Table = text(value)
			case unix.NFTA_SET_ELEM_LIST_SET:
				e.Set = text(value)
			case unix.NFTA_SET_ELEM_LIST_ELEMENTS:
				list = value
			}
		}
		for _, element := range attributes(list) {
			e.Key, e.Data, e.Verdict = nil, nil, nil
			for kind, value := range attributes(element) {
				switch kind {
				case unix.NFTA_SET_ELEM_KEY:
					e.Key = attribute(value, unix.NFTA_DATA_VALUE)
				case unix.NFTA_SET_ELEM_DATA:
					e.Data = attribute(value, unix.NFTA_DATA_VALUE)
					e.Verdict = text(attribute(attribute(value, unix.NFTA_DATA_VERDICT), unix.NFTA_VERDICT_CHAIN))
				}
			}
			if !yield(e) {
				return
			}
		}
	}
}

// immediates returns the values that a rule loads, in their order, from the payload of a message about it.
func immediates(payload []byte) (values [][]byte) {
	if len(payload) < generationHeader {
		return nil
	}
	for _, expression := range attributes(attribute(payload[generationHeader:], unix.NFTA_RULE_EXPRESSIONS)) {
		if string(text(attribute(expression, unix.NFTA_EXPR_NAME))) != "immediate" {
			continue
		}
		data := attribute(attribute(expression, unix.NFTA_EXPR_DATA), unix.NFTA_IMMEDIATE_DATA)
		if value := attribute(data, unix.NFTA_DATA_VALUE); value != nil {
			values = append(values, value)
		}
	}
	return values
}

// nftables returns the number of a message of nftables, without that of the subsystem, and whether it is one.
func nftables(kind uint16) (uint16, bool) { return kind & 0xff, kind>>8 == unix.NFNL_SUBSYS_NFTABLES }
