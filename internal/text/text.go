// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package text renders what a person reads on a terminal: times, durations, tables, and
// names that others chose, which may be hostile.
package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Plain returns s if it is printable and reads as one cell of a table, else s quoted as in
// Go, so that no control character reaches a terminal. [Unquote] gives s back.
func Plain(s string) string {
	if s == "" || !utf8.ValidString(s) || s[0] == '"' || s[0] == ' ' || s[len(s)-1] == ' ' ||
		strings.Contains(s, "  ") || strings.ContainsFunc(s, unprintable) {
		return strconv.Quote(s)
	}
	return s
}

// Printable returns s with what is not printable escaped as in Go, and without quotes: for
// sentences.
func Printable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if (r == utf8.RuneError && size == 1) || unprintable(r) {
			quoted := strconv.Quote(s[:size])
			out.WriteString(quoted[1 : len(quoted)-1])
		} else {
			out.WriteString(s[:size])
		}
		s = s[size:]
	}
	return out.String()
}

// Name returns a key as the reconciler told it, which is printable and can be typed back;
// one that is not printable, or empty, is quoted as in Go.
func Name(s string) string {
	if s == "" || Printable(s) != s {
		return strconv.Quote(s)
	}
	return s
}

// Unquote returns what [Plain] made a text of.
func Unquote(s string) string {
	if strings.HasPrefix(s, `"`) {
		if unquoted, err := strconv.Unquote(s); err == nil {
			return unquoted
		}
	}
	return s
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// JSON returns v as indented JSON that ends with a newline and has no character that is
// not printable but in escapes.
func JSON(v any) (string, error) {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return "", err
	}
	s := encoded.String()
	escapes := Escapes(s)
	if escapes == 0 {
		return s, nil
	}
	var out strings.Builder
	out.Grow(len(s) + escapes)
	for _, r := range s {
		switch {
		case r == '\n' || !unprintable(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String(), nil
}

// Escapes returns how many bytes [JSON] adds at the most to JSON of a text by escaping what is not
// printable, beside line breaks.
func Escapes(s string) (n int) {
	const longest = len(`\udb40\udc41`)
	for _, r := range s {
		if r >= 0x7f && unprintable(r) || r < ' ' && r != '\n' {
			n += longest
		}
	}
	return n
}
