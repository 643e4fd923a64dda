// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"bufio"
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cilium/hive/script"
	"github.com/stretchr/testify/require"
)

const operationsPage = "../../docs/OPERATIONS.md"

// block matches a block with typed commands, which begin with "> ", and their outputs. The n-th block of a page has the
// n-th scene of its file in testdata/scenes: a script that runs first. The first line of a scene names the program,
// "scene routes" or "scene machines", which is running before the script. Further words are options of the reconciler of
// the routes.
var block = regexp.MustCompile("(?s)```console\n(> .*?)```\n")

// startOf returns the script that starts the program that the first line of a scene names.
func startOf(t *testing.T, line string) string {
	name, options, _ := strings.Cut(line, " ")
	switch name {
	case "machines":
		return "hive start\nmanage\n"
	case "routes":
		return "hive start\nmark-init\nreconcile name=routes " + options + "\n"
	}
	t.Fatalf("a scene has no program %q", name)
	return ""
}

// With -scripttest.update the test writes the outputs into the pages.
func TestPagesShowTheOutputOfTheCommands(t *testing.T) {
	for _, page := range []string{operationsPage, "../../docs/ledgers.md", "../../docs/pruning.md"} {
		t.Run(filepath.Base(page), func(t *testing.T) { playPage(t, page) })
	}
}

// playPage plays the scenes of a page, and compares or writes their outputs.
func playPage(t *testing.T, path string) {
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	file, err := os.ReadFile(filepath.Join("testdata", "scenes", strings.TrimSuffix(filepath.Base(path), ".md")+".txt"))
	require.NoError(t, err)
	scenes := strings.Split(strings.TrimPrefix(string(file), "scene "), "\nscene ")
	require.Equal(t, len(scenes), len(block.FindAll(page, -1)), "scenes, and blocks with typed commands")
	update := flag.Lookup("scripttest.update")
	updating := update != nil && update.Value.String() == "true"
	printed := block.ReplaceAllFunc(page, func(found []byte) []byte {
		had := block.FindSubmatch(found)[1]
		var typed strings.Builder
		for line := range strings.Lines(string(had)) {
			if strings.HasPrefix(line, "> ") {
				typed.WriteString(line)
			}
		}
		program, script, _ := strings.Cut(scenes[0], "\n")
		scenes = scenes[1:]
		shown := play(t, program, script, typed.String())
		if !updating {
			require.Equal(t, string(had), shown, "after %s", script)
		}
		return bytes.Replace(found, had, []byte(shown), 1)
	})
	if updating {
		require.NoError(t, os.WriteFile(path, printed, 0o644))
	}
}

func TestOperationsPageAnswersEachQuestionWithACommand(t *testing.T) {
	page, err := os.ReadFile(operationsPage)
	require.NoError(t, err)
	require.Equal(t, strings.Count(string(page), "```console\n"), len(block.FindAll(page, -1)))
	sections := strings.Split(string(page), "\n## ")[1:]
	require.Len(t, sections, 15)
	for _, section := range sections {
		question, _, _ := strings.Cut(section, "\n")
		require.Regexp(t, block, section, question)
	}
}

// play runs a scene and then the typed commands, and returns the commands with their outputs.
func play(t *testing.T, in, scene, typed string) string {
	var shown strings.Builder
	synctest.Test(t, func(t *testing.T) {
		state, err := script.NewState(t.Context(), t.TempDir(), nil)
		require.NoError(t, err)
		w := newWorld(t)
		engine := &script.Engine{Cmds: w.commands()}
		run := func(text string) {
			var log bytes.Buffer
			err := engine.Execute(state, "scene", bufio.NewReader(strings.NewReader(text)), &log)
			require.NoError(t, err, log.String())
		}
		run(startOf(t, in) + scene + "\n")
		for _, line := range strings.Split(strings.TrimSpace(typed), "\n") {
			run(strings.TrimPrefix(line, "> ") + "\n")
			shown.WriteString(line + "\n" + state.Stdout())
		}
		w.stop()
	})
	return shown.String()
}

func TestAlertsLinkToHeadingsOfTheOperationsPage(t *testing.T) {
	rules, err := os.ReadFile("../../metrics/prometheus/alerts.yaml")
	require.NoError(t, err)
	page, err := os.ReadFile(operationsPage)
	require.NoError(t, err)
	anchors := regexp.MustCompile(`docs/OPERATIONS\.md#(\S+)`).FindAllStringSubmatch(string(rules), -1)
	require.GreaterOrEqual(t, len(anchors), 6)
	for _, anchor := range anchors {
		require.Contains(t, headings(string(page)), anchor[1])
	}
}

// headings returns the anchors that GitHub makes for the headings of a page.
func headings(page string) (anchors []string) {
	for _, h := range regexp.MustCompile(`(?m)^##+ (.*)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(h[1]), "")
		anchors = append(anchors, strings.ReplaceAll(text, " ", "-"))
	}
	return anchors
}
