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

// lookahead is how many lines past a suspected syntax error are tried for an end
// of whatever construct is open there (a list in brackets that goes over several
// lines, say) before the suspicion is believed.
const lookahead = 64

var yamlErrorPrefix = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// parseDocument returns the root node of the only document in data.
func parseDocument(file string, data []byte) (*yaml.Node, error) {
	if pos, what := badByte(file, data); what != "" {
		return nil, Problems{{Pos: pos, Message: what}}
	}
	if isEmpty(data) {
		return nil, Problems{{Pos: Pos{File: file, Line: 1}, Message: "is empty; to ask for nothing at all, write {}"}}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, syntaxProblem(file, data, err)
	}
	if err := dec.Decode(&second); second.Kind != 0 {
		return nil, Problems{{Pos: posOf(file, &second),
			Message: "a second document; only one is read"}}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxProblem(file, data, err)
	}
	return doc.Content[0], nil
}

// isEmpty tells whether data has nothing but comments, blank lines and marks of a
// document's beginning and end.
func isEmpty(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && string(line) != "---" && string(line) != "..." {
			return false
		}
	}
	return true
}

// badByte finds the first byte that may not be in a YAML file. The YAML package
// rejects these too, but does not say where they are.
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

// syntaxProblem says where a file stops being YAML. The YAML package often names
// no line, or the one where the surrounding block began; so this looks for the
// longest beginning of the file that does parse: the line after that is it.
func syntaxProblem(file string, data []byte, err error) Problems {
	message := yamlErrorPrefix.ReplaceAllString(err.Error(), "")
	line := firstBadLine(data)
	if m := yamlErrorPrefix.FindStringSubmatch(err.Error()); len(m) == 2 && !strings.Contains(message, "end of stream") {
		if said, convErr := strconv.Atoi(m[1]); convErr == nil {
			line = max(line, said)
		}
	}
	return Problems{{Pos: Pos{File: file, Line: line}, Message: message}}
}

func firstBadLine(data []byte) int {
	ends := []int{0} // ends[n] is where line n ends
	for line := range bytes.Lines(data) {
		ends = append(ends, ends[len(ends)-1]+len(line))
	}
	last := len(ends) - 1
	parses := func(lines int) bool {
		var n yaml.Node
		return yaml.Unmarshal(data[:ends[lines]], &n) == nil
	}
	good := 0
search:
	for {
		bad := last
		for bad-good > 1 {
			if middle := (good + bad) / 2; parses(middle) {
				good = middle
			} else {
				bad = middle
			}
		}
		for n := good + 2; n < last && n <= good+lookahead; n++ {
			if parses(n) {
				good = n
				continue search
			}
		}
		return good + 1
	}
}
