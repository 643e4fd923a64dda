// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package outcome

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/statekeel/statekeel/internal/text"
)

const (
	// MaxClass is how many bytes of a class count that a function of the program returns.
	MaxClass = 1024
	// classText is how much of a text its class is made from, maxPlainClass how long that is.
	classText     = 1024
	maxPlainClass = 120
)

// PlainClass returns a text without what tells one object from another: its digits, and the
// names of the object where they are words of their own.
func PlainClass(said string, names ...string) string {
	said = text.Short(said, classText)
	for _, name := range names {
		if name != "" {
			said = withoutWord(said, name)
		}
	}
	var b strings.Builder
	digits := false
	for _, r := range said {
		was := digits
		digits = r >= '0' && r <= '9'
		switch {
		case !digits:
			b.WriteRune(r)
		case !was:
			b.WriteByte('#')
		}
		if b.Len() >= maxPlainClass {
			return b.String() + "..."
		}
	}
	return b.String()
}

// withoutWord returns a text with "#" in place of a word, where neither a letter nor a digit is
// beside it.
func withoutWord(text, word string) string {
	var b strings.Builder
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			b.WriteString(text[from:])
			return b.String()
		}
		at += from
		end := at + len(word)
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[end:])
		b.WriteString(text[from:at])
		if at > 0 && isWordRune(before) || end < len(text) && isWordRune(after) {
			b.WriteString(word)
		} else {
			b.WriteByte('#')
		}
		from = end
	}
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
