// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"strconv"
	"strings"

	"github.com/statekeel/statekeel/internal/text"
)

// The client of hive's shell reads marks at the end of a line, and at the end of each 4096 bytes of a
// long line: they report the end of an answer, its failure and the kind of its output. It cannot
// distinguish them from the same text in a key or an error, so guard escapes the last character of
// every mark in our texts.
var (
	guardText = strings.NewReplacer("<<end>>", `<<end>\x3e`, "<<error>>", `<<error>\x3e`, "[stdout]", `[stdout\x5d`, "[stderr]", `[stderr\x5d`)
	guardJSON = strings.NewReplacer("<<end>>", `<<end>\u003e`, "<<error>>", `<<error>\u003e`, "[stdout]", `[stdout\u005d`, "[stderr]", `[stderr\u005d`)
)

// guard returns s with its marks escaped.
func guard(by *strings.Replacer, s string) string {
	// The replacer is slow for a long text, and few texts have a mark.
	if !strings.Contains(s, "<<") && !strings.Contains(s, "[std") {
		return s
	}
	return by.Replace(s)
}

// maxError bounds the bytes of an error. The shell appends its mark to the last line of the error. The
// client does not find a mark that is cut in two at 4096 bytes, and would report a success.
const maxError = 2048

// shellError is an error with a text that is safe for the shell: printable lines, no marks, and at most
// maxError bytes.
type shellError struct{ err error }

func (e shellError) Unwrap() error { return e.err }

func (e shellError) Error() string {
	lines := strings.Split(e.err.Error(), "\n")
	for i, line := range lines {
		lines[i] = text.Printable(line)
	}
	return text.Cut(guardText.Replace(strings.Join(lines, "\n")), maxError)
}

// keyName returns a key as it is shown and can be typed again: [text.Name] of it, and quoted if it
// contains a mark of the shell.
func keyName(key string) string {
	name := text.Name(key)
	if guardText.Replace(name) == name {
		return name
	}
	if !strings.HasPrefix(name, `"`) {
		name = strconv.Quote(name)
	}
	return guardText.Replace(name)
}
