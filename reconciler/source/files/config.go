// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package files

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/statekeel/statekeel/reconciler/source"
)

// Defaults of [Config].
const (
	defaultSettle  = 2 * time.Second
	defaultPoll    = 2 * time.Second
	defaultMaxSize = 64 << 20
)

// Config is the configuration of a [Source].
type Config[Obj any] struct {
	// Path is a folder, or a file. It may be missing for a while, and may be a symbolic link. Required.
	Path string
	// Match is the pattern of the names of the files in a folder, as of [filepath.Match], such as "*.yaml". Empty means
	// all but those that begin with "." or "#" or end with "~", which editors leave behind. Folders in the
	// folder are not read.
	Match string
	// Parse makes objects of a file. file is its path, as in Path; data must not be changed. An error, a panic, or an object
	// without a primary key makes the file a bad file: what its last good version wanted stays. The error should name line
	// and column; a line of its text, with the indented lines after it, is one problem, and begins with the path, which is
	// put before it unless it is there. Required. Parse is called by the goroutine of Run, without a lock, when the content
	// of a file has changed. While it runs nothing else is read: health names a call that hangs.
	Parse func(file string, data []byte) ([]Entry[Obj], error)
	// Sink writes the objects into the table. It belongs to this source alone, and is not closed by it. Its health is
	// told of bad files, too. Required.
	Sink *source.Sink[Obj]

	// Settle is how long a file must be unchanged before it is read, where it cannot be seen whether a program
	// still writes it, and how long a file must be missing before what it wanted is removed. What a file that is there
	// wants no longer is removed after a tenth of it. Zero means 2 s.
	//
	// It cannot be seen on other systems than Linux; for a file that a program had open before Run began, or has closed
	// while another still has it open; and, unless inotify has told that it was closed, for a file of another user without
	// CAP_LEASE, and on most network file systems.
	Settle time.Duration
	// Poll is the time between looks at the files without an event. Zero means 2 s. It is longer if a look takes over a
	// hundredth of it.
	Poll time.Duration
	// MaxSize is the number of bytes above which a file is a bad file. Zero means 64 MiB.
	MaxSize int64

	// Log gets what the source does besides its work. Nil means none.
	Log *slog.Logger
}

// Entry is an object of a file.
type Entry[Obj any] struct {
	Object Obj
	// Line and Column are where it begins in the file, for errors. Zero is not known.
	Line, Column int
}

// complete returns the configuration with its defaults, or all that is wrong with it.
func (c Config[Obj]) complete() (Config[Obj], error) {
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("Config."+field+" "+format, args...))
	}
	if c.Path == "" {
		wrong("Path", "is empty")
	}
	if _, err := filepath.Match(c.Match, ""); err != nil {
		wrong("Match", "is %q: %w", c.Match, err)
	}
	if c.Parse == nil {
		wrong("Parse", "is nil")
	}
	if c.Sink == nil {
		wrong("Sink", "is nil")
	}
	if c.Settle < 0 {
		wrong("Settle", "is %s, must not be negative", c.Settle)
	}
	if c.Poll < 0 {
		wrong("Poll", "is %s, must not be negative", c.Poll)
	}
	if c.MaxSize < 0 {
		wrong("MaxSize", "is %d, must not be negative", c.MaxSize)
	}
	if c.Path != "" {
		c.Path = filepath.Clean(c.Path)
	}
	c.Settle = cmp.Or(c.Settle, defaultSettle)
	c.Poll = cmp.Or(c.Poll, defaultPoll)
	c.MaxSize = cmp.Or(c.MaxSize, defaultMaxSize)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c, errors.Join(errs...)
}

// matches reports whether a file of the folder is read.
func (c *Config[Obj]) matches(name string) bool {
	if c.Match == "" {
		return !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "#") && !strings.HasSuffix(name, "~")
	}
	is, _ := filepath.Match(c.Match, name)
	return is
}
