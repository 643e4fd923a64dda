// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package input

import (
	"context"
	"log/slog"
	"os"

	"github.com/statekeel/statekeel/example/services/proxy"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/files"
)

// File is the path of a YAML file with services. Its edits are followed. A file that is missing or invalid changes nothing:
// the last good one stays in force, and at the start what the kernel has.
type File string

// ReadFile returns the services of a file as it is now. It is an error if the file is invalid, with the positions of the
// problems.
func ReadFile(path string) (services []*Entry, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	entries, err := parseFile(path, data)
	for _, e := range entries {
		services = append(services, e.Object)
	}
	return services, err
}

func (f File) name() string { return "file" }
func (f File) apart() bool  { return false }

func (f File) job(
	toServices *source.Sink[*proxy.Service], toSlices *source.Sink[*proxy.EndpointSlice], log *slog.Logger,
) (func(context.Context) error, error) {
	services, err := rowsOf(f, toServices, log, func(e *Entry) []*proxy.Service { return []*proxy.Service{e.service()} })
	if err != nil {
		return nil, err
	}
	slices, err := rowsOf(f, toSlices, nil, (*Entry).slices)
	if err != nil {
		return nil, err
	}
	return both(services.Run, slices.Run), nil
}

// rowsOf returns the source of some of the rows of a file.
func rowsOf[Row any](f File, to *source.Sink[Row], log *slog.Logger, of func(*Entry) []Row) (*files.Source[Row], error) {
	return files.New(files.Config[Row]{
		Path: string(f), Sink: to, Log: log,
		Parse: func(file string, data []byte) (rows []files.Entry[Row], err error) {
			entries, err := parseFile(file, data)
			for _, e := range entries {
				for _, row := range of(e.Object) {
					rows = append(rows, files.Entry[Row]{Object: row, Line: e.Line, Column: e.Column})
				}
			}
			return rows, err
		},
	})
}
