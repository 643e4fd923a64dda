// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"strconv"
	"strings"

	"github.com/statekeel/statekeel/internal/text"
)

// The client of hive's shell reads the end of an answer, its failure and the kind of its
// output from marks at the end of a line, and of each 4096 bytes of a long line. There is no
// way to tell its marks from those in our texts, so ours have their last character escaped,
// wherever in a line they are.
var (
	guardText = strings.NewReplacer("<<end>>", `<<end>\x3e`, "<<error>>", `<<error>\x3e`, "[stdout]", `[stdout\x5d`, "[stderr]", `[stderr\x5d`)
	guardJSON = strings.NewReplacer("<<end>>", `<<end>\u003e`, "<<error>>", `<<error>\u003e`, "[stdout]", `[stdout\u005d`, "[stderr]", `[stderr\u005d`)
)

// guard returns a text with its marks escaped.
func guard(by *strings.Replacer, s string) string {
	// The replacer takes its time for a long text, and hardly any has a mark.
	if !strings.Contains(s, "<<") && !strings.Contains(s, "[std") {
		return s
	}
	return by.Replace(s)
}

// maxError bounds the bytes of an error. The shell appends its mark to the error's last line,
// and the client misses a mark that is cut in two at 4096 bytes: the failure would pass for a
// success.
const maxError = 2048

// shellError is an error whose text neither looks like a mark of the shell nor hides one, and
// whose lines are printable.
type shellError struct{ err error }

func (e shellError) Unwrap() error { return e.err }

func (e shellError) Error() string {
	lines := strings.Split(e.err.Error(), "\n")
	for i, line := range lines {
		lines[i] = text.Printable(line)
	}
	return text.Cut(guardText.Replace(strings.Join(lines, "\n")), maxError)
}

// keyName returns a key as it is shown and can be typed back: as [text.Name] does, and quoted
// if it looks like a mark of the shell.
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
