// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package doctest

import (
	"fmt"
	goparser "go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinksLeadToFilesAndHeadings(t *testing.T) {
	root := projectRoot(t)
	for _, page := range pages(t, root) {
		for _, problem := range brokenLinks(root, page, read(t, root, page)) {
			t.Errorf("%s: %s", page, problem)
		}
	}
}

func TestGoCommentsCitePagesAndSectionsThatExist(t *testing.T) {
	root := projectRoot(t)
	for _, name := range files(t, root, ".go") {
		source := read(t, root, name)
		if !strings.Contains(source, "docs/") {
			continue
		}
		for _, problem := range brokenCitations(t, root, source) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// link is a link to a file of the repository, a heading in it or a heading in the page itself. Links with a
// scheme do not match.
var link = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)

// brokenLinks returns the links of a page that lead to no file, or to no heading of a Markdown file.
func brokenLinks(root, page, text string) (problems []string) {
	for _, match := range link.FindAllStringSubmatch(prose(text), -1) {
		target, anchor := filepath.Join(root, filepath.Dir(page), match[1]), match[2]
		if _, err := os.Stat(target); err != nil && match[1] != "" {
			problems = append(problems, fmt.Sprintf("no file for the link to %s", match[1]))
			continue
		}
		if anchor == "" {
			continue
		}
		linked := []byte(text)
		if match[1] != "" {
			linked, _ = os.ReadFile(target) // a folder has no headings
		}
		if !slices.ContainsFunc(headings(string(linked)), func(h string) bool { return anchorOf(h) == anchor }) {
			problems = append(problems, fmt.Sprintf("no heading for the link to %s#%s", match[1], anchor))
		}
	}
	return problems
}

var (
	// citation is the name of a page in a Go comment, with an anchor if it has one.
	citation = regexp.MustCompile(`\bdocs/([\w-]+\.md)(?:#([\w-]+))?`)
	// quotedSection is the title of a section in a Go comment.
	quotedSection = regexp.MustCompile(`"([A-Z][^"]*)"`)
	// numberedSections are numbers of sections in a Go comment, as in "sections 4 and 5".
	numberedSections = regexp.MustCompile(`\bsections? ((?:\d+(?:, | and | to )?)+)`)
	number           = regexp.MustCompile(`\d+`)
)

// brokenCitations returns the pages in docs/ that comments of a Go file cite and that do not exist. In the
// sentence that cites a page, section numbers and quoted titles must be those of headings of the page.
func brokenCitations(t *testing.T, root, source string) (problems []string) {
	file, err := goparser.ParseFile(token.NewFileSet(), "", source, goparser.ParseComments|goparser.SkipObjectResolution)
	require.NoError(t, err)
	for _, comment := range file.Comments {
		text := strings.Join(strings.Fields(comment.Text()), " ")
		for sentence := range strings.SplitSeq(text, ". ") {
			problems = append(problems, brokenInSentence(root, sentence)...)
		}
	}
	return problems
}

func brokenInSentence(root, sentence string) (problems []string) {
	var titles []string
	last := ""
	for _, match := range citation.FindAllStringSubmatch(sentence, -1) {
		text, err := os.ReadFile(filepath.Join(root, "docs", match[1]))
		if err != nil {
			problems = append(problems, fmt.Sprintf("docs/%s does not exist", match[1]))
			continue
		}
		found := headings(string(text))
		titles = append(titles, found...)
		last = match[1]
		if anchor := match[2]; anchor != "" && !slices.ContainsFunc(found, func(h string) bool { return anchorOf(h) == anchor }) {
			problems = append(problems, fmt.Sprintf("docs/%s has no heading #%s", match[1], anchor))
		}
	}
	if len(titles) == 0 {
		return problems
	}
	for _, match := range quotedSection.FindAllStringSubmatch(sentence, -1) {
		if !slices.Contains(titles, match[1]) {
			problems = append(problems, fmt.Sprintf("docs/%s has no section %q", last, match[1]))
		}
	}
	for _, match := range numberedSections.FindAllStringSubmatch(sentence, -1) {
		for _, n := range number.FindAllString(match[1], -1) {
			if !slices.ContainsFunc(titles, func(h string) bool { return strings.HasPrefix(h, n+". ") }) {
				problems = append(problems, fmt.Sprintf("docs/%s has no section %s", last, n))
			}
		}
	}
	return problems
}

// heading is a heading of a page.
var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// headings returns the titles of the sections of a page.
func headings(page string) (titles []string) {
	for _, match := range heading.FindAllStringSubmatch(prose(page), -1) {
		titles = append(titles, match[1])
	}
	return titles
}

var notInAnchor = regexp.MustCompile(`[^\w\- ]`)

// anchorOf returns the anchor by which GitHub links to a heading.
func anchorOf(heading string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// prose returns a page without the blocks between fences.
func prose(page string) string {
	var b strings.Builder
	inBlock := false
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), fence):
			inBlock = !inBlock
		case !inBlock:
			b.WriteString(line)
		}
	}
	return b.String()
}
