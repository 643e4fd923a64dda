// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package check

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Subject is what is checked.
type Subject struct {
	// States is the number of states, at least 1.
	States int
	// Outside are the names of the changes from outside.
	Outside []string
	// Run runs a plan.
	Run func(Plan) *Record
	// Name returns the name of a state for people.
	Name func(state int) string

	// Runs bounds the number of plans with faults, Seed chooses among more of them.
	Runs int
	Seed uint64
	// Logf tells how far the search is.
	Logf func(format string, args ...any)
	// Without leaves out checks, kinds of faults, kinds of ways and [Pairs] by their names.
	Without []string
}

// Record is what one run has shown. The dumps are what the target had by name.
type Record struct {
	// Base is from before the start, End from after the last state, Again from after another refresh, Deleted
	// from after the deletion of all rows, Absent from after another deletion of each.
	Base, End, Again, Deleted, Absent map[string]string
	// Foreign is what was added to the target before the start.
	Foreign map[string]string
	// Unapplied says which rows were not applied at End, Stuck which were not while a call failed for ever.
	Unapplied, Stuck []string
	// Compares is true if everything lists what the target has, and compares it. Unequal says what a resync of the settled
	// target has found, or what a new start on it has called.
	Compares bool
	Unequal  []string
	// Lists is true if something lists what the target has, or prunes it. If nothing does, what is left over after some
	// faults cannot be found again: see left. Added are the names that a change from outside has added then.
	Lists bool
	Added map[string]bool
	// Wrong is what the injector and the run have reported.
	Wrong []string
	// Journal has the calls of each step, and of those behind the last: see after.
	Journal [][]Call
	// Used is false if a fault of the plan did not come.
	Used bool
}

// Has reports whether the run had a call of this name.
func (r *Record) Has(call string) bool {
	return slices.ContainsFunc(r.Journal, func(calls []Call) bool {
		return slices.ContainsFunc(calls, func(c Call) bool { return c.Name == call })
	})
}

// after returns the names of the parts of a run behind the last state.
func after(p Plan, compares bool) []string {
	first := "the rest of the time"
	switch {
	case compares && len(p.Faults) > 0:
		first = "the faults are over: retry and resync, then another resync and a new start"
	case compares:
		first = "the rest of the time, then another resync and a new start"
	case p.NeedsRefresh():
		first = "the faults are over: retry, refresh and prune"
	case len(p.Faults) > 0:
		first = "the faults are over: retry and prune"
	}
	return []string{first, "another refresh", "all rows are deleted", "each row is deleted once more"}
}

// Failure is a plan that fails, and why.
type Failure struct {
	Plan Plan
	// Check is the name of the check that failed.
	Check string
	// Text says what is wrong, and the steps.
	Text string
}

// checks are asked in this order. Each returns what is wrong, or nothing.
// A report ends with the part of the run of which the check speaks: see after.
var checks = []struct {
	name string
	part int
	ask  func(r, fresh *Record, left ignored) string
}{
	{"an operation misbehaves", 4, func(r, _ *Record, _ ignored) string { return strings.Join(r.Wrong, "\n") }},
	{"the others do not converge", 0, func(r, _ *Record, _ ignored) string { return strings.Join(r.Stuck, "\n") }},
	{"the rows do not converge", 1, func(r, _ *Record, _ ignored) string { return strings.Join(r.Unapplied, "\n") }},
	{"the target is not as a fresh start on the same rows leaves it", 1, func(r, fresh *Record, left ignored) string {
		return diff(r.End, fresh.End, left)
	}},
	{"what is foreign was changed", 1, func(r, _ *Record, _ ignored) string { return diff(common(r.End, r.Foreign), r.Foreign, nil) }},
	{"a resync or a new start finds work in a settled target", 1, func(r, _ *Record, _ ignored) string { return strings.Join(r.Unequal, "\n") }},
	{"another refresh changes the target", 2, func(r, _ *Record, _ ignored) string { return diff(r.Again, r.End, nil) }},
	{"the deletion of all rows leaves something, or takes too much", 3, func(r, _ *Record, left ignored) string {
		return diff(r.Deleted, r.Base, left)
	}},
	{"the deletion of what is absent changes the target", 4, func(r, _ *Record, _ ignored) string { return diff(r.Absent, r.Deleted, nil) }},
}

// Checks returns the names of all checks.
func Checks() (names []string) {
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// Pairs is the name of the plans with two faults.
const Pairs = "pairs of faults"

// Find searches for a plan that fails, and returns nil if there is none.
func Find(s *Subject) *Failure {
	f := &finder{Subject: s, fresh: map[int]*Record{}}
	return f.find()
}

// Replay runs one plan.
func Replay(s *Subject, p Plan) *Failure {
	f := &finder{Subject: s, fresh: map[int]*Record{}}
	if failure := f.reference(p.Last()); failure != nil {
		return failure
	}
	failure, r := f.try(p)
	if failure == nil && !r.Used {
		return &Failure{Plan: p, Check: "the plan is not of this code",
			Text: fmt.Sprintf("the plan did not come to each of its faults, since the code or a state has changed: %s", p)}
	}
	return failure
}

type finder struct {
	*Subject
	fresh map[int]*Record // by state
}

// reference runs a state from scratch.
func (f *finder) reference(state int) *Failure {
	if f.fresh[state] != nil {
		return nil
	}
	p := Plan{Steps: []Step{{State: state}}}
	r := f.Run(p)
	f.fresh[state] = r
	return f.ask(p, r, r)
}

// ask returns the first failure of a run.
func (f *finder) ask(p Plan, r, fresh *Record) *Failure {
	for _, c := range checks {
		if slices.Contains(f.Without, c.name) {
			continue
		}
		if text := c.ask(r, fresh, left(p, r)); text != "" {
			return &Failure{Plan: p, Check: c.name, Text: f.report(p, r, c.part, c.name, text)}
		}
	}
	return nil
}

// try runs a plan. It returns nil if the plan does not fail.
func (f *finder) try(p Plan) (*Failure, *Record) {
	if failure := f.reference(p.Last()); failure != nil {
		return failure, nil
	}
	r := f.Run(p)
	return f.ask(p, r, f.fresh[p.Last()]), r
}

func (f *finder) report(p Plan, r *Record, part int, name, text string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n%s\nThe steps:\n", name, indent(text))
	for i, calls := range r.Journal[:min(len(r.Journal), len(p.Steps)+part)] {
		fmt.Fprintf(&b, "%d. %s\n", i+1, f.title(p, i, r.Compares))
		writeCalls(&b, calls)
	}
	fmt.Fprintf(&b, "To run this plan alone: subject.Plan = %q", p)
	return b.String()
}

// writeCalls writes the calls of a step. Those that follow each other and say the same are one line.
func writeCalls(b *strings.Builder, calls []Call) {
	lines := 0
	for at := 0; at < len(calls); {
		if lines++; lines > mostCalls {
			fmt.Fprintf(b, "     and %d more calls\n", len(calls)-at)
			return
		}
		next := at + 1
		for next < len(calls) && calls[next].String() == calls[at].String() {
			next++
		}
		fmt.Fprintf(b, "     %s", calls[at])
		if next > at+1 {
			fmt.Fprintf(b, " (%d times)", next-at)
		}
		b.WriteByte('\n')
		at = next
	}
}

// mostCalls is how many lines of a step a report shows.
const mostCalls = 30

func (f *finder) title(p Plan, at int, compares bool) string {
	if at >= len(p.Steps) {
		return after(p, compares)[at-len(p.Steps)]
	}
	s := p.Steps[at]
	title := "no rows"
	if s.State != Empty {
		title = fmt.Sprintf("state %d: %s", s.State, f.Name(s.State))
	}
	if s.Reversed {
		title += ", one by one, the last key first"
	}
	if s.Squashed {
		title += ", and at once:"
	}
	return title
}

// find goes through the phases.
func (f *finder) find() *Failure {
	ways := Ways(f.States, f.Without...)
	var single []Plan // listed way first
	listed := 0
	for i, way := range ways {
		p := Plan{Steps: way}
		failure, r := f.try(p)
		if failure != nil {
			return f.minimal(failure)
		}
		single = append(single, f.withFaults(way, r)...)
		if i == 0 {
			listed = len(single)
		}
	}
	r := rand.New(rand.NewPCG(f.Seed, 1))
	shuffle := func(plans []Plan) {
		r.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
	}
	shuffle(single[listed:])
	if listed > f.Runs {
		shuffle(single[:listed]) // else all faults come at the first calls
		spread(single[:listed])
	}
	f.Logf("%d ways; %d plans with one fault, of which at most %d are run; seed %d", len(ways), len(single), f.Runs, f.Seed)

	// A fifth of the runs is for pairs, if the faults of the listed way leave so many.
	tried := 0
	for i, p := range single {
		if tried == f.Runs || i >= listed && tried >= f.Runs*4/5 {
			break
		}
		tried++
		if failure, _ := f.try(p); failure != nil {
			return f.minimal(failure)
		}
	}
	for ; len(single) > 1 && tried < f.Runs && !slices.Contains(f.Without, Pairs); tried++ {
		one, two := single[r.IntN(len(single))], single[r.IntN(len(single))]
		p := Plan{Steps: one.Steps, Faults: append(slices.Clone(one.Faults), two.Faults...)}
		if failure, _ := f.try(p); failure != nil {
			return f.minimal(failure)
		}
	}
	f.Logf("%d plans with faults did not fail", tried)
	return nil
}

// spread sorts plans with one fault so that each kind of fault comes once at each name of a point, then once more, and so on.
func spread(plans []Plan) {
	type place struct {
		Kind
		point, outside string
	}
	turns, last := make(map[Fault]int, len(plans)), map[place]int{}
	for _, p := range plans {
		f := p.Faults[0]
		at := place{f.Kind, f.Point, f.Outside}
		last[at]++
		turns[f] = last[at]
	}
	slices.SortStableFunc(plans, func(a, b Plan) int { return turns[a.Faults[0]] - turns[b.Faults[0]] })
}

// withFaults returns the plans with one fault on a way, of which r is the run without faults.
func (f *finder) withFaults(way []Step, r *Record) (plans []Plan) {
	for i, calls := range r.Journal[:min(len(way), len(r.Journal))] {
		last := i == len(way)-1 // without a next state, Rewritten is KilledAfter
		for _, c := range calls {
			for _, kind := range c.Class.Kinds() {
				if !slices.Contains(f.Without, kind.String()) && !(last && kind == Rewritten) {
					plans = append(plans, Plan{Steps: way, Faults: []Fault{{Kind: kind, Point: c.Name, N: c.N}}})
				}
			}
			if c.Class == Entry || slices.Contains(f.Without, Outside.String()) {
				continue
			}
			for _, name := range f.Outside {
				plans = append(plans, Plan{Steps: way, Faults: []Fault{{Kind: Outside, Point: c.Name, N: c.N, Outside: name}}})
			}
		}
	}
	return plans
}

// minimal leaves out what the failure does not need.
func (f *finder) minimal(found *Failure) *Failure {
	left := 200
	Minimise(found.Plan, func(p Plan) bool {
		if left--; left < 0 {
			return false
		}
		failure, _ := f.try(p)
		if failure == nil || failure.Check != found.Check {
			return false
		}
		found = failure
		return true
	})
	return found
}

// common returns what have has under the names of base.
func common(have, base map[string]string) map[string]string {
	kept := map[string]string{}
	for name, value := range have {
		if _, ok := base[name]; ok {
			kept[name] = value
		}
	}
	return kept
}

// ignored says which names may be left over.
type ignored func(name string) bool

// left returns what a plan may leave over: nothing if something lists the target. Else what was added from outside, and all
// if a deletion may have been lost, or a row was deleted while the program was down.
func left(p Plan, r *Record) ignored {
	if r.Lists {
		return nil
	}
	for _, f := range p.Faults {
		switch f.Kind {
		case Lost, Late, KilledBefore, KilledAfter, Rewritten:
			return func(string) bool { return true }
		}
	}
	return func(name string) bool { return r.Added[name] }
}

// diff says how have differs from want, apart from what may be left over.
func diff(have, want map[string]string, left ignored) string {
	if have == nil {
		return "" // the run did not come so far
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(have)) {
		wanted, ok := want[name]
		switch {
		case !ok && (left == nil || !left(name)):
			lines = append(lines, fmt.Sprintf("has %s: %s, and should not", name, have[name]))
		case ok && wanted != have[name]:
			lines = append(lines, fmt.Sprintf("has %s: %s, not %s", name, have[name], wanted))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, ok := have[name]; !ok {
			lines = append(lines, fmt.Sprintf("lacks %s: %s", name, want[name]))
		}
	}
	return strings.Join(lines, "\n")
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
