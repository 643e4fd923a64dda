// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package files

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler/source"
)

// walk is a random walk of writers, in a folder with a few files, and a model of what the files want.
type walk struct {
	*env
	rng *rand.Rand
	// good has the last good version of each file, bad the files whose last version is bad.
	good map[string][]*row
	bad  map[string]bool
	// blind reports whether closing cannot be seen: half a file may be read then, if its writer is slow.
	blind bool
}

// Whatever writers do, and in which way, the table is what the files want once they are loaded, and never what half a
// file wants.
func TestWalkEqualsTheModel(t *testing.T) {
	for range long.Times(6) {
		seed := rand.Uint64()
		for name, prepare := range map[string]func(*Source[*row]){"with events": func(*Source[*row]) {}, "without": noInotify} {
			t.Run(name, func(t *testing.T) {
				e := newEnv(t)
				defer func() {
					if t.Failed() {
						e.mu.Lock()
						defer e.mu.Unlock()
						parsed := e.parsed[max(0, len(e.parsed)-10):]
						t.Logf("seed %d; the last contents that were parsed: %q\n%s", seed, parsed, e.log)
					}
				}()
				w := &walk{e, rand.New(rand.NewPCG(seed, 0)), map[string][]*row{}, map[string]bool{}, name == "without"}
				s := e.source(func(_ *env, cfg *Config[*row], to *source.Config[*row]) {
					cfg.Settle, cfg.Poll, to.AllowEmpty = 10*time.Millisecond, 20*time.Millisecond, true
					to.MaxDeletions.Rows = w.rng.IntN(3)
				})
				prepare(s)
				e.run(s)
				initialised := false
				for range 60 {
					// Of two changes of one file the source need not see the first.
					for _, file := range w.rng.Perm(4)[:1+w.rng.IntN(3)] {
						w.step(string(rune('a' + file)))
					}
					w.check(s, &initialised)
				}
			})
			if t.Failed() {
				return
			}
		}
	}
}

// step changes a file.
func (w *walk) step(name string) {
	if _, is := w.good[name]; is && len(w.good) > 1 && w.rng.IntN(6) == 0 {
		w.Logf("%s: removed", name)
		w.remove(name)
		delete(w.good, name)
		delete(w.bad, name)
		return
	}
	var rows []*row
	var lines []string
	for key := range 5 {
		if w.rng.IntN(2) == 0 {
			rows = append(rows, &row{fmt.Sprint(key), fmt.Sprint(name, w.rng.IntN(10))})
			lines = append(lines, rows[len(rows)-1].Key+"="+rows[len(rows)-1].Value)
		}
	}
	bad := w.rng.IntN(5) == 0
	if bad {
		lines = append(lines, "bad")
	}
	content := strings.Join(lines, "\n") + "\n"
	way := w.rng.IntN(5)
	if w.blind && bad {
		way = 0 // the first half may be good
	}
	w.Logf("%s: %d, %q", name, way, content)
	switch way {
	case 0:
		w.replace(name, content)
	case 1:
		// As by an editor that takes the file away first.
		_ = os.Rename(w.path(name), w.path(name+"~"))
		w.put(name, content)
	case 2:
		target := filepath.Join(w.TempDir(), "target")
		require.NoError(w, os.WriteFile(target, []byte(content), 0o644))
		require.NoError(w, os.Symlink(target, w.path(".link")))
		require.NoError(w, os.Rename(w.path(".link"), w.path(name)))
	case 3:
		half := w.rng.IntN(len(content))
		file := w.begin(name, content[:half])
		time.Sleep(time.Duration(w.rng.IntN(3)) * time.Millisecond)
		w.write(file, content[half:])
		require.NoError(w, file.Close())
	default:
		w.put(name, content)
	}
	w.bad[name] = bad
	if !bad {
		w.good[name] = rows
	} else if _, was := w.good[name]; !was {
		w.good[name] = nil
	}
}

// check waits until what is on disk is in the table, and compares it with the model.
func (w *walk) check(s *Source[*row], initialised *bool) {
	err := s.Loaded(w.Context(), w.dir)
	held := w.sink.Snapshot().Held
	require.Equal(w, held != nil, errors.Is(err, source.ErrHeld), "%v", err)
	if held != nil {
		// What is held is in the table beside what the files want, until it is approved.
		before := w.table.NumObjects(w.db.ReadTxn())
		n, failed := w.sink.Approve(w.Context(), held.Set)
		require.NoError(w, failed)
		require.Equal(w, []int{held.Rows, before - held.Rows}, []int{n, w.table.NumObjects(w.db.ReadTxn())})
		err = s.Loaded(w.Context(), w.dir)
	}
	want, lost := map[string]string{}, 0
	for _, name := range slices.Sorted(maps.Keys(w.good)) {
		for _, r := range w.good[name] {
			if _, taken := want[r.Key]; taken {
				lost++
			} else {
				want[r.Key] = r.Value
			}
		}
	}
	bad := 0
	for _, is := range w.bad {
		if is {
			bad++
		}
	}
	require.Equal(w, bad+lost > 0, err != nil, "%v", err)
	var rows []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		rows = append(rows, key+"="+want[key])
	}
	require.Equal(w, strings.Join(rows, " "), w.rows())
	in := w.input()
	require.Equal(w, bad+lost, in.Rejected, "%v", in.Problems().First)
	*initialised = *initialised || bad == 0
	if *initialised {
		require.True(w, w.initialized())
	}
}
