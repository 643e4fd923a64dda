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
	// MaxClass bounds the bytes of a class.
	MaxClass = 120
	// classText bounds the bytes of a text that its class is made from.
	classText = 1024
)

// PlainClass returns the class of a text: the text with "#" in place of numbers and of the names of
// the object where these are separate words.
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
	}
	return text.Short(b.String(), MaxClass)
}

// withoutWord returns text with "#" in place of word where no letter or digit is beside it.
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
