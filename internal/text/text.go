// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package text renders what users read on a terminal: times, durations, tables, and names that other
// systems chose, which may be hostile. Its functions have no state.
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

// Plain returns s if it is printable and can be read as one cell of a table, else s quoted as in Go.
// So no control character reaches a terminal. [Unquote] returns s again.
func Plain(s string) string {
	if s == "" || !utf8.ValidString(s) || s[0] == '"' || s[0] == ' ' || s[len(s)-1] == ' ' ||
		strings.Contains(s, "  ") || strings.ContainsFunc(s, unprintable) {
		return strconv.Quote(s)
	}
	return s
}

// Printable returns s with the unprintable characters escaped as in Go, without quotes around it. It
// is for texts within sentences.
func Printable(s string) string {
	quoted := strconv.Quote(s)
	return unquoter.Replace(quoted[1 : len(quoted)-1])
}

// unquoter takes back what Go's quoting does to printable characters.
var unquoter = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

// Name returns a key in the form that the reconciler shows it, which is printable and can be typed. A
// key that is empty or not printable is quoted as in Go.
func Name(s string) string {
	if s == "" || Printable(s) != s {
		return strconv.Quote(s)
	}
	return s
}

// Key returns a primary key for users to read: quoted if it is printable, else in hexadecimal.
func Key(key []byte) string {
	if name := string(key); utf8.ValidString(name) && !strings.ContainsFunc(name, unprintable) {
		return strconv.Quote(name)
	}
	return fmt.Sprintf("0x%x", key)
}

// Unquote returns the text that [Plain] quoted.
func Unquote(s string) string {
	if strings.HasPrefix(s, `"`) {
		if unquoted, err := strconv.Unquote(s); err == nil {
			return unquoted
		}
	}
	return s
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// JSON returns v as indented JSON that ends with a newline. All other unprintable characters are
// escaped.
func JSON(v any) (string, error) {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return "", err
	}
	var out strings.Builder
	for _, r := range encoded.String() {
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
