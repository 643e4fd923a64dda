// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package outcome

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/text"
)

const (
	// MaxClass bounds the bytes of a class.
	MaxClass = 120
	// classText bounds the bytes of a text that its class is made from.
	classText = 1024
)

// Class returns the class of the text of a failure of obj. The text's parts that name the object are replaced:
// its name, and its key if the name is the key in quotes or in hexadecimal. It calls functions of the program.
func Class[Obj any](of *rows.Rows[Obj], said string, obj Obj) string {
	name, key := of.Name(obj), of.Key(obj)
	if name == of.KeyName(key) {
		return plainClass(said, name, string(key))
	}
	return plainClass(said, name)
}

// plainClass returns the class of a text: the text with "#" in place of numbers and of the names of
// the object where these are separate words.
func plainClass(said string, names ...string) string {
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
	for {
		before, rest, found := strings.Cut(text, word)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		last, _ := utf8.DecodeLastRuneInString(b.String())
		next, _ := utf8.DecodeRuneInString(rest)
		if isWordRune(last) || isWordRune(next) {
			b.WriteString(word)
		} else {
			b.WriteByte('#')
		}
		text = rest
	}
}

// isWordRune is false for the rune that stands for none.
func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
