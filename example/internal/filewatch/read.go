// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package filewatch

import (
	"context"
	"io"
	"os"
	"time"
)

const (
	// unseen is how long a file must be unchanged before it is read, where the system does not say whether a program
	// has it open for writing.
	unseen = 2 * time.Second

	// patience is the same for a file that a program has open for writing: it may have stalled, or keep the file open
	// for ever.
	patience = 10 * time.Second
)

// Read returns the first bytes of a file, up to a number. It waits while the file may be half written, until the
// context ends: until no program has it open for writing, or it was unchanged for a while. A file that was closed
// between two writes is not recognized as half written.
func Read(ctx context.Context, path string, most int64) ([]byte, error) {
	var last os.FileInfo
	var changed time.Time
	for {
		data, info, err := read(path, most, func(info os.FileInfo, quiet time.Duration) bool {
			if last == nil || !unchanged(last, info) {
				last, changed = info, time.Now()
				if info.ModTime().Before(changed) {
					changed = info.ModTime()
				}
			}
			return time.Since(changed) >= quiet
		})
		if err != nil || info != nil && (!info.Mode().IsRegular() || unchanged(last, info)) {
			return data, err // what was read of a pipe cannot be read again
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// read reads a file if that may be read, and returns its description after that, or nil. It calls may with the
// description and for how long the file must be unchanged.
func read(path string, most int64, may func(os.FileInfo, time.Duration) bool) (data []byte, info os.FileInfo, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }() // only read
	if info, err = file.Stat(); err != nil {
		return nil, nil, err
	}
	quiet := time.Duration(0)
	if info.Mode().IsRegular() {
		quiet = mustBeQuiet(file)
	}
	if !may(info, quiet) {
		return nil, nil, nil
	}
	if data, err = io.ReadAll(io.LimitReader(file, most)); err == nil {
		info, err = file.Stat()
	}
	return data, info, err
}

// unchanged reports whether two descriptions are of a file with the same content.
func unchanged(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
