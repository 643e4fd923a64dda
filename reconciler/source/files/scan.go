// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package files

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/text"
)

// file is what is known of a file.
type file[Obj any] struct {
	path string
	// real is the path without symbolic links. It is that of the events.
	real string
	// seen describes the file as it was seen last, unchanged since then.
	seen  os.FileInfo
	since time.Time
	// begun describes the file when its folder began to be watched: a change since then is one whose end is seen. It is
	// nil if the file was made since.
	begun os.FileInfo
	// read describes what was read last; nil if nothing was. at is when, and sum the hash of the content.
	read os.FileInfo
	at   time.Time
	sum  [sha256.Size]byte

	// objs are those of the last good version, if there was one.
	objs []object[Obj]
	good bool
	// leaving are objects that an earlier version had and this one has not. They go when no other file has taken them
	// over for a while.
	leaving []leaver[Obj]
	// err is what is wrong with the last version. lost are the objects of the last good one whose key another file has,
	// and behind is one of these files that is missing, and about to give up the key; empty if there is none.
	err    error
	lost   []problem
	behind string

	// waits is what the file waits for before it is read; empty if it is read as it is on disk. writing is since when
	// a program writes it, and missing since when it is not there; zero if neither.
	waits            string
	writing, missing time.Time
}

// object is an object of a good version, with its primary key.
type object[Obj any] struct {
	Entry[Obj]
	key string
}

// leaver is an object that has left a file, and when.
type leaver[Obj any] struct {
	object[Obj]
	at time.Time
}

// writer is what was seen of the writers of a file.
type writer int

const (
	writerUnseen  writer = iota
	writerCreated        // the file was created, or linked
	writerWrites         // it was written since
	writerClosed         // it was closed or renamed after that
)

// watcher tells of changes of files.
type watcher interface {
	follow(folders map[string]struct{}) (fresh map[string]struct{}, err error)
	of(path string) writer
	take(path string) writer
	restore(path string, was writer)
	close()
}

// later is when a look is due if nothing waits.
const later = time.Hour

// scan looks at all files, and reads those that have changed and are whole. It returns after which time one that waits is
// due, or why Path cannot be read.
func (s *Source[Obj]) scan(now time.Time) (next time.Duration, err error) {
	folders := map[string]struct{}{}
	found, err := s.list(folders)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s has no file that is read: for no objects, write a file without objects", s.cfg.Path)
	}
	if err != nil {
		s.watchFolders(folders)
		return later, err
	}
	for path, real := range found {
		if s.files[path] == nil {
			s.files[path] = &file[Obj]{path: path}
		}
		s.files[path].real = real
		folders[filepath.Dir(real)] = struct{}{}
	}
	// Before the files are looked at: a change after that is an event.
	fresh := s.watchFolders(folders)
	next = later
	for _, f := range s.sorted() {
		wait := time.Duration(0)
		if _, is := found[f.path]; is {
			_, unwatched := fresh[filepath.Dir(f.real)]
			wait = s.lookAt(f, unwatched, now)
		} else if wait = s.miss(f, now); wait == 0 {
			delete(s.files, f.path)
			s.unapplied = true
		}
		if f.waits != "" {
			next = min(next, max(wait, time.Millisecond))
		}
		if wait := s.leave(f, now); wait > 0 {
			next = min(next, wait)
		}
	}
	return next, nil
}

// leave lets the objects go that left a file some time ago. It returns after which time others are due; zero for none.
func (s *Source[Obj]) leave(f *file[Obj], now time.Time) (wait time.Duration) {
	patience := s.cfg.Settle / 10
	f.leaving = slices.DeleteFunc(f.leaving, func(l leaver[Obj]) bool {
		left := patience - now.Sub(l.at)
		if left <= 0 {
			s.unapplied = true
			return true
		}
		wait = cmp.Or(min(wait, left), left)
		return false
	})
	return wait
}

// become makes objects the good version of a file. From the only file they can move nowhere.
func (s *Source[Obj]) become(f *file[Obj], objs []object[Obj], now time.Time) {
	if f.path != s.cfg.Path {
		has := make(map[string]struct{}, len(objs))
		for i := range objs {
			has[objs[i].key] = struct{}{}
		}
		for _, o := range f.objs {
			f.leaving = append(f.leaving, leaver[Obj]{o, now})
		}
		f.leaving = slices.DeleteFunc(f.leaving, func(l leaver[Obj]) bool { _, is := has[l.key]; return is })
	}
	f.objs, f.good, f.err, s.unapplied = objs, true, nil, true
}

// list returns the paths of the files, each with its path without symbolic links, and adds the folders whose changes may
// change that.
func (s *Source[Obj]) list(folders map[string]struct{}) (map[string]string, error) {
	self, err := os.Lstat(s.cfg.Path)
	if err != nil || !self.IsDir() {
		// Path may be made, or be replaced, there.
		if parent, err := filepath.EvalSymlinks(filepath.Dir(s.cfg.Path)); err == nil {
			folders[parent] = struct{}{}
		}
	}
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(s.cfg.Path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return nil, err
	case info.Mode().IsRegular():
		return map[string]string{s.cfg.Path: real}, nil
	case !info.IsDir():
		return nil, fmt.Errorf("%s is neither a folder nor a regular file", s.cfg.Path)
	}
	folders[real] = struct{}{}
	var before map[string]string
	for range maxLists {
		found, links, err := s.entries(real)
		if err != nil || !links || before != nil && maps.Equal(before, found) {
			return found, err
		}
		before = found
	}
	return nil, fmt.Errorf("%s changes while it is listed", s.cfg.Path)
}

// maxLists is how often a folder with links is listed until two lists are the same. What the links lead to may be swapped at
// once, as mounted configuration is: then one list may have a part of it, or of two versions.
const maxLists = 10

// entries is list for the folder without symbolic links, and reports whether it has such links.
func (s *Source[Obj]) entries(real string) (found map[string]string, links bool, err error) {
	entries, err := os.ReadDir(real)
	found = map[string]string{}
	for _, entry := range entries {
		if !s.cfg.matches(entry.Name()) {
			continue
		}
		path, target := filepath.Join(s.cfg.Path, entry.Name()), filepath.Join(real, entry.Name())
		switch entry.Type() {
		case 0:
			found[path] = target
		case fs.ModeSymlink:
			links = true
			// A link that leads nowhere, or to a folder, is no file.
			if target, err := s.resolve(target); err == nil {
				if info, err := os.Stat(target); err == nil && info.Mode().IsRegular() {
					found[path] = target
				}
			}
		}
	}
	return found, links, err
}

// watchFolders watches the folders, as far as the system can. It returns those that were not watched until now.
func (s *Source[Obj]) watchFolders(folders map[string]struct{}) (fresh map[string]struct{}) {
	if s.watch == nil {
		return folders
	}
	fresh, err := s.watch.follow(folders)
	if len(fresh) > 0 && err == nil {
		s.wake.Send()
	}
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != s.watchErr && said != "" {
		s.cfg.Log.Warn("Changes of files are noticed late", "path", s.cfg.Path, "every", s.cfg.Poll, "error", said)
	}
	s.watchErr = said
	return fresh
}

// lookAt looks at a file that is there, and reads it if it has changed and is whole. unwatched reports whether its
// folder was not watched until now. It returns how long the file waits.
func (s *Source[Obj]) lookAt(f *file[Obj], unwatched bool, now time.Time) time.Duration {
	if !f.missing.IsZero() {
		f.missing, s.unapplied = time.Time{}, true
	}
	info, err := os.Stat(f.real)
	if err != nil {
		f.waits = "was replaced while it was looked at"
		return gather
	}
	if f.seen == nil || !same(f.seen, info) {
		f.seen, f.since = info, now
		if mtime := info.ModTime(); mtime.Before(now) {
			f.since = mtime
		}
	}
	if unwatched {
		f.begun = info
	}
	writer := writerUnseen
	if s.watch != nil {
		writer = s.watch.of(f.real)
	}
	// A file that was written within a moment of the time when it was read may have been written again since.
	recent := f.read != nil && f.at.Sub(f.read.ModTime()).Abs() < s.cfg.Settle
	if f.read != nil && same(f.read, info) && writer == writerUnseen && !recent {
		f.waits, f.writing = "", time.Time{}
		return 0
	}
	began := time.Now()
	wait := s.readFile(f, now)
	s.reading += time.Since(began)
	return wait
}

// miss notes that a file is not there, and returns how long what it wanted stays.
func (s *Source[Obj]) miss(f *file[Obj], now time.Time) time.Duration {
	if f.missing.IsZero() {
		f.missing, f.writing = now, time.Time{}
		s.unapplied = true // others that want its keys wait for its end
	}
	if f.good && len(f.objs)+len(f.leaving) == 0 {
		return 0
	}
	f.waits = "is missing, and what it wanted is about to be removed"
	return max(0, s.cfg.Settle-now.Sub(f.missing))
}

// readFile reads a file if it is whole. It returns how long it waits.
func (s *Source[Obj]) readFile(f *file[Obj], now time.Time) time.Duration {
	data, info, wait, err := s.readWhole(f, now)
	if wait > 0 {
		return wait
	}
	f.waits, f.writing = "", time.Time{}
	sum := sha256.Sum256(data)
	known := f.read != nil && f.sum == sum
	switch {
	case err != nil:
		// It is tried again at each look.
		s.spoil(f, err)
		f.read = nil
		return 0
	case known:
		f.read, f.at = info, now
		return 0
	}
	f.read, f.at, f.sum = info, now, sum
	objs, err := s.parse(f.path, data)
	if err != nil {
		s.spoil(f, err)
		return 0
	}
	s.cfg.Log.Info("File read", "file", f.path, "objects", len(objs))
	s.become(f, objs, now)
	return 0
}

// spoil notes what is wrong with a file.
func (s *Source[Obj]) spoil(f *file[Obj], err error) {
	if f.err == nil || f.err.Error() != err.Error() {
		s.cfg.Log.Error("File not applied, its last good version stays in force", "file", f.path, "error", err)
	}
	f.err = err
}

// readWhole returns the content of a file and its description, or how long it has to wait until it may be whole.
func (s *Source[Obj]) readWhole(f *file[Obj], now time.Time) (data []byte, info os.FileInfo, wait time.Duration, err error) {
	// Not blocking: it may be a pipe by now, which nobody writes.
	file, err := os.OpenFile(f.real, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.waits = "was taken away while it was looked at"
		return nil, nil, gather, nil
	case err != nil:
		return nil, nil, 0, named(f.path, err)
	}
	defer func() { _ = file.Close() }() // only read
	// In this order: a program that has it open has changed it before the events are taken, or will change what is
	// described after that.
	written, known := s.isWritten(file)
	writer := writerUnseen
	if s.watch != nil {
		writer = s.watch.take(f.real)
		defer func() {
			if wait > 0 {
				s.watch.restore(f.real, writer)
			}
		}()
	}
	before, err := file.Stat()
	switch {
	case err != nil:
		return nil, nil, 0, named(f.path, err)
	case !same(f.seen, before):
		f.waits = "has changed since it was looked at"
		return nil, nil, gather, nil
	case !before.Mode().IsRegular():
		return nil, nil, 0, fmt.Errorf("%s: is not a regular file", f.path)
	case before.Size() > s.cfg.MaxSize:
		return nil, nil, 0, fmt.Errorf("%s: larger than %d bytes", f.path, s.cfg.MaxSize)
	}
	// The event of a change may come long after the change is there: while the file system waits for the disk.
	seen := writer == writerCreated || writer == writerWrites || f.begun == nil || !same(f.begun, before)
	quiet, needed := now.Sub(f.since), s.cfg.Settle
	if !known && writer == writerClosed {
		needed /= 10
	}
	switch {
	case known && !written:
	case written && seen, writer == writerWrites:
		if f.writing.IsZero() {
			f.writing = now
		}
		f.waits = "is open for writing: it is read when it is closed"
		return nil, nil, max(time.Millisecond, unclosed-now.Sub(f.writing)%unclosed), nil
	case quiet < needed:
		f.waits = "may be half written: it is read when it was unchanged for " + text.Duration(needed)
		return nil, nil, needed - quiet, nil
	}
	data, err = io.ReadAll(io.LimitReader(file, s.cfg.MaxSize)) // it may grow
	if err != nil {
		return nil, nil, 0, named(f.path, err)
	}
	if after, err := os.Stat(f.real); err != nil || !same(before, after) {
		f.waits = "has changed while it was read"
		return nil, nil, gather, nil
	}
	return data, before, 0, nil
}

// unclosed is after which time health names a file that a program has open for writing.
const unclosed = time.Minute

// same reports whether two descriptions are of a file with the same content.
func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// named puts the path of a file before an error, in place of the one that the error of the system has.
func named(path string, err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// parse makes objects of the content of a file. The lines of the error begin with the path.
func (s *Source[Obj]) parse(path string, data []byte) (objs []object[Obj], err error) {
	entries, err := s.call(path, data)
	if err != nil {
		return nil, err
	}
	var errs []error
	objs = make([]object[Obj], 0, len(entries))
	for i, entry := range entries {
		key, err := s.cfg.Sink.KeyOf(entry.Object)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: object %d: %w", position(path, entry), i, err))
		}
		objs = append(objs, object[Obj]{entry, key})
	}
	return objs, errors.Join(errs...)
}

// call calls Parse. A panic is an error.
func (s *Source[Obj]) call(path string, data []byte) (entries []Entry[Obj], err error) {
	s.running.Begin(guard.Parse, path)
	defer func() {
		s.running.End()
		if p := recover(); p != nil {
			err = errors.New("parsing panicked: " + outcome.TextOfAny(p))
		}
		if err != nil {
			err = errors.New(located(path, text.Cut(outcome.TextOf(err), outcome.MaxText)))
		}
	}()
	return s.cfg.Parse(path, data)
}

// located puts the path before the lines of an error. Indented lines belong to the line before.
func located(path, said string) string {
	var lines []string
	for line := range strings.SplitSeq(said, "\n") {
		switch trimmed := strings.TrimLeft(line, " \t"); {
		case len(lines) > 0 && trimmed != line:
			lines[len(lines)-1] += " " + trimmed
		case strings.HasPrefix(line, path+":"):
			lines = append(lines, line)
		default:
			lines = append(lines, path+": "+line)
		}
	}
	return strings.Join(lines, "\n")
}

// At returns the line and the column of the byte with an index, both from 1, for an [Entry] or an error: of encoding/json,
// for example, whose errors have the number of bytes that were read, which is one more than the index.
func At(data []byte, index int) (line, column int) {
	before := data[:max(0, min(index, len(data)))]
	return 1 + bytes.Count(before, []byte{'\n'}), len(before) - bytes.LastIndexByte(before, '\n')
}

// position returns where an object is, as in "a.yaml:3:5".
func position[Obj any](path string, entry Entry[Obj]) string {
	switch {
	case entry.Line == 0:
		return path
	case entry.Column == 0:
		return fmt.Sprintf("%s:%d", path, entry.Line)
	}
	return fmt.Sprintf("%s:%d:%d", path, entry.Line, entry.Column)
}

// sorted returns the files by name.
func (s *Source[Obj]) sorted() []*file[Obj] {
	return slices.SortedFunc(maps.Values(s.files), func(a, b *file[Obj]) int { return strings.Compare(a.path, b.path) })
}
