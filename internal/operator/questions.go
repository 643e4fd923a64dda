// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// The lists have texts that are cut to the size of a table's cell, so a bounded number of lines bounds an
// answer. Explain and show have the texts in full. Keys are whole: they name objects.

// Commands returns the commands: those that ask, and then those that act, in the order of their buttons.
func Commands() []Command {
	all := []Command{
		{
			Name: "", Run: list,
			Summary: "List the reconcilers with their figures",
			Detail: []string{
				"One line for each reconciler: the rows of its table, the objects that fail or are blocked, and the changes that it has not read yet (unseen). The summary names the problems, or says that all rows are applied. Long error texts are cut, also in JSON. After them come the sources that fill tables, if there are any.",
				"",
				"Next commands:",
				"- reconciler/show NAME: all figures of one reconciler",
				"- reconciler/objects NAME --status=Error: the objects that fail",
				"- reconciler/explain NAME KEY: why an object is not reconciled",
				"- reconciler/journal NAME: the latest operations",
			},
			Examples: []string{"reconciler"},
		},
		{
			Name: "show", Args: []string{ArgName}, OnSource: true, Run: show,
			Summary: "Show the condition, figures and settings of a reconciler, or the state of a source",
			Detail: []string{
				"Condition, progress, objects by state, the latest classes of errors with an example of each, stuck operations, paused objects, what the last resync found, and the settings in force.",
				"",
				"A resync lists the target and compares it with the table. Equal objects are left alone, rows that are different or missing in the target are applied again (repair), and orphans, which no row wants, are deleted. reconciler/prune asks for one.",
				"",
				"A reconciler that is in an operation may not answer. After 100 ms the command then shows the figures of the end of its last round, with the condition busy.",
				"",
				"With the name of a source (TABLE/SOURCE): what it rejects, and which deletions it holds until somebody approves them.",
			},
			Examples: []string{"reconciler/show routes", "reconciler/show routes/files"},
		},
		{
			Name: "explain", Args: []string{ArgName, ArgKey}, Run: explain,
			Summary: "Explain why an object is, or is not, reconciled",
			Detail: []string{
				"Prints the state and its reason, then times, error, next attempt and what the object waits for, then its latest operations. An object that is neither in the table nor tracked is absent, which is not an error of the command.",
				"",
				"For a row from which others are derived it also prints whether it is in force, down to the targets, and if not, which objects of which tables hold it up, and why.",
			},
			Examples: []string{"reconciler/explain routes 10.0.0.0/24"},
		},
		{
			Name: "objects", Args: []string{ArgName}, Run: objects,
			Summary: "List objects with their states, those written last at the end",
			Flags: []Flag{
				{"status", "List only objects with this status: " + strings.Join(Statuses, ", "), "", Statuses},
				{"limit", "Number of objects, at most 1000; 0 means 50", 0, nil},
				{"after", "List the next page; the last line of a page has the value", "", nil},
			},
			Detail: []string{
				"Prints one page of the table's rows, or with --status=Deleted of the deletions that are not carried out. If there are more, the last line has the command for the next page. About 20,000 rows, or objects that are not applied, are read for a page, so a page may be short, or empty, and still have a next one. Long texts are cut; reconciler/explain NAME KEY prints them in full.",
			},
			Examples: []string{"reconciler/objects routes --status=Error --limit=10"},
		},
		{
			Name: "journal", Args: []string{ArgOptionalName}, Run: journal,
			Summary: "Show the latest operations or rounds",
			Flags: []Flag{
				{FlagKey, "Show only the operations on this object", "", nil},
				{"since", "Show only what began in this time before now (10m, say); 0 means all", time.Duration(0), nil},
				{"limit", "Show only so many of the latest of each reconciler, with --first-failures of the oldest; 0 means all", 0, nil},
				{"first-failures", "Show only the first failure of each object", false, nil},
				{"rounds", "Show rounds instead of operations", false, nil},
			},
			Detail: []string{
				"Prints each operation with its cause and result, the latest last, of one reconciler or of all. The journal keeps the latest 1024 operations of the latest 128 rounds. Long texts are cut: reconciler/explain NAME KEY prints the last error in full.",
				"",
				"The cause is change, refresh, retry, requeue, released, recheck, probe, breaker closed, resumed, call, orphan, repair, adopted or verify. A result is \"lost\" if the object changed while the operation ran: it was not written to the row. It is \"merged\" if another reconciler wrote the object meanwhile: it was added to that version.",
				"",
				"With --first-failures: the first failure of each object, the oldest first.",
				"",
				"With --rounds: why each round ran, what it planned, what it committed, and how long that took.",
			},
			Examples: []string{
				"reconciler/journal routes --since=5m",
				"reconciler/journal routes --key=10.0.0.0/24",
				"reconciler/journal routes --first-failures --limit=3",
				"reconciler/journal --rounds --limit=10",
			},
		},
		{
			Name: "plan", Args: []string{ArgOptionalName}, Waits: true, Run: plan,
			Summary: "Show what a resync would do now, without doing it",
			Flags: []Flag{
				{"timeout", "Longest time to wait for the table and the listing; 0 returns at once", time.Minute, nil},
			},
			Detail: []string{
				"Lists the target, without a name those of all reconcilers that list one, and compares it with the rows of now: objects that no row wants (orphan), rows that the target does not have (missing) or has otherwise (different), and how many are equal. Rows that are not applied yet are compared, too. No operation is called. It works while the reconciler is paused, and waits until the table is initialised and for a listing that runs.",
				"",
				"Up to 200 differences are printed, with long texts cut.",
			},
			Examples: []string{"reconciler/plan routes"},
		},
	}
	for i := range actions {
		all = append(all, actions[i].command())
	}
	return all
}

// FlagKey is the flag with the key of an object.
const FlagKey = "key"

// listed is the data of the list: the snapshots of reconcilers and sources, with cut texts.
type listed struct {
	Reconcilers []inspect.Snapshot       `json:"reconcilers"`
	Sources     []inspect.SourceSnapshot `json:"sources,omitempty"`
}

// list reads the reconcilers concurrently: each one that is busy takes 100 ms.
func list(ctx context.Context, in *Input) (Answer, error) {
	all := in.Registry.All()
	out := listed{Reconcilers: make([]inspect.Snapshot, len(all))}
	var asked sync.WaitGroup
	for i, r := range all {
		asked.Go(func() { out.Reconcilers[i] = r.Snapshot(ctx) })
	}
	asked.Wait()
	for i := range out.Reconcilers {
		s := &out.Reconcilers[i]
		s.PruneFailure, s.Breaker = text.Cell(s.PruneFailure), text.Cell(s.Breaker)
		s.Errors = slices.Clone(s.Errors)
		for j := range s.Errors {
			s.Errors[j].Example = text.Cell(s.Errors[j].Example)
		}
	}
	sources := in.Registry.Sources()
	for _, s := range sources {
		x := s.Snapshot()
		x.Error, x.Problems = text.Cell(x.Error), slices.Clone(x.Problems)
		for i, problem := range x.Problems {
			x.Problems[i] = text.Cell(problem)
		}
		out.Sources = append(out.Sources, x)
	}
	tables := []text.Table{snapshotsTable(out.Reconcilers)}
	if len(out.Sources) > 0 {
		tables = append(tables, sourcesTable(out.Sources))
	}
	return Answer{Data: out, Reports: []text.Report{{Tables: tables}}, Reconcilers: all, Sources: sources}, nil
}

func show(ctx context.Context, in *Input) (Answer, error) {
	if in.Source != nil {
		s := in.Source.Snapshot()
		return Answer{Data: s, Reports: []text.Report{s.Report(time.Now())}}, nil
	}
	s := in.Reconciler.Snapshot(ctx)
	return Answer{Data: s, Reports: []text.Report{s.Report()}}, nil
}

func explain(ctx context.Context, in *Input) (Answer, error) {
	e := in.Reconciler.Explain(ctx, in.Key[0])
	if f := inForce(ctx, in); f != nil {
		e.InForce = f
	}
	return Answer{Data: e, Reports: []text.Report{e.Report()}}, nil
}

// inForce tells whether a row of the table of a derivation is in force, or a row TABLE/KEY of one that it joins; nil for
// a reconciler, which explains all that there is to say, and for what is no such row.
func inForce(ctx context.Context, in *Input) *inspect.InForce {
	table, key := in.Reconciler.ID().Table, in.Key[0]
	isDerivation := func(c inspect.Controller) bool {
		_, is := c.(inspect.LoopController)
		return !is && c.ID().Table == table
	}
	if !slices.ContainsFunc(in.Registry.All(), isDerivation) {
		return nil
	}
	f, err := in.Registry.InForce(ctx, table, key)
	if further, rest, is := strings.Cut(key, "/"); err == nil && !f.Found && f.Yes && is {
		f, err = in.Registry.InForce(ctx, further, rest)
	}
	if err != nil || !f.Found && f.Yes {
		return nil
	}
	return &f
}

// Statuses are the values of [inspect.ObjectQuery].Status; without one all rows are listed.
var Statuses = []string{"Pending", "Refreshing", "Done", "Error", "Blocked", "Unset", "Deleted"}

func objects(ctx context.Context, in *Input) (Answer, error) {
	limit, err := in.number("limit")
	if err != nil {
		return Answer{}, err
	}
	q := inspect.ObjectQuery{Status: in.Flag("status"), After: in.Flag("after"), Limit: limit}
	is := func(known string) bool { return strings.EqualFold(known, q.Status) }
	if q.Status != "" && !slices.ContainsFunc(Statuses, is) {
		return Answer{}, in.wrong("status", "%q, must be one of %s", q.Status, strings.Join(Statuses, ", "))
	}
	page, err := in.Reconciler.Objects(ctx, q)
	if err != nil {
		return Answer{}, err
	}
	page.Objects = append([]inspect.ObjectLine{}, page.Objects...) // [] in JSON, not null
	for i := range page.Objects {
		o := &page.Objects[i]
		o.Error, o.BlockedOn = text.Cell(o.Error), text.Cell(o.BlockedOn)
	}
	a := Answer{Data: page, Reports: []text.Report{{Tables: []text.Table{objectsTable(page.Objects, time.Now())}}}}
	if page.Next == "" {
		return a, nil
	}
	if q.Status != "" {
		a.More = append(a.More, "status", q.Status)
	}
	if q.Limit != 0 {
		a.More = append(a.More, "limit", strconv.Itoa(q.Limit))
	}
	a.More = append(a.More, "after", page.Next)
	return a, nil
}

// journalOf is the answer for one reconciler: operations or rounds.
type journalOf struct {
	Reconciler string              `json:"reconciler"`
	Events     []inspect.Operation `json:"events,omitempty"`
	Rounds     []inspect.Round     `json:"rounds,omitempty"`
}

func journal(_ context.Context, in *Input) (Answer, error) {
	now := time.Now()
	since, errSince := in.since("since", now)
	limit, errLimit := in.number("limit")
	q := inspect.OperationQuery{Key: in.Flag(FlagKey), Since: since, Limit: limit}
	rounds, failures := in.Is("rounds"), in.Is("first-failures")
	var errBoth error
	if rounds && failures {
		errBoth = in.both("rounds", "first-failures", "")
	}
	if rounds && q.Key != "" {
		errBoth = in.both("rounds", FlagKey, ": a round is of many objects")
	}
	if err := errors.Join(errSince, errLimit, errBoth); err != nil {
		return Answer{}, err
	}
	of := Loops(in.Registry.All())
	if in.Reconciler != nil {
		if of = Loops([]inspect.Controller{in.Reconciler}); len(of) == 0 {
			return Answer{}, fmt.Errorf("%s is a derivation: it has no journal", in.Named())
		}
	}
	journals := make([]journalOf, len(of))
	a := Answer{Data: journals}
	for i, r := range of {
		j := &journals[i]
		j.Reconciler = r.ID().String()
		var report text.Report
		if len(of) > 1 {
			report.Lead.Text = text.Plain(j.Reconciler) + ":"
		}
		switch {
		case rounds:
			j.Rounds = roundsOf(r, since, limit)
			report.Tables = []text.Table{roundsTable(j.Rounds, now)}
		case failures:
			j.Events = firstFailures(r, q)
			report.Tables = []text.Table{inspect.OperationsTable(j.Events, now)}
		default:
			j.Events = cut(r.Operations(q))
			report.Tables = []text.Table{inspect.OperationsTable(j.Events, now)}
		}
		a.Reports = append(a.Reports, report)
	}
	if len(of) == 0 {
		a.Last = "no reconcilers\n"
	}
	return a, nil
}

// firstFailures returns the first failure of each object from the journal, the oldest first. The limit of
// the query counts these.
func firstFailures(of inspect.LoopController, q inspect.OperationQuery) []inspect.Operation {
	limit := q.Limit
	q.Limit = 0
	seen := map[string]bool{}
	var first []inspect.Operation
	for _, o := range of.Operations(q) {
		if !o.Result.Failed() || seen[o.Key] {
			continue
		}
		if limit > 0 && len(first) == limit {
			break
		}
		seen[o.Key] = true
		first = append(first, o)
	}
	return cut(first)
}

// cut cuts the texts of operations, which the caller has alone.
func cut(operations []inspect.Operation) []inspect.Operation {
	for i := range operations {
		o := &operations[i]
		o.Error, o.Note = text.Cell(o.Error), text.Cell(o.Note)
	}
	return operations
}

// roundsOf returns the latest rounds from the journal that did not begin before a time, the latest last. A limit of 0
// means all.
func roundsOf(of inspect.LoopController, since time.Time, limit int) []inspect.Round {
	rounds := slices.DeleteFunc(of.Rounds(), func(r inspect.Round) bool { return r.Started.Before(since) })
	if limit > 0 && len(rounds) > limit {
		rounds = rounds[len(rounds)-limit:]
	}
	for i := range rounds {
		r := &rounds[i]
		r.Operations = cut(slices.Clone(r.Operations))
		if r.Prune != nil {
			r.Prune = &inspect.Prune{Error: text.Cell(r.Prune.Error), Took: r.Prune.Took}
		}
		if r.Resync != nil {
			resync := *r.Resync
			resync.Error = text.Cell(resync.Error)
			r.Resync = &resync
		}
	}
	return rounds
}

// plan plans for one reconciler, or for all that list their targets.
func plan(ctx context.Context, in *Input) (Answer, error) {
	timeout, err := in.Duration("timeout")
	if err != nil {
		return Answer{}, err
	}
	if in.Reconciler != nil {
		p, err := planOf(ctx, in.Reconciler, timeout)
		if err != nil {
			return Answer{}, err
		}
		return Answer{Data: p, Reports: []text.Report{p.Report()}, ToDo: p.Operations() > 0}, nil
	}
	plans, errs := []inspect.Plan{}, []error{}
	var a Answer
	for _, loop := range Loops(in.Registry.All()) {
		if !loop.Snapshot(ctx).Lists {
			continue
		}
		p, err := planOf(ctx, loop, timeout)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		a.ToDo = a.ToDo || p.Operations() > 0
		plans, a.Reports = append(plans, p), append(a.Reports, p.Report())
	}
	if len(plans)+len(errs) == 0 {
		return Answer{}, errors.New("no reconciler lists its target")
	}
	a.Data = plans
	return a, errors.Join(errs...)
}

// maxPlanned bounds the differences that a plan shows.
const maxPlanned = 200

// planOf returns what a resync of a reconciler would do.
func planOf(ctx context.Context, of inspect.Controller, timeout time.Duration) (inspect.Plan, error) {
	loop, ok := of.(inspect.LoopController)
	if !ok {
		return inspect.Plan{}, fmt.Errorf("%s is a derivation: it has no target to list", text.Plain(of.ID().String()))
	}
	listing, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p, err := loop.Plan(listing)
	p.Differences = p.Differences[:min(len(p.Differences), maxPlanned)]
	for i := range p.Differences {
		p.Differences[i].Diff = text.Cell(p.Differences[i].Diff)
	}
	return p, Overdue(ctx, timeout, err)
}
