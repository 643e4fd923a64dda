// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package rulestest

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readRules returns the alert rules by name. It checks what promtool checks, including templates.
func readRules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	text, err := os.ReadFile("../../../../metrics/prometheus/alerts.yaml")
	require.NoError(t, err)
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, promQL)
	require.Empty(t, errs)
	rules := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			assert.NotContains(t, rules, rule.Alert)
			rules[rule.Alert] = rule
		}
	}
	return rules
}

func TestAlertsUseNamesThatThereAre(t *testing.T) {
	series := known(t)
	for _, rule := range readRules(t) {
		assertNames(t, series, rule.Expr)
	}
}

// Each alert links to the page with the answer.
func TestAlertsSayWhatToDo(t *testing.T) {
	const page = "https://github.com/statekeel/statekeel/blob/main/docs/OPERATIONS.md#"
	anchors := map[string]string{
		"StatekeelDoesNotConverge": "it-does-not-converge",
		"StatekeelObjectsFail":     "objects-fail",
		"StatekeelBreakerOpen":     "the-breaker-is-open",
		"StatekeelOperationStuck":  "an-operation-is-stuck",
		"StatekeelPruningFails":    "pruning-fails",
		"StatekeelOperationsPanic": "operations-panic",

		"StatekeelRepairsDoNotHold": "repairs-do-not-hold",

		"StatekeelInputAway":     "a-table-is-behind-its-input",
		"StatekeelInputRejected": "a-table-is-behind-its-input",
		"StatekeelDeletionsHeld": "why-does-a-row-stay-that-its-source-does-not-have",
	}
	rules := readRules(t)
	assert.Len(t, rules, len(anchors))
	for name, anchor := range anchors {
		rule := rules[name]
		assert.Equal(t, page+anchor, rule.Annotations["runbook_url"], name)
		assert.Contains(t, []string{"warning", "critical"}, rule.Labels["severity"], name)
		whose := "reconciler"
		switch {
		case strings.Contains(name, "Managed"):
			whose = "kind"
		case strings.Contains(name, "Input"), strings.Contains(name, "Held"):
			whose = "table"
		}
		assert.Contains(t, rule.Annotations["summary"], "{{ $labels."+whose+" }}", name)
		assert.Contains(t, rule.Annotations["description"], "{{ $labels.instance }}", name)
	}
}

func TestAlertsFireWhenTheyShouldAndNotOtherwise(t *testing.T) {
	// One value a minute. "_" is no value.
	cases := []struct {
		alert, about string
		series       string
		fires        time.Duration // 0 for never
	}{
		{"StatekeelDoesNotConverge", "a change that is never applied",
			"statekeel_oldest_unapplied_seconds{} 0 0+60x60\nstatekeel_paused{} 0x60", 12 * time.Minute},
		{"StatekeelDoesNotConverge", "each change applied within four minutes",
			"statekeel_oldest_unapplied_seconds{} 0 60 120 180 240 0 60 120 180 240 0 240x60\nstatekeel_paused{} 0x80", 0},
		{"StatekeelDoesNotConverge", "one slow change, then none",
			"statekeel_oldest_unapplied_seconds{} 0 0+60x9 0x60\nstatekeel_paused{} 0x80", 0},
		{"StatekeelDoesNotConverge", "paused",
			"statekeel_oldest_unapplied_seconds{} 0 0+60x60\nstatekeel_paused{} 1x70", 0},
		{"StatekeelDoesNotConverge", "paused until it was resumed",
			"statekeel_oldest_unapplied_seconds{} 0 0+60x60\nstatekeel_paused{} 1x29 0x30", 35 * time.Minute},

		{"StatekeelObjectsFail", "an object that fails on and on",
			"statekeel_failing_objects{} 0x4 1x60", 20 * time.Minute},
		{"StatekeelObjectsFail", "different numbers, never none",
			"statekeel_failing_objects{} 3 9 1 4 2 8 1x60", 15 * time.Minute},
		{"StatekeelObjectsFail", "objects that fail and recover",
			"statekeel_failing_objects{} 5x13 0 5x13 0 5x13 0x20", 0},

		{"StatekeelRepairsDoNotHold", "two programs that write the same object",
			"statekeel_unheld_objects{} 0 1x20", 3 * time.Minute},
		{"StatekeelRepairsDoNotHold", "one that stops",
			"statekeel_unheld_objects{} 0 1 0x20", 0},

		{"StatekeelBreakerOpen", "a target that is down",
			"statekeel_breakers_open{} 0 1x20", 3 * time.Minute},
		{"StatekeelBreakerOpen", "a target that is back at once",
			"statekeel_breakers_open{} 0 1 1 0x20", 0},

		{"StatekeelOperationStuck", "an operation that never comes back",
			"statekeel_stuck_operations{} 0 1x20", 6 * time.Minute},
		{"StatekeelOperationStuck", "one that comes back late",
			"statekeel_stuck_operations{} 0 1x3 0x20", 0},

		{"StatekeelPruningFails", "a prune that fails at every attempt",
			"statekeel_prune_errors_total{} 0x9 1+1x60", 30 * time.Minute},
		{"StatekeelPruningFails", "a prune that fails and succeeds at its tenth attempt",
			"statekeel_prune_errors_total{} 0x9 1 3 6 8 9x200", 0},
		{"StatekeelPruningFails", "one failure every hour, made good at once",
			"statekeel_prune_errors_total{} 0x9 1x59 2x59 3x59", 0},
		{"StatekeelPruningFails", "a failure, and a restart",
			"statekeel_prune_errors_total{} 0x9 1x10 0x200", 0},

		{"StatekeelOperationsPanic", "an operation that panics",
			"statekeel_panics_total{} 0x9 1x30", 10 * time.Minute},
		{"StatekeelOperationsPanic", "panics of long ago",
			"statekeel_panics_total{} 7x60", 0},
		{"StatekeelOperationsPanic", "a new process in which nothing has panicked",
			"statekeel_panics_total{} 7x9 0x60", 0},

		{"StatekeelInputAway", "a store that is away",
			"statekeel_input_connected{} 1x9 0x60", 15 * time.Minute},
		{"StatekeelInputAway", "a program that has not reached its store yet",
			"statekeel_input_connected{} 0x3 1x60", 0},
		{"StatekeelInputAway", "a connection that breaks now and then",
			"statekeel_input_connected{} 1 0 0 0 1 0 0 0 1x60", 0},

		{"StatekeelInputRejected", "a row of another owner",
			"statekeel_input_rejected_objects{} 0x9 2x60", 25 * time.Minute},
		{"StatekeelInputRejected", "one that is mended soon",
			"statekeel_input_rejected_objects{} 0x9 2x9 0x60", 0},

		{"StatekeelDeletionsHeld", "a truncated file",
			"statekeel_input_held_deletions{} 0x9 2000x60", 11 * time.Minute},
		{"StatekeelDeletionsHeld", "one that was truncated for a moment",
			"statekeel_input_held_deletions{} 0x9 2000 0x60", 0},
	}
	rules := readRules(t)
	fired := map[string]int{}
	for _, tt := range cases {
		t.Run(tt.alert+"/"+tt.about, func(t *testing.T) {
			rule := rules[tt.alert]
			labelled := strings.ReplaceAll(tt.series, "{}", `{instance="a:1", job="agents", reconciler="agent/routes"}`)
			load := "load 1m\n  " + strings.ReplaceAll(labelled, "\n", "\n  ") + "\n"
			at, ok := firesAt(t, storageOf(t, load), rule)
			if tt.fires == 0 {
				assert.False(t, ok, "it fires after %s", at)
				return
			}
			fired[tt.alert]++
			assert.True(t, ok, "it never fires")
			assert.Equal(t, tt.fires, at)
		})
	}
	assert.Len(t, fired, len(rules), "each rule must have fired")
}

// firesAt returns when a rule that is evaluated once a minute begins to fire.
func firesAt(t *testing.T, s storage.Queryable, rule rulefmt.Rule) (at time.Duration, ok bool) {
	t.Helper()
	matrix := evaluate(t, s, rule.Expr, 9*time.Hour)
	require.LessOrEqual(t, len(matrix), 1, "one reconciler, one alert")
	for _, series := range matrix {
		assert.Equal(t, "agent/routes", series.Metric.Get("reconciler"))
		assert.Equal(t, "a:1", series.Metric.Get("instance"))
		return heldFor(series.Floats, time.Duration(rule.For))
	}
	return 0, false
}

// heldFor returns when there has first been a value at every minute for so long.
func heldFor(points []promql.FPoint, long time.Duration) (time.Duration, bool) {
	var since, last time.Duration
	for i, p := range points {
		now := time.Duration(p.T) * time.Millisecond
		if i == 0 || now-last > time.Minute {
			since = now
		}
		if last = now; now-since >= long {
			return now, true
		}
	}
	return 0, false
}
