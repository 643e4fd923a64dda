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

// Program is a Go package in a page.
type Program struct {
	// Folder is the folder in the names of its files; "." if they have none.
	Folder string
	// Files are the Go files, in the order of the page.
	Files []*File
	// Output is the expected standard output; nil if the page shows none, and then the program must print
	// nothing.
	Output *Block
}

// File is a Go file, made of one or more blocks of a page.
type File struct {
	// Name is its name in the folder of the program.
	Name string
	// Blocks are its parts, in the order of the page.
	Blocks []Block
}

// Block is the text between two fences.
type Block struct {
	// Line is the number of the first line after the opening fence, from 1.
	Line int
	// Text is the lines, each with its newline.
	Text string

	// word is the mark of the opening fence, such as "go".
	word string
}

// Parse returns the programs of a page in the order in which they begin. The error lists every mistake with
// the name of the page and the line: a fence that is not closed, Go that belongs to no file, is not Go or is
// not formatted, and output that belongs to no program.
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

// parser assembles programs from the blocks of a page.
type parser struct {
	page     string
	order    []*Program
	programs map[string]*Program
	errs     []error

	// program and file are those that a block of Go continues; nil before the first.
	program *Program
	file    *File
	// afterGo reports whether the last block was Go.
	afterGo bool
}

func (p *parser) fail(b Block, msg string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s:%d: %s", p.page, b.Line, fmt.Sprintf(msg, args...)))
}

func (p *parser) block(b Block) {
	afterGo := p.afterGo
	p.afterGo = b.word == "go"
	switch b.word {
	case "go":
		p.goBlock(b)
	case "text":
		p.output(b, afterGo)
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

// begin starts the file that the next blocks belong to.
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

func (p *parser) output(b Block, afterGo bool) {
	switch {
	case !afterGo || p.program == nil:
		p.fail(b, "text that does not follow a program directly: it would not be tested")
	case p.program.Output != nil:
		p.fail(b, "second output of a program; the first is in line %d", p.program.Output.Line)
	default:
		p.program.Output = &b
	}
}

// filenameOf returns the file that the first line of a block names. ok is false if it names none.
func filenameOf(b Block) (name string, ok bool) {
	first, _, _ := strings.Cut(b.Text, "\n")
	name, ok = strings.CutPrefix(first, "// ")
	ok = ok && strings.HasSuffix(name, ".go") && !strings.ContainsRune(name, ' ')
	return path.Clean(name), ok
}

const fence = "```"

// split returns all blocks of a page, whatever their mark.
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
