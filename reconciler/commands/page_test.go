// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"bufio"
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cilium/hive/script"
	"github.com/stretchr/testify/require"
)

const operationsPage = "../../docs/OPERATIONS.md"

// A scene is what there is when a person types the commands that stand behind "> " in the
// block that follows it.
var scene = regexp.MustCompile("(?s)<!-- scene\n(.*?)-->\n```console\n(.*?)```\n")

// The page for people on call shows what the commands print. With -scripttest.update the
// page is made to.
func TestOperationsPageShowsWhatTheCommandsPrint(t *testing.T) {
	page, err := os.ReadFile(operationsPage)
	require.NoError(t, err)
	update := flag.Lookup("scripttest.update")
	updating := update != nil && update.Value.String() == "true"
	scenes := 0
	printed := scene.ReplaceAllFunc(page, func(found []byte) []byte {
		scenes++
		parts := scene.FindSubmatch(found)
		var block strings.Builder
		for _, line := range strings.Split(string(parts[2]), "\n") {
			if !strings.HasPrefix(line, "> ") {
				continue
			}
			// Each command after all those before it, as on a terminal.
			block.WriteString(line + "\n")
		}
		shown := play(t, string(parts[1]), block.String())
		if !updating {
			require.Equal(t, string(parts[2]), shown, "after %s", parts[1])
		}
		return bytes.Replace(found, parts[2], []byte(shown), 1)
	})
	require.GreaterOrEqual(t, scenes, 12)
	if updating {
		require.NoError(t, os.WriteFile(operationsPage, printed, 0o644))
	}
}

// play runs a scene and then commands, and returns the commands, each with what it prints.
func play(t *testing.T, scene, typed string) string {
	var shown strings.Builder
	synctest.Test(t, func(t *testing.T) {
		state, err := script.NewState(t.Context(), t.TempDir(), nil)
		require.NoError(t, err)
		s := newScripted(t)
		engine := &script.Engine{Cmds: s.commands()}
		run := func(text string) {
			var log bytes.Buffer
			err := engine.Execute(state, "scene", bufio.NewReader(strings.NewReader(text)), &log)
			require.NoError(t, err, log.String())
		}
		run(scene)
		for _, line := range strings.Split(strings.TrimSpace(typed), "\n") {
			run(strings.TrimPrefix(line, "> ") + "\n")
			shown.WriteString(line + "\n" + state.Stdout())
		}
		s.target.release()
		require.NoError(t, s.hive.Stop(s.log, t.Context()))
	})
	return shown.String()
}

// Every alert says where on the page to read on, and the page has that.
func TestAlertsPointToThePage(t *testing.T) {
	rules, err := os.ReadFile("../../metrics/prometheus/alerts.yaml")
	require.NoError(t, err)
	page, err := os.ReadFile(operationsPage)
	require.NoError(t, err)
	anchors := regexp.MustCompile(`docs/OPERATIONS\.md#(\S+)`).FindAllStringSubmatch(string(rules), -1)
	require.GreaterOrEqual(t, len(anchors), 6)
	for _, anchor := range anchors {
		require.Contains(t, headings(string(page)), anchor[1])
	}
	for _, link := range regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(string(page), -1) {
		require.Contains(t, headings(string(page)), link[1])
	}
}

// headings returns the anchors of a page, as GitHub makes them.
func headings(page string) (anchors []string) {
	for _, h := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(h[1]), "")
		anchors = append(anchors, strings.ReplaceAll(text, " ", "-"))
	}
	return anchors
}
