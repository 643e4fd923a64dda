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

// scene matches a scene of the page and the block after it. The scene is a script that runs first; then
// the commands after "> " in the block run. The first line names the program, "routes" or "machines",
// which is running before the script. Further words are options of the reconciler of the routes.
var scene = regexp.MustCompile("(?s)<!-- scene ([^\n]*)\n(.*?)-->\n```console\n(.*?)```\n")

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
	for page, least := range map[string]int{operationsPage: 14, "../../docs/ledgers.md": 1, "../../docs/pruning.md": 1} {
		t.Run(filepath.Base(page), func(t *testing.T) { playPage(t, page, least) })
	}
}

// playPage plays the scenes of a page, at least so many, and compares or writes their outputs.
func playPage(t *testing.T, path string, least int) {
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	update := flag.Lookup("scripttest.update")
	updating := update != nil && update.Value.String() == "true"
	scenes := 0
	printed := scene.ReplaceAllFunc(page, func(found []byte) []byte {
		scenes++
		parts := scene.FindSubmatch(found)
		var block strings.Builder
		for _, line := range strings.Split(string(parts[3]), "\n") {
			if !strings.HasPrefix(line, "> ") {
				continue
			}
			block.WriteString(line + "\n")
		}
		shown := play(t, string(parts[1]), string(parts[2]), block.String())
		if !updating {
			require.Equal(t, string(parts[3]), shown, "after %s", parts[2])
		}
		return bytes.Replace(found, parts[3], []byte(shown), 1)
	})
	require.GreaterOrEqual(t, scenes, least)
	if updating {
		require.NoError(t, os.WriteFile(path, printed, 0o644))
	}
}

func TestOperationsPageAnswersEachQuestionWithACommand(t *testing.T) {
	page, err := os.ReadFile(operationsPage)
	require.NoError(t, err)
	require.Len(t, scene.FindAll(page, -1), strings.Count(string(page), "```console\n"))
	sections := strings.Split(string(page), "\n## ")
	list := regexp.MustCompile(`(?m)^\d+\. \[(.*?)\]\(#(.*?)\): .+$`).FindAllStringSubmatch(sections[0], -1)
	require.Len(t, list, 15)
	require.Len(t, sections[1:], len(list))
	for i, anchor := range headings(string(page), "##") {
		require.Equal(t, list[i][2], anchor)
		question, _, _ := strings.Cut(sections[1+i], "\n")
		require.Equal(t, list[i][1], question)
		require.Regexp(t, scene, sections[1+i], question)
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
		run(startOf(t, in) + scene)
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
		require.Contains(t, headings(string(page), "##+"), anchor[1])
	}
}

// headings returns the anchors that GitHub makes for the headings of a page whose marks match a pattern.
func headings(page, marks string) (anchors []string) {
	for _, h := range regexp.MustCompile(`(?m)^`+marks+` (.*)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(h[1]), "")
		anchors = append(anchors, strings.ReplaceAll(text, " ", "-"))
	}
	return anchors
}
