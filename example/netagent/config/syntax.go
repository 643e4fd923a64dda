// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// The search for the line of a syntax error parses beginnings of the file. It tries the nearBy lines before
// the parser's position one by one, and larger steps after that, since an open quote may be far back. It
// parses at most searchBudget bytes, so that a file of [MaxSize] costs no more than a few times a normal
// parse.
const (
	nearBy       = 8
	searchBudget = 2 << 20
)

var yamlErrorPrefix = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// parseDocument returns the root node of the only document in data.
func parseDocument(file string, data []byte) (*yaml.Node, error) {
	if pos, what := badByte(file, data); what != "" {
		return nil, Problems{{Pos: pos, Message: what}}
	}
	lines := &lineReader{data: data}
	dec := yaml.NewDecoder(lines)
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	switch {
	case err == io.EOF, err == nil && doc.Content[0].Tag == "!!null" && doc.Content[0].Value == "":
		// The position of a root that is not there may be behind the file.
		return nil, Problems{{Pos: Pos{File: file, Line: 1}, Message: "is empty; to ask for nothing at all, write {}"}}
	case err != nil:
		return nil, syntaxProblem(file, data, lines.read, err)
	}
	if err := dec.Decode(&second); second.Kind != 0 {
		return nil, Problems{{Pos: posOf(file, &second),
			Message: "a second document; only one is read"}}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxProblem(file, data, lines.read, err)
	}
	return doc.Content[0], nil
}

// badByte finds the first byte that YAML does not allow. The YAML package rejects it too, but does not
// return its position.
func badByte(file string, data []byte) (Pos, string) {
	line, column := 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			return Pos{file, line, column}, "not UTF-8 text"
		case r < ' ' && r != '\n' && r != '\r' && r != '\t', r == 0x7f:
			return Pos{file, line, column}, "control character " + strconv.QuoteRune(r)
		case r == '\n':
			line, column = line+1, 0
		}
		data, column = data[size:], column+1
	}
	return Pos{}, ""
}

// lineReader reads data line by line, so that a parser that stops has read little beyond the error.
type lineReader struct {
	data []byte
	read int // lines; the last may be read in part
	tail bool
}

func (r *lineReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	line := r.data
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end+1]
	}
	if !r.tail {
		r.read++
	}
	n := copy(p, line)
	r.data, r.tail = r.data[n:], n < len(line)
	return n, nil
}

// syntaxProblem returns the position of a syntax error, which the parser found after the given number of
// lines. The YAML package often names no line, or the line where the surrounding block began. So this
// searches the longest beginning of the file that parses; the error is in the line after it.
func syntaxProblem(file string, data []byte, read int, err error) Problems {
	message := yamlErrorPrefix.ReplaceAllString(err.Error(), "")
	said := 0
	if m := yamlErrorPrefix.FindStringSubmatch(err.Error()); len(m) == 2 {
		said, _ = strconv.Atoi(m[1]) // 0 if the error names no line
	}
	line, found := firstBadLine(data, read, isYAML)
	switch {
	case found && !strings.Contains(message, "end of stream"):
		line = max(line, said)
	case !found && said > 0:
		line = said
	}
	return Problems{{Pos: Pos{File: file, Line: line}, Message: cut(message)}}
}

func isYAML(data []byte) bool {
	var n yaml.Node
	return yaml.Unmarshal(data, &n) == nil
}

// firstBadLine returns a line up to which data parses and with which it does not, given that the first bad
// lines do not parse. found is false if the budget ended first; the line is then one after that line.
func firstBadLine(data []byte, bad int, parses func([]byte) bool) (line int, found bool) {
	ends := []int{0} // ends[n] is where line n ends
	for line := range bytes.Lines(data) {
		ends = append(ends, ends[len(ends)-1]+len(line))
	}
	good, step := 0, 1
	for tries, left := 1, searchBudget; bad-good > 1; tries++ {
		n := bad - step
		if good > 0 || n <= 0 {
			n = (good + bad) / 2
		} else if tries >= nearBy {
			step *= 2
		}
		if left -= ends[n]; left < 0 {
			return bad, false
		}
		if parses(data[:ends[n]]) {
			good = n
		} else {
			bad = n
		}
	}
	return bad, true
}
