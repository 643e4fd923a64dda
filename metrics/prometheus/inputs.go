// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus

import (
	"errors"

	"github.com/cilium/statedb"
	client "github.com/prometheus/client_golang/prometheus"

	"github.com/statekeel/statekeel/internal/inputs"
)

// Inputs is a [client.Collector] for the sources and derivations of a database: what fills its tables. It
// reads the tables <table>-inputs at each scrape. Each of its metrics has the labels "table", the table
// that is filled, and "input": the name of a source, or the input table of a derivation.
//
//   - input_connected: 1 while the source is followed, or the derivation runs, else 0;
//   - input_revision: the revision of the source, or of the input table, that the table includes; 0 before the first full list;
//   - input_rejected_objects: objects of the input that are in error, and so not in the table as it wants them;
//   - input_held_deletions: deletions of the input that are held until somebody approves them.
//
// A source or a derivation that was closed is not shown. Inputs is safe for concurrent use. See [NewInputs].
type Inputs struct {
	db     *statedb.DB
	values []*client.Desc
}

const (
	labelTable = "table"
	labelInput = "input"
)

// inputValue is a metric of an input.
type inputValue struct {
	name, help string
	of         func(*inputs.Input) float64
}

var inputValues = []inputValue{
	{"input_connected", "1 while the source is followed, or the derivation runs, else 0.", func(i *inputs.Input) float64 {
		if i.Connected {
			return 1
		}
		return 0
	}},
	{"input_revision", "Revision of the source, or of the input table, that the table includes.",
		func(i *inputs.Input) float64 { return float64(i.Input) }},
	{"input_rejected_objects", "Objects of the input that are in error, and so not in the table as it wants them.",
		func(i *inputs.Input) float64 { return float64(i.Rejected) }},
	{"input_held_deletions", "Deletions of the input that are held, because they are too many, until somebody approves them.",
		func(i *inputs.Input) float64 { return float64(i.Held) }},
}

// NewInputs returns an Inputs for all tables of a database, also those that are registered later. db must not
// be nil. It takes the options of [New], and can be registered beside a [Metrics] with the same namespace;
// "table" and "input" must not be constant labels. For several databases in one registry, give each a constant
// label with another value, the same label for all. The error joins everything that is wrong.
func NewInputs(db *statedb.DB, options ...Option) (*Inputs, error) {
	s, err := settingsOf(options, labelTable, labelInput)
	if db == nil {
		err = errors.Join(err, errors.New("db is nil"))
	}
	if err != nil {
		return nil, err
	}
	i := &Inputs{db: db}
	for _, v := range inputValues {
		i.values = append(i.values, s.desc(v.name, v.help, labelTable, labelInput))
	}
	return i, nil
}

// Describe is called by the registry.
func (i *Inputs) Describe(descs chan<- *client.Desc) {
	for _, d := range i.values {
		descs <- d
	}
}

// Collect is called by the registry, at each scrape. It waits for no source and no derivation.
func (i *Inputs) Collect(out chan<- client.Metric) {
	for table, input := range inputs.All(i.db) {
		for n, v := range inputValues {
			out <- gauge(i.values[n], v.of(input), labelValue(table), labelValue(input.Name))
		}
	}
}
