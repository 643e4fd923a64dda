// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

import (
	"fmt"
	"strings"
)

// width is the longest line of a paragraph. Tables may be wider.
const width = 124

const head = `# Compatibility

<!-- Written by "go test ./internal/tests/compat -update" from the tables in that folder. Do not edit. -->

`

const introduction = "The names of five other reconcilers (\"there\") in Statekeel (\"here\"): first those that mean the same, " +
	"then those with another name, shape or behaviour here, or none (-). A name here is in the package of the section, unless " +
	"it names another. `T: M` stands for `T` and `T.M`."

// page returns docs/COMPATIBILITY.md.
func page() string {
	var b strings.Builder
	b.WriteString(head)
	b.WriteString(wrap(introduction))
	for _, s := range systems {
		s.write(&b)
	}
	return b.String()
}

func (s system) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n", s.title)
	b.WriteString(wrap(s.about + " The same: " + cells(s.same) + "."))
	b.WriteString("\n| There | Here | Why |\n|---|---|---|\n")
	for _, r := range s.rows {
		here := cell(r.here)
		if r.here == r.there {
			here = "same name"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", cell(r.there), here, r.why)
	}
	b.WriteString(s.further)
}

// cells returns lists of names as a sentence.
func cells(lists []string) string {
	var all []string
	for _, list := range lists {
		all = append(all, cell(list))
	}
	return strings.Join(all, "; ")
}

// cell returns a list of names as a cell of a table.
func cell(list string) string {
	if list == "" {
		return "-"
	}
	return "`" + strings.ReplaceAll(list, "; ", "`; `") + "`"
}

// wrap breaks a text at spaces into lines of at most width bytes.
func wrap(text string) string {
	var b strings.Builder
	used := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case used == 0:
		case used+1+len(word) > width:
			b.WriteByte('\n')
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += len(word)
	}
	b.WriteByte('\n')
	return b.String()
}
