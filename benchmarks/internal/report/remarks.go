// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	"path"
	"slices"
	"strings"
)

// remarks say what limits the figures of workloads, by the patterns of their names.
var remarks = []struct {
	workloads []string
	text      string
}{
	{[]string{"noop-single", "noop-batch"}, "statedb takes nearly all of the time: the floor pays for the same clones, compare-and-swaps and " +
		"transactions. Statekeel adds the record of each operation and the plan."},
	{[]string{"noop-beside-*", "reconcilers-8-beside"}, "Statekeel writes nothing for an object that is done, so most of the time is the insertion, which the floor has " +
		"too. Each row has a counter of its calls."},
	{[]string{"noop-10m"}, "Each row has a counter of its calls, about 10 ns an object for all contenders."},
	{[]string{"load-15us"}, "The writer and the operation take 35 us a row; the rest is the loop. The writer holds the table " +
		"for 100 ms at a time, so statuses are written only in between."},
	{[]string{"failing-*"}, "A retry costs a look-up of the current row and a place in a heap. An unchanged failure is not " +
		"written."},
	{[]string{"delete"}, "The heap is what statedb's graveyard keeps of its last transaction until the next deletion. It is " +
		"large for a contender that keeps up with the deletions, the floor included: statedb then collects " +
		"them all at once."},
	{[]string{"refresh"}, "All rows are due at once. At most 128 wait in the lane of refreshes. The " +
		"p99 of fresh inserts is mostly garbage collection."},
	{[]string{"refresh-batch"}, "Rows are done before the contender starts, and no row is due twice. A run that stopped waiting is " +
		"completed with calls that cost nothing, and then checked as every run."},
	{[]string{"slow-1ms", "head-of-line", "workers-*"}, "The peer has no workers. Nor has Statekeel by default: one slow operation holds up all others. A " +
		"sleep of 1 ms takes 1.06 ms: 64 workers do at most 60,000 a second."},
	{[]string{"workers-*"}, "An operation is a number of steps, calibrated to take 20 us on a free core."},
	{[]string{"stuck-64"}, "At the end the run checks that 64 other operations run beside 64 that are stuck or slow."},
	{[]string{"behind-backlog"}, "The peer would finish a new row when the load is finished: after 21.6 s."},
	{[]string{"breaker"}, "The target heals just after a probe, so Statekeel's figure includes the full wait for the next " +
		"probe, a second. The peer's includes the rest of its backoffs."},
	{[]string{"blocked-*"}, "Memory is what heap and stacks occupy, with the gaps between objects; \"heap\" elsewhere is live " +
		"bytes."},
	{[]string{"observed-noop"}, "The readers run in the same process, so their requests and the memory statistics of expvar count. " +
		"Single runs vary by more than the difference: hence a full series has five runs."},
	{[]string{"request-*"}, "controller-runtime forgets a request when it is done. Statekeel keeps a row with an outcome, and " +
		"two writes to statedb for each request take half of its time. Added requests lose their row again: " +
		"two more writes."},
	{[]string{"stepper", "stateful"}, "All rows exist before the loop starts, so \"time\" is only the loop's. A new row costs stateful " +
		"most: it compares with nothing, encodes JSON and fills a map."},
	{[]string{"managed-*"}, "A poll of an unchanged resource. crossplane-runtime writes each status at each poll, by design; " +
		"Statekeel writes none. With one worker half of Statekeel's 3 us is the lifecycle and half the " +
		"loop. With eight workers a poll costs half as much again, on 1.7 cores instead of 1.1, so the " +
		"throughput is about the same; crossplane-runtime uses the second core for copies, so the ratio is " +
		"lower. The goal is against the resources of its fake package, copied by way of JSON; \"+copied\" " +
		"copies as generated code does, is the stricter comparison, and the ratio there is below 10."},
}

// remarkOn returns the remarks on a workload, "" if there are none.
func remarkOn(workload string) string {
	var texts []string
	for _, r := range remarks {
		if slices.ContainsFunc(r.workloads, func(pattern string) bool {
			matches, _ := path.Match(pattern, workload)
			return matches
		}) {
			texts = append(texts, r.text)
		}
	}
	return strings.Join(texts, " ")
}
