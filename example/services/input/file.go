// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package input

import (
	"bytes"
	"context"
	"math"

	"github.com/statekeel/statekeel/example/internal/filewatch"
	"github.com/statekeel/statekeel/example/services/proxy"
)

// File is a YAML file with services. Its edits are followed. An invalid file changes nothing: the last good one stays
// in force, and the problem is logged once.
type File struct {
	path     string
	data     []byte
	services []*proxy.Service
	// version counts the good contents. trouble is the text of the last error.
	version uint64
	trouble string
}

// OpenFile reads a file. The error has the positions of the problems. It waits while the file may be half written, until
// the context ends.
func OpenFile(ctx context.Context, path string) (*File, error) {
	data, err := filewatch.Read(ctx, path, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	services, err := parseFile(path, data)
	if err != nil {
		return nil, err
	}
	return &File{path: path, data: data, services: services}, nil
}

// ReadFile returns the services of a file, which it reads like [OpenFile].
func ReadFile(ctx context.Context, path string) ([]*proxy.Service, error) {
	f, err := OpenFile(ctx, path)
	if err != nil {
		return nil, err
	}
	return f.services, nil
}

func (f *File) name() string { return "file" }

func (f *File) job(to feed) (func(context.Context) error, error) {
	return func(ctx context.Context) error {
		changed := filewatch.Watch(ctx, f.path, to.log)
		f.apply(ctx, to)
		for {
			f.reload(ctx, to)
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			}
		}
	}, nil
}

// reload applies the file if it has changed.
func (f *File) reload(ctx context.Context, to feed) {
	data, err := filewatch.Read(ctx, f.path, math.MaxInt64)
	if ctx.Err() != nil || err == nil && bytes.Equal(data, f.data) && f.trouble == "" {
		return
	}
	var services []*proxy.Service
	if err == nil {
		services, err = parseFile(f.path, data)
	}
	if err != nil {
		f.complain(to, err)
		return
	}
	f.data, f.services = data, services
	f.apply(ctx, to)
}

func (f *File) apply(ctx context.Context, to feed) {
	f.version++
	replace := to.sink.Replace
	if len(f.services) == 0 { // the file says so
		replace = func(ctx context.Context, _ []*proxy.Service, at uint64) (int, error) { return to.sink.Clear(ctx, at) }
	}
	changed, err := replace(ctx, f.services, f.version)
	if err != nil {
		if ctx.Err() == nil {
			f.complain(to, err)
		}
		return
	}
	f.trouble = ""
	to.health.OK("applied")
	to.log.Info("file applied", "file", f.path, "services", len(f.services), "changed", changed)
}

// complain reports an error, unless it is the same as the last one.
func (f *File) complain(to feed, err error) {
	if err.Error() == f.trouble {
		return
	}
	f.trouble = err.Error()
	to.health.Degraded("the last good file stays in force", err)
	to.log.Error("file not applied, the last good one stays in force", "file", f.path, "error", err)
}
