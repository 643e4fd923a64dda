// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

func figure(metric string, better workload.Better, v float64) workload.Figures {
	return workload.Figures{{Metric: metric, Unit: "us", Better: better, Value: v}}
}

// measured is a contender and its value.
type measured struct {
	contender string
	value     float64
}

// one returns the result of a workload with one metric, in which the contenders have these values.
func one(t *testing.T, metric string, better workload.Better, all ...measured) *series.Result {
	runs := map[string][]workload.Figures{}
	var contenders []string
	for _, m := range all {
		contenders = append(contenders, m.contender)
		runs[m.contender] = []workload.Figures{figure(metric, better, m.value)}
	}
	return results(t, workload.Workload{Name: "w", Contenders: contenders}, runs)
}

func TestGoalsCompareWithTheirContender(t *testing.T) {
	variants := []measured{{subject.Statekeel4, 300}, {subject.Statekeel, 100}, {subject.Peer, 50}, {subject.Floor, 150}}
	for _, c := range []struct {
		against against
		goal    float64
		better  workload.Better
		result  []measured
		rival   string
		want    answer
	}{
		{itself, 2.5, workload.Less, []measured{{subject.Statekeel, 2.5}}, "", answer{"at most 2.50 us", "2.50 us", true, ""}},
		{itself, 2.5, workload.Less, []measured{{subject.Statekeel, 3}}, "",
			answer{"at most 2.50 us", "3.00 us", false, "short by 20.0 %"}},
		// The better variant of the peer counts.
		{ratioToPeer, 1.2, workload.More, []measured{{subject.Statekeel, 110}, {subject.Peer, 50}, {subject.PeerInf, 100}, {subject.Floor, 100}},
			subject.PeerInf, answer{"at least 1.20 x statedb/reconciler+inf", "1.10 x", false, "short by 8.33 %"}},
		{ratioToFloor, 0.92, workload.More, []measured{{subject.Statekeel, 95}, {subject.Peer, 50}, {subject.PeerInf, 60}, {subject.Floor, 100}},
			subject.PeerInf, answer{"at least 0.92 x floor", "0.95 x", true, ""}},
		{beyondFloor, 1, workload.Less, []measured{{subject.Statekeel, 16}, {subject.Peer, 19}, {subject.Floor, 14}},
			subject.Peer, answer{"at most 1.00 us beyond floor", "2.00 us", false, "short by 100 %"}},
		{beyondPeer, 0, workload.Less, []measured{{subject.Statekeel, 3}, {subject.Peer, 1}},
			subject.Peer, answer{"at most 0 us beyond statedb/reconciler", "2.00 us", false, "short by 2.00 us"}},
		{beyondPeer, 0, workload.Less, []measured{{subject.Statekeel, 1}, {subject.Peer, 3}},
			subject.Peer, answer{"at most 0 us beyond statedb/reconciler", "-2.00 us", true, ""}},

		// The variant of the workload is the first.
		{itself, 4, workload.More, variants, subject.Peer, answer{"at least 4.00 us", "300 us by statekeel-4", true, ""}},
		{ratioToOne, 4, workload.More, variants, subject.Peer,
			answer{"at least 4.00 x statekeel", "3.00 x by statekeel-4", false, "short by 25.0 %"}},
		{ratioToPeer, 4, workload.More, variants, subject.Peer,
			answer{"at least 4.00 x statedb/reconciler", "6.00 x by statekeel-4", true, ""}},
		{ratioToFloor, 4, workload.More, variants, subject.Peer,
			answer{"at least 4.00 x floor", "2.00 x by statekeel-4", false, "short by 50.0 %"}},
		{ratioToBare, 0.95, workload.More, []measured{{subject.StatekeelObserved, 90}, {subject.StatekeelBare, 100}}, subject.StatekeelBare,
			answer{"at least 0.95 x statekeel+bare", "0.9 x by statekeel+observed", false, "short by 5.26 %"}},

		// An adapter is compared with its peer of as many workers.
		{ratioToKube, 2.5, workload.More, []measured{{subject.StatekeelRequest, 500}, {subject.ControllerRuntime, 200}},
			subject.ControllerRuntime, answer{"at least 2.50 x controller-runtime", "2.50 x by statekeel/request", true, ""}},
		{ratioToKube, 2.5, workload.More, []measured{{subject.StatekeelRequest8, 400}, {subject.ControllerRuntime8, 200}}, subject.ControllerRuntime8,
			answer{"at least 2.50 x controller-runtime-8", "2.00 x by statekeel/request-8", false, "short by 20.0 %"}},
		{ratioToXP, 10, workload.More, []measured{{subject.StatekeelManaged8, 50}, {subject.Crossplane8, 10}}, subject.Crossplane8,
			answer{"at least 10.0 x crossplane-runtime-8", "5.00 x by statekeel/managed-8", false, "short by 50.0 %"}},
		// The fake package counts, not the copied one.
		{ratioToXP, 10, workload.More, []measured{{subject.StatekeelManaged, 50}, {subject.Crossplane, 5}, {subject.CrossplaneCopied, 8}},
			subject.Crossplane, answer{"at least 10.0 x crossplane-runtime", "10.0 x by statekeel/managed", true, ""}},
		{beyondUpdate, 2, workload.Less, []measured{{subject.StatekeelStepper, 3}, {subject.Statekeel, 2}}, subject.Statekeel,
			answer{"at most 2.00 us beyond statekeel", "1.00 us by statekeel/stepper", true, ""}},
		{beyondUpdate, 3, workload.Less, []measured{{subject.StatekeelStateful, 8}, {subject.StatekeelResources, 2}}, subject.StatekeelResources,
			answer{"at most 3.00 us beyond statekeel+resources", "6.00 us by statekeel/stateful", false, "short by 100 %"}},
	} {
		r := one(t, "metric", c.better, c.result...)
		got, ok := goal{"w", "metric", c.against, c.goal, c.better}.answer(r)
		require.True(t, ok, "%+v", c.want)
		assert.Equal(t, c.want, got)
		assert.Equal(t, c.rival, bestPeer(r), "%+v", c.result)
	}
}

func TestGoalOfGrowthComparesWithFewerRows(t *testing.T) {
	result := func(ours, floor, oursFewer, floorFewer float64) *series.Result {
		both := func(cpu, fewer float64) []workload.Figures {
			return []workload.Figures{append(figure("cpu", workload.Less, cpu),
				figure("cpu"+workload.AmongFewer, workload.Less, fewer)...)}
		}
		return results(t, workload.Workload{Name: "w", Contenders: []string{subject.Statekeel, subject.Floor}},
			map[string][]workload.Figures{subject.Statekeel: both(ours, oursFewer), subject.Floor: both(floor, floorFewer)})
	}
	for _, c := range []struct {
		result *series.Result
		want   answer
	}{
		{result(5, 3, 4, 2), answer{"at most 2.20 us beyond floor (1.10 x the 2.00 of cpu_1m)", "2.00 us", true, ""}},
		{result(6.3, 3, 4, 2), answer{"at most 2.20 us beyond floor (1.10 x the 2.00 of cpu_1m)", "3.30 us", false, "short by 50.0 %"}},
		// A cost below the floor counts as nothing beyond it.
		{result(4, 3, 2, 3), answer{"at most 0 us beyond floor (1.10 x the 0 of cpu_1m)", "1.00 us", false, "short by 1.00 us"}},
	} {
		got, ok := goal{"w", "cpu", growthBeyondFloor, 1.1, workload.Less}.answer(c.result)
		require.True(t, ok)
		assert.Equal(t, c.want, got)
	}
}

func TestLowerBoundDoesNotMeetAGoal(t *testing.T) {
	r := results(t, workload.Workload{Name: "w", Contenders: []string{subject.Statekeel}}, map[string][]workload.Figures{
		subject.Statekeel: {{{Metric: "late", Unit: "ms", Better: workload.Less, Value: 10, AtLeast: true}}},
	})
	got, ok := goal{"w", "late", itself, 100, workload.Less}.answer(r)
	require.True(t, ok)
	assert.False(t, got.met)
}

func TestGoalWithoutItsContenderHasNoAnswer(t *testing.T) {
	unanswered := func(metric string, a against, all ...measured) {
		t.Helper()
		_, ok := goal{"w", metric, a, 1, workload.Less}.answer(one(t, "cpu", workload.Less, all...))
		assert.False(t, ok)
	}
	ours := measured{subject.Statekeel, 1}
	for _, a := range []against{ratioToPeer, ratioToFloor, ratioToBare, ratioToKube, ratioToXP, ratioToWatchers, beyondPeer, beyondFloor, growthBeyondFloor} {
		unanswered("cpu", a, ours)
	}
	unanswered("latency", itself, ours)
	unanswered("cpu", growthBeyondFloor, ours, measured{subject.Floor, 1}) // fewer rows were not measured
	unanswered("cpu", ratioToOne, measured{subject.Statekeel2, 1})
	// One variant does not replace another.
	_, ok := goal{"w", "cpu", itself, 1, workload.Less}.answer(results(t,
		workload.Workload{Name: "w", Contenders: []string{subject.Statekeel2, subject.Statekeel}},
		map[string][]workload.Figures{subject.Statekeel: {figure("cpu", workload.Less, 1)}}))
	assert.False(t, ok)
}

// A goal for a metric that no workload measures would be skipped without notice.
func TestWorkloadsMeasureTheirGoals(t *testing.T) {
	byWorkload := map[string][]goal{}
	for _, g := range goals() {
		byWorkload[g.workload] = append(byWorkload[g.workload], g)
	}
	ofBeside := map[string][]goal{}
	for _, g := range besideGoals() {
		ofBeside[g.workload] = append(ofBeside[g.workload], g)
	}
	known := map[string]bool{}
	for _, w := range workload.All() {
		known[w.Name] = true
		if len(byWorkload[w.Name])+len(ofBeside[w.Name]) == 0 {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			plan := series.Plan{
				Workloads:  []workload.Workload{w},
				Contenders: w.Contenders,
				Runs:       1,
				Sizes:      workload.Tiny(),
				Execute:    series.InProcess,
			}
			require.NoError(t, plan.Run(t.Context(), func(r *series.Result) error {
				for _, g := range byWorkload[w.Name] {
					_, ok := g.answer(r)
					assert.True(t, ok, "%s %s", g.workload, g.metric)
				}
				for _, g := range ofBeside[w.Name] {
					_, ok := g.answerOf(r, subject.StatekeelBeside)
					assert.True(t, ok, "%s %s beside the table", g.workload, g.metric)
				}
				return nil
			}))
		})
	}
	for _, g := range slices.Concat(goals(), besideGoals()) {
		assert.True(t, known[g.workload], g.workload)
	}
}
