// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package ours writes down what a program has made in a target that cannot say so, because its objects carry no mark such as
// a label, a comment or a protocol number. An operation writes the name of an object down before it makes the object,
// and strikes it out after the object is gone:
//
//	update: if the object is there, and not written down, it is somebody else's: return an error
//	        Add its name, then make it
//	delete: if the name is not written down, there is nothing to do
//	        delete the object, then Remove its name
//	list:   All names, in place of all that the target has. One that the target lacks is listed as different from
//	        any row: it is made again, or struck out, and somebody else's object of that name is not taken for its own
//
// It has to look for the object before it calls Add: if the program ends in between, somebody else's object would be
// taken for its own.
package ours

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/statekeel/statekeel/reconciler/edge"
)

// Names are the names that are written down in a folder, an empty file each. One process at a time may have the folder open.
// The methods may be called from any goroutine.
type Names struct {
	path string
	mu   sync.Mutex
	all  map[string]bool
}

// suffix is the end of the name of a file. Other files of the folder are left alone.
const suffix = ".ours"

// Open reads the names in a folder, and makes the folder if it does not exist. The folder should live as long as the
// target does: below /run for what is in the kernel, since a start of the machine empties both. The error is that of the
// file system.
func Open(path string) (*Names, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	n := &Names{path: path, all: map[string]bool{}}
	for _, file := range files {
		if text, ours := strings.CutSuffix(file.Name(), suffix); ours {
			name, err := url.PathUnescape(text)
			if err != nil {
				return nil, fmt.Errorf("%s is no name that was written down: %w", filepath.Join(path, file.Name()), err)
			}
			n.all[name] = true
		}
	}
	return n, nil
}

// Add writes a name down: it is on the disk when Add returns nil. A name that is there already costs nothing. The error is
// that of the file system, which takes names of up to 250 bytes, in which all but letters, digits and some signs count
// threefold. ctx is that of the operation: Add is a step (package edge).
func (n *Names) Add(ctx context.Context, name string) error {
	if n.Has(name) {
		return nil
	}
	return n.change(ctx, "write down "+name, name, true, func(file string) error {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	})
}

// Remove strikes a name out: it is gone from the disk when Remove returns nil. A name that is not there costs nothing. The
// error is that of the file system. ctx is that of the operation: Remove is a step (package edge).
func (n *Names) Remove(ctx context.Context, name string) error {
	if !n.Has(name) {
		return nil
	}
	return n.change(ctx, "strike out "+name, name, false, func(file string) error {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// change changes the file of a name as one step. After an error the name may be on the disk or not.
func (n *Names) change(ctx context.Context, step, name string, added bool, change func(file string) error) error {
	return edge.Do(ctx, step, func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if err := change(filepath.Join(n.path, url.PathEscape(name)+suffix)); err != nil {
			return err
		}
		folder, err := os.Open(n.path)
		if err != nil {
			return err
		}
		defer folder.Close()
		if err := folder.Sync(); err != nil {
			return err
		}
		if added {
			n.all[name] = true
		} else {
			delete(n.all, name)
		}
		return nil
	})
}

// Has reports whether a name is written down.
func (n *Names) Has(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[name]
}

// All returns the names that are written down, sorted.
func (n *Names) All() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	names := make([]string, 0, len(n.all))
	for name := range n.all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
