// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package input

import (
	"context"
	"os"

	"github.com/statekeel/statekeel/example/services/proxy"
	"github.com/statekeel/statekeel/reconciler/source/files"
)

// File is a YAML file with services. Its edits are followed. An invalid file changes nothing: the last good one stays
// in force.
type File struct{ path string }

// OpenFile returns a file. It is an error if the file is invalid now, with the positions of the problems.
func OpenFile(path string) (*File, error) {
	_, err := ReadFile(path)
	return &File{path}, err
}

// ReadFile returns the services of a file as it is now.
func ReadFile(path string) (services []*proxy.Service, err error) {
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

func (f *File) name() string { return "file" }

func (f *File) job(to feed) (func(context.Context) error, error) {
	s, err := files.New(files.Config[*proxy.Service]{Path: f.path, Parse: parseFile, Sink: to.sink, Log: to.log})
	if err != nil {
		return nil, err
	}
	return s.Run, nil
}
