// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// HasTests reports whether the program has test files.
func (p *Program) HasTests() bool {
	for _, f := range p.Files {
		if f.isTest() {
			return true
		}
	}
	return false
}

// HasMain reports whether the program has a main function.
func (p *Program) HasMain() bool {
	for _, f := range p.Files {
		if !f.isTest() && strings.Contains(f.text(), "\nfunc main() {") {
			return true
		}
	}
	return false
}

// Lines returns the number of lines, without empty ones and those with the name of a file.
func (p *Program) Lines() int {
	n := 0
	for _, f := range p.Files {
		for line := range strings.Lines(f.text()) {
			if strings.TrimSpace(line) != "" {
				n++
			}
		}
		n--
	}
	return n
}

// Write creates a folder and writes the files into it. Errors of the compiler name the page, which has to be
// an absolute path, and the line in it.
func (p *Program) Write(folder, page string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, f := range p.Files {
		var text strings.Builder
		for _, b := range f.Blocks {
			fmt.Fprintf(&text, "//line %s:%d\n%s\n", page, b.Line, b.Text)
		}
		if err := os.WriteFile(filepath.Join(folder, f.Name), []byte(text.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) isTest() bool { return strings.HasSuffix(f.Name, "_test.go") }

func (f *File) text() string {
	var text strings.Builder
	for _, b := range f.Blocks {
		text.WriteString(b.Text)
	}
	return text.String()
}
