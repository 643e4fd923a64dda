// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package doctest

import (
	"errors"
	"fmt"
	"go/format"
	"path"
	"strings"
)

// Program is a Go package that stands in a page.
type Program struct {
	// Folder is the folder that the page names for its files; "." if it names none.
	Folder string
	// Files are the Go files, in the order of the page.
	Files []*File
	// Output is what the program is to print to its standard output; nil if the
	// page does not say, and then it is to print nothing.
	Output *Block
}

// File is a Go file, put together from one or more blocks of a page.
type File struct {
	// Name is the name within the program's folder.
	Name string
	// Blocks are the parts, in the order of the page.
	Blocks []Block
}

// Block is what stands between two fences.
type Block struct {
	// Line is the number of the first line behind the opening fence, from 1.
	Line int
	// Text has each line with its newline.
	Text string

	// word is what the opening fence is marked with.
	word string
}

// Parse returns the programs of a page in the order in which they begin. The error has
// everything that is wrong, each with the page's name and the line: a fence that is not
// closed, Go that belongs to no file, that continues a file of another program or that
// gofmt would change, and output that belongs to no program.
func Parse(name, page string) ([]*Program, error) {
	blocks, err := split(name, page)
	if err != nil {
		return nil, err
	}
	p := parser{page: name, programs: map[string]*Program{}}
	for _, b := range blocks {
		p.block(b)
	}
	return p.order, errors.Join(p.errs...)
}

// parser puts the blocks of a page together.
type parser struct {
	page     string
	order    []*Program
	programs map[string]*Program
	errs     []error

	// program and file are what a block of Go continues, nil before the first.
	program *Program
	file    *File
	// behindGo: the last block was of Go.
	behindGo bool
}

func (p *parser) fail(b Block, msg string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s:%d: %s", p.page, b.Line, fmt.Sprintf(msg, args...)))
}

func (p *parser) block(b Block) {
	behindGo := p.behindGo
	p.behindGo = b.word == "go"
	switch b.word {
	case "go":
		p.goBlock(b)
	case "text":
		p.output(b, behindGo)
	case "golang", "Go":
		p.fail(b, "block is marked %q, want \"go\"", b.word)
	}
}

func (p *parser) goBlock(b Block) {
	formatted, err := format.Source([]byte(b.Text))
	if err != nil {
		p.fail(b, "not Go: %s", err)
		return
	}
	if string(formatted) != b.Text {
		p.fail(b, "gofmt would change this block")
	}
	if filename, ok := filenameOf(b); ok {
		p.begin(filename)
	}
	if p.file == nil {
		p.fail(b, "Go that belongs to no file: begin one with a line like \"// main.go\"")
		return
	}
	p.file.Blocks = append(p.file.Blocks, b)
}

// begin makes the file that the next blocks belong to.
func (p *parser) begin(filename string) {
	folder := path.Dir(filename)
	p.program = p.programs[folder]
	if p.program == nil {
		p.program = &Program{Folder: folder}
		p.programs[folder] = p.program
		p.order = append(p.order, p.program)
	}
	p.file = &File{Name: path.Base(filename)}
	p.program.Files = append(p.program.Files, p.file)
}

func (p *parser) output(b Block, behindGo bool) {
	switch {
	case !behindGo || p.program == nil:
		p.fail(b, "text that is not right behind a program: it would go untested")
	case p.program.Output != nil:
		p.fail(b, "second output of a program, the first is in line %d", p.program.Output.Line)
	default:
		p.program.Output = &b
	}
}

// filenameOf returns the file that a block begins, if its first line names one.
func filenameOf(b Block) (string, bool) {
	first, _, _ := strings.Cut(b.Text, "\n")
	name, ok := strings.CutPrefix(first, "// ")
	ok = ok && strings.HasSuffix(name, ".go") && !strings.ContainsRune(name, ' ')
	return path.Clean(name), ok
}

const fence = "```"

// split returns the blocks of a page.
func split(name, page string) ([]Block, error) {
	var blocks []Block
	var open *Block
	line := 0
	for text := range strings.Lines(page) {
		line++
		word, isFence := strings.CutPrefix(strings.TrimSpace(text), fence)
		switch {
		case isFence && open == nil:
			blocks = append(blocks, Block{Line: line + 1, word: strings.TrimSpace(word)})
			open = &blocks[len(blocks)-1]
		case isFence:
			open = nil
		case open != nil:
			open.Text += text
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s:%d: block is not closed", name, open.Line-1)
	}
	return blocks, nil
}
