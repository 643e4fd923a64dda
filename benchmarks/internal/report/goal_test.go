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

func TestGoalsCompareWithTheirContender(t *testing.T) {
	contenders := []string{subject.Statekeel, subject.Peer, subject.PeerInf, subject.Floor}
	result := func(metric string, better workload.Better, values ...float64) *series.Result {
		runs := map[string][]workload.Figures{}
		for i, v := range values {
			runs[contenders[i]] = []workload.Figures{figure(metric, better, v)}
		}
		return results(t, workload.Workload{Name: "w", Contenders: contenders[:len(values)]}, runs)
	}
	for _, c := range []struct {
		goal   goal
		result *series.Result
		want   answer
	}{
		{
			goal{"w", "cpu", itself, 2.5, workload.Less}, result("cpu", workload.Less, 2.5),
			answer{"at most 2.50 us", "2.50 us", true, ""},
		},
		{
			goal{"w", "cpu", itself, 2.5, workload.Less}, result("cpu", workload.Less, 3),
			answer{"at most 2.50 us", "3.00 us", false, "short by 20.0 %"},
		},
		{
			// The better variant of the peer counts.
			goal{"w", "speed", ratioToPeer, 1.2, workload.More}, result("speed", workload.More, 110, 50, 100, 100),
			answer{"at least 1.20 x statedb/reconciler+inf", "1.10 x", false, "short by 8.33 %"},
		},
		{
			goal{"w", "speed", ratioToFloor, 0.92, workload.More}, result("speed", workload.More, 95, 50, 60, 100),
			answer{"at least 0.92 x floor", "0.95 x", true, ""},
		},
		{
			goal{"w", "allocs", beyondFloor, 1, workload.Less}, result("allocs", workload.Less, 16, 19, 19, 14),
			answer{"at most 1.00 us beyond floor", "2.00 us", false, "short by 100 %"},
		},
		{
			goal{"w", "cpu", beyondPeer, 0, workload.Less}, result("cpu", workload.Less, 3, 1),
			answer{"at most 0 us beyond statedb/reconciler", "2.00 us", false, "short by 2.00 us"},
		},
		{
			goal{"w", "cpu", beyondPeer, 0, workload.Less}, result("cpu", workload.Less, 1, 3),
			answer{"at most 0 us beyond statedb/reconciler", "-2.00 us", true, ""},
		},
	} {
		got, ok := c.goal.answer(c.result)
		require.True(t, ok)
		assert.Equal(t, c.want, got)
	}
}

func TestGoalUsesTheVariantOfTheWorkload(t *testing.T) {
	r := results(t, workload.Workload{
		Name: "w", Contenders: []string{subject.Statekeel4, subject.Statekeel, subject.Peer, subject.Floor},
	}, map[string][]workload.Figures{
		subject.Statekeel4: {figure("speed", workload.More, 300)},
		subject.Statekeel:  {figure("speed", workload.More, 100)},
		subject.Peer:       {figure("speed", workload.More, 50)},
		subject.Floor:      {figure("speed", workload.More, 150)},
	})
	for _, c := range []struct {
		against against
		want    answer
	}{
		{itself, answer{"at least 4.00 us", "300 us by statekeel-4", true, ""}},
		{ratioToOne, answer{"at least 4.00 x statekeel", "3.00 x by statekeel-4", false, "short by 25.0 %"}},
		{ratioToPeer, answer{"at least 4.00 x statedb/reconciler", "6.00 x by statekeel-4", true, ""}},
		{ratioToFloor, answer{"at least 4.00 x floor", "2.00 x by statekeel-4", false, "short by 50.0 %"}},
	} {
		got, ok := goal{"w", "speed", c.against, 4, workload.More}.answer(r)
		require.True(t, ok)
		assert.Equal(t, c.want, got)
	}
}

func TestGoalOfObservedComparesWithBare(t *testing.T) {
	r := results(t, workload.Workload{
		Name: "w", Contenders: []string{subject.StatekeelObserved, subject.StatekeelBare},
	}, map[string][]workload.Figures{
		subject.StatekeelObserved: {figure("speed", workload.More, 90)},
		subject.StatekeelBare:     {figure("speed", workload.More, 100)},
	})
	got, ok := goal{"w", "speed", ratioToBare, 0.95, workload.More}.answer(r)
	require.True(t, ok)
	assert.Equal(t, answer{"at least 0.95 x statekeel+bare", "0.9 x by statekeel+observed", false, "short by 5.26 %"}, got)
	assert.Equal(t, subject.StatekeelBare, bestPeer(r))
}

func TestGoalOfAnAdapterComparesWithItsPeer(t *testing.T) {
	pair := func(ours, theirs string, metric string, better workload.Better, mine, other float64) *series.Result {
		return results(t, workload.Workload{Name: "w", Contenders: []string{ours, theirs}}, map[string][]workload.Figures{
			ours: {figure(metric, better, mine)}, theirs: {figure(metric, better, other)},
		})
	}
	for _, c := range []struct {
		goal   goal
		result *series.Result
		rival  string
		want   answer
	}{
		{
			goal{"w", "speed", ratioToKube, 2.5, workload.More},
			pair(subject.StatekeelRequest, subject.ControllerRuntime, "speed", workload.More, 500, 200), subject.ControllerRuntime,
			answer{"at least 2.50 x controller-runtime", "2.50 x by statekeel/request", true, ""},
		},
		{
			goal{"w", "speed", ratioToKube, 2.5, workload.More},
			pair(subject.StatekeelRequest8, subject.ControllerRuntime8, "speed", workload.More, 400, 200), subject.ControllerRuntime8,
			answer{"at least 2.50 x controller-runtime-8", "2.00 x by statekeel/request-8", false, "short by 20.0 %"},
		},
		{
			goal{"w", "speed", ratioToXP, 10, workload.More},
			pair(subject.StatekeelManaged8, subject.Crossplane8, "speed", workload.More, 50, 10), subject.Crossplane8,
			answer{"at least 10.0 x crossplane-runtime-8", "5.00 x by statekeel/managed-8", false, "short by 50.0 %"},
		},
		{
			goal{"w", "time", beyondUpdate, 2, workload.Less},
			pair(subject.StatekeelStepper, subject.Statekeel, "time", workload.Less, 3, 2), subject.Statekeel,
			answer{"at most 2.00 us beyond statekeel", "1.00 us by statekeel/stepper", true, ""},
		},
		{
			goal{"w", "time", beyondUpdate, 3, workload.Less},
			pair(subject.StatekeelStateful, subject.StatekeelResources, "time", workload.Less, 8, 2), subject.StatekeelResources,
			answer{"at most 3.00 us beyond statekeel+resources", "6.00 us by statekeel/stateful", false, "short by 100 %"},
		},
	} {
		got, ok := c.goal.answer(c.result)
		require.True(t, ok)
		assert.Equal(t, c.want, got)
		assert.Equal(t, c.rival, bestPeer(c.result))
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

func TestGoalOfManagedComparesWithTheFakePackage(t *testing.T) {
	r := results(t, workload.Workload{
		Name: "w", Contenders: []string{subject.StatekeelManaged, subject.Crossplane, subject.CrossplaneCopied},
	}, map[string][]workload.Figures{
		subject.StatekeelManaged: {figure("speed", workload.More, 50)},
		subject.Crossplane:       {figure("speed", workload.More, 5)},
		subject.CrossplaneCopied: {figure("speed", workload.More, 8)},
	})
	got, ok := goal{"w", "speed", ratioToXP, 10, workload.More}.answer(r)
	require.True(t, ok)
	assert.Equal(t, answer{"at least 10.0 x crossplane-runtime", "10.0 x by statekeel/managed", true, ""}, got)
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
	alone := results(t, workload.Workload{Name: "w", Contenders: []string{subject.Statekeel}},
		map[string][]workload.Figures{subject.Statekeel: {figure("cpu", workload.Less, 1)}})
	for _, a := range []against{ratioToPeer, ratioToFloor, ratioToBare, ratioToKube, ratioToXP, ratioToWatchers, beyondPeer, beyondFloor, growthBeyondFloor} {
		_, ok := goal{"w", "cpu", a, 1, workload.Less}.answer(alone)
		assert.False(t, ok)
	}
	_, ok := goal{"w", "latency", itself, 1, workload.Less}.answer(alone)
	assert.False(t, ok, "not measured")

	withFloor := results(t, workload.Workload{Name: "w", Contenders: []string{subject.Statekeel, subject.Floor}},
		map[string][]workload.Figures{
			subject.Statekeel: {figure("cpu", workload.Less, 1)}, subject.Floor: {figure("cpu", workload.Less, 1)},
		})
	_, ok = goal{"w", "cpu", growthBeyondFloor, 1, workload.Less}.answer(withFloor)
	assert.False(t, ok, "fewer rows were not measured")

	variant := results(t, workload.Workload{Name: "w", Contenders: []string{subject.Statekeel2, subject.Statekeel}},
		map[string][]workload.Figures{subject.Statekeel2: {figure("cpu", workload.Less, 1)}})
	_, ok = goal{"w", "cpu", ratioToOne, 1, workload.More}.answer(variant)
	assert.False(t, ok)
	other := results(t, workload.Workload{Name: "w", Contenders: []string{subject.Statekeel2, subject.Statekeel}},
		map[string][]workload.Figures{subject.Statekeel: {figure("cpu", workload.Less, 1)}})
	_, ok = goal{"w", "cpu", itself, 1, workload.Less}.answer(other)
	assert.False(t, ok, "one variant does not replace another")
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
