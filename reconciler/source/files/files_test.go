// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/reconciler/source"
)

func TestAllWaysOfEditingAreFollowed(t *testing.T) {
	e, _ := start(t, func(e *env, _ *Config[*row], _ *source.Config[*row]) { e.put("a", "1=a\n") })
	e.untilRows("1=a")
	require.True(t, e.initialized())
	e.put("a", "1=b\n2=b\n")
	e.untilRows("1=b 2=b")
	e.replace("a", "1=c\n")
	e.untilRows("1=c")
	e.put("b", "3=b\n")
	e.untilRows("1=c 3=b")

	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("4=c"), 0o644))
	require.NoError(t, os.Symlink(outside, e.path("c")))
	e.untilRows("1=c 3=b 4=c")
	require.NoError(t, os.WriteFile(outside, []byte("4=d"), 0o644))
	e.untilRows("1=c 3=b 4=d")
	require.NoError(t, os.Link(outside, e.path("d")))
	e.until("the hard link is read", func() bool { return strings.Contains(e.told(), `d:1:1: "4" is also in `+e.path("c")+":1:1") })
	e.remove("c")
	e.until("the link has the key", func() bool { return e.told() == "OK: OK" })
	e.remove("d")
	e.remove("b")
	e.untilRows("1=c")
	e.put(".hidden", "9=x")
	e.put("backup~", "9=x")
	require.NoError(t, os.Mkdir(e.path("folder"), 0o755))
	e.put("a", "1=d")
	e.untilRows("1=d")
}

func TestOneFileIsFollowed(t *testing.T) {
	e, s := start(t, func(e *env, cfg *Config[*row], _ *source.Config[*row]) {
		e.put("a", "1=a")
		e.put("b", "2=b")
		cfg.Path = e.path("a")
	})
	e.untilRows("1=a")
	e.put("a", "1=b")
	e.untilRows("1=b")
	require.NoError(t, s.Loaded(t.Context(), e.path("a")))
	e.remove("a")
	e.until("it is missed", func() bool { return strings.Contains(e.told(), e.path("a")+": no such file or directory") })
	require.Equal(t, "1=b", e.rows())
	require.False(t, e.sink.State().Connected)
	require.ErrorIs(t, s.Loaded(t.Context(), e.path("a")), os.ErrNotExist)
	require.NoError(t, os.Symlink("b", e.path("a")))
	e.untilRows("2=b")
	e.put("b", "2=c")
	e.untilRows("2=c")
	require.Equal(t, "OK: OK", e.told())
}

// A writer that pauses in the middle of a line for longer than a file must be unchanged.
func TestHalfAFileIsNeverRead(t *testing.T) {
	for name, prepare := range map[string]func(*Source[*row]){
		"the kernel tells of writers": func(*Source[*row]) {},
		"only the events do":          func(s *Source[*row]) { s.isWritten = func(*os.File) (bool, bool) { return false, false } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			s := e.source(func(e *env, _ *Config[*row], _ *source.Config[*row]) { e.put("a", "1=whole") })
			prepare(s)
			e.run(s)
			e.loaded(s)
			for i := range 5 {
				value := strings.Repeat("x", i+1)
				for _, name := range []string{"a", "b"} { // "a" is truncated, "b" made
					if name == "b" {
						require.NoError(t, os.RemoveAll(e.path("b")))
					}
					file := e.begin(name, "1=whole\n"+name+"=ha")
					time.Sleep(4 * settle)
					e.write(file, value+"\n")
					time.Sleep(settle / 2)
					require.NoError(t, file.Close())
					e.until("it is read", func() bool { return strings.Contains(e.rows(), name+"=ha"+value) })
				}
			}
			for _, content := range e.parses() {
				assert.True(t, content == "1=whole" || strings.HasSuffix(content, "\n"), "half a file was parsed: %q", content)
			}
		})
	}
}

// What was open before the source began may have been closed by the writer's end: it counts when it is unchanged.
func TestFileThatIsOpenAtTheStartCountsWhenUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		file := e.begin("a", "1=a")
		e.put("b", "2=b")
		s := e.source(func(_ *env, cfg *Config[*row], _ *source.Config[*row]) {
			cfg.Settle, cfg.Poll = 2*time.Second, time.Second
		})
		noInotify(s)
		e.run(s)
		synctest.Wait()
		require.Equal(t, "2=b", e.rows())
		require.False(t, e.initialized(), "half of the state")
		time.Sleep(1900 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, "2=b", e.rows())
		e.write(file, "b")
		time.Sleep(1900 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, "2=b", e.rows())
		time.Sleep(1200 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, "1=ab 2=b", e.rows())
		require.True(t, e.initialized())

		began := time.Now()
		e.write(file, "c")
		require.NoError(t, file.Close())
		e.loaded(s)
		require.Less(t, time.Since(began), time.Second, "it is not open any more")
		require.Equal(t, "1=abc 2=b", e.rows())
	})
}

func TestFileThatIsNeverClosedIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.put("a", "1=a")
		s := e.source(nil)
		w := &events{writers: map[string]writer{}}
		s.newWatcher = func(signal.Signal) (watcher, error) { return w, nil }
		e.run(s)
		e.loaded(s)
		file := e.begin("a", "1=b")
		w.set(e.path("a"), writerWrites)
		began := time.Now()
		time.Sleep(time.Minute)
		require.Equal(t, "OK: OK", e.told())
		time.Sleep(5 * time.Second)
		require.Contains(t, e.told(), "Degraded: 1 problem(s) of the source\n"+e.path("a")+": a program has it open for writing since "+
			began.UTC().Format("2006-01-02T15:04"))
		require.Equal(t, "1=a", e.rows())
		require.NoError(t, file.Close())
		w.set(e.path("a"), writerClosed)
		time.Sleep(3 * time.Second)
		require.Equal(t, "1=b", e.rows())
		require.Equal(t, "OK: OK", e.told())
	})
}

func TestBadFileKeepsItsLastGoodVersion(t *testing.T) {
	e, s := start(t, func(e *env, _ *Config[*row], _ *source.Config[*row]) {
		e.put("a", "1=a\n2=a")
		e.put("b", "3=b")
	})
	e.loaded(s)
	e.put("a", "1=b\n2\n3")
	err := s.Loaded(t.Context(), e.path("a"))
	require.EqualError(t, err, e.path("a")+":2:2: no =\n"+e.path("a")+":3:2: no =")
	require.NoError(t, s.Loaded(t.Context(), e.path("b")), "another file")
	require.Equal(t, "1=a 2=a 3=b", e.rows())
	require.Equal(t, "Degraded: 2 problem(s) of the source\n"+err.Error(), e.told())
	in := e.input()
	require.Equal(t, 2, in.Rejected)
	require.Equal(t, e.path("a")+":2:2: no =", in.TableRow()[7])
	require.Equal(t, e.path("a")+":3:2: no =", in.Problems().Of["2"], "each key of the file has its problem")
	require.Empty(t, in.Problems().Of["3"])

	e.put("b", "3=c")
	e.loadedExcept(s, "b")
	require.Equal(t, "1=a 2=a 3=c", e.rows(), "other files go on")
	for content, want := range map[string]string{
		"panic":         e.path("a") + ": parsing panicked: no",
		"1=b\nkeyless=": e.path("a") + ":2:1: object 1: the primary index makes no key of the object",
	} {
		e.put("a", content)
		require.EqualError(t, s.Loaded(t.Context(), e.path("a")), want)
		require.Equal(t, "1=a 2=a 3=c", e.rows())
	}
	e.put("a", "1=c")
	e.loaded(s)
	require.Equal(t, "1=c 3=c", e.rows())
	require.Equal(t, "OK: OK", e.told())
	require.Zero(t, e.input().Rejected)
	require.Equal(t, 1, strings.Count(e.log.String(), `a:2:2: no`), "it is logged once")
}

// loadedExcept waits for one file.
func (e *env) loadedExcept(s *Source[*row], name string) {
	e.Helper()
	require.NoError(e, s.Loaded(e.Context(), e.path(name)))
}

func TestNothingIsInitialisedFromHalf(t *testing.T) {
	e, s := start(t, func(e *env, _ *Config[*row], _ *source.Config[*row]) {
		e.put("a", "1")
		e.put("b", "2=b\n3=b")
	})
	e.untilRows("2=b 3=b")
	require.Error(t, s.Loaded(t.Context(), e.dir))
	require.False(t, e.initialized())
	require.Contains(t, e.told(), e.path("a")+":1:2: no = (the file has no good version yet, so the table is not initialised)")
	e.put("b", "3=c\n4=b")
	e.untilRows("3=c 4=b")
	require.False(t, e.initialized())
	// It is taken away for a moment only: that ends nothing.
	e.remove("a")
	e.replace("a", "1=a")
	e.loaded(s)
	require.True(t, e.initialized())
	require.Equal(t, "1=a 3=c 4=b", e.rows())
	require.Equal(t, "OK: OK", e.told())
	e.put("c", "5")
	require.Error(t, s.Loaded(t.Context(), e.dir))
	e.put("b", "3=d")
	e.untilRows("1=a 3=d")
}

func TestFirstFileByNameHasTheKey(t *testing.T) {
	e, s := start(t, func(e *env, _ *Config[*row], _ *source.Config[*row]) {
		e.put("b", "1=b\n2=b\n2=again")
		e.put("c", "0=c\n1=c")
	})
	e.untilRows("0=c 1=b 2=b")
	require.EqualError(t, s.Loaded(t.Context(), e.path("c")), e.path("c")+":2:1: \"1\" is also in "+e.path("b")+":1:1, which has it")
	require.EqualError(t, s.Loaded(t.Context(), e.path("b")), e.path("b")+":3:1: \"2\" is also in "+e.path("b")+":2:1, which has it")
	require.Equal(t, e.path("c")+":2:1: \"1\" is also in "+e.path("b")+":1:1, which has it", e.input().Problems().Of["1"])
	e.put("a", "1=a")
	require.NoError(t, s.Loaded(t.Context(), e.path("a")))
	require.Equal(t, "0=c 1=a 2=b", e.rows())
	e.put("b", "2=b")
	require.NoError(t, s.Loaded(t.Context(), e.path("b")))
	// A file that is renamed does not dispute with itself.
	n := len(e.health.History())
	require.NoError(t, os.Rename(e.path("a"), e.path("z")))
	e.until("c has the key", func() bool { return e.rows() == "0=c 1=c 2=b" || !assert.Equal(t, "0=c 1=a 2=b", e.rows()) })
	require.ErrorContains(t, s.Loaded(t.Context(), e.path("z")), e.path("z")+":1:1: \"1\" is also in "+e.path("c")+":2:1")
	for _, told := range e.health.History()[n:] {
		require.NotContains(t, told, e.path("a"))
	}
	e.remove("z")
	e.loaded(s)
	require.Equal(t, "OK: OK", e.told())
}

// Mounted configuration of Kubernetes: the files are links through ..data, which is swapped.
func TestSwapOfMountedConfigurationIsFollowed(t *testing.T) {
	e := newEnv(t)
	version := func(name string, files map[string]string) {
		require.NoError(t, os.Mkdir(e.path(name), 0o755))
		for file, content := range files {
			e.put(filepath.Join(name, file), content)
		}
		require.NoError(t, os.Symlink(name, e.path("..data_tmp")))
		require.NoError(t, os.Rename(e.path("..data_tmp"), e.path("..data")))
	}
	version("..1", map[string]string{"a": "1=a", "b": "2=b"})
	for _, name := range []string{"a", "b"} {
		require.NoError(t, os.Symlink("..data/"+name, e.path(name)))
	}
	s := e.source(func(_ *env, cfg *Config[*row], _ *source.Config[*row]) { cfg.Poll = time.Hour })
	e.run(s)
	e.untilRows("1=a 2=b")
	for i := range 20 {
		name := fmt.Sprint("..", i+2)
		version(name, map[string]string{"a": fmt.Sprint("1=", i), "b": fmt.Sprint("2=", i)})
		require.NoError(t, os.RemoveAll(e.path(fmt.Sprint("..", i+1))))
		e.untilRows(fmt.Sprintf("1=%d 2=%d", i, i))
	}
	version("..last", map[string]string{"b": "2=c"})
	e.remove("a")
	e.untilRows("2=c")
}

// A part of a version, or of two, must not count as all that is wanted.
func TestConfigurationThatIsMountedDuringTheFirstLookIsWhole(t *testing.T) {
	for name, before := range map[string]string{"mounted": "", "swapped": "..1"} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			for version, files := range map[string][2]string{"..1": {"1=a", "2=b\n3=b"}, "..2": {"1=a\n3=a", "2=b"}} {
				require.NoError(t, os.Mkdir(e.path(version), 0o755))
				e.put(filepath.Join(version, "a"), files[0])
				e.put(filepath.Join(version, "b"), files[1])
			}
			require.NoError(t, os.Symlink("..data/a", e.path("a")))
			require.NoError(t, os.Symlink("..data/b", e.path("b")))
			require.NoError(t, os.Symlink("..2", e.path("..made")))
			if before != "" {
				require.NoError(t, os.Symlink(before, e.path("..data")))
			}
			s := e.source(nil)
			var swapped sync.Once
			s.resolve = func(path string) (string, error) {
				real, err := filepath.EvalSymlinks(path)
				swapped.Do(func() { assert.NoError(t, os.Rename(e.path("..made"), e.path("..data"))) })
				return real, err
			}
			s.look(t.Context(), time.Now()) // the next one would make up for it
			require.True(t, e.initialized())
			require.Equal(t, "1=a 2=b 3=a", e.rows())

			calls := 0
			s.resolve = func(path string) (string, error) {
				if calls++; calls/2%2 == 0 { // another file in each list
					return "", os.ErrNotExist
				}
				return filepath.EvalSymlinks(path)
			}
			s.look(t.Context(), time.Now())
			require.ErrorContains(t, s.away, e.dir+" changes while it is listed")
			require.Equal(t, "1=a 2=b 3=a", e.rows())
		})
	}
}

func TestFolderThatIsRemovedAndMadeAgainIsFollowed(t *testing.T) {
	e, s := start(t, func(e *env, _ *Config[*row], _ *source.Config[*row]) { e.put("a", "1=a") })
	e.loaded(s)
	require.NoError(t, os.RemoveAll(e.dir))
	e.until("it is missed", func() bool { return strings.Contains(e.told(), e.dir+": no such file or directory") })
	require.Equal(t, "1=a", e.rows(), "what it wanted stays")
	require.ErrorIs(t, s.Loaded(t.Context(), e.dir), os.ErrNotExist)
	require.NoError(t, os.Mkdir(e.dir, 0o755))
	e.until("an empty folder is not believed", func() bool { return strings.Contains(e.told(), "has no file that is read") })
	require.Equal(t, "1=a", e.rows())
	e.put("b", "2=b")
	e.untilRows("2=b")
	e.until("health is OK", func() bool { return e.told() == "OK: OK" })

	// The folder above it is replaced: nothing in the folder changes, so there is no event.
	parent := filepath.Dir(e.dir)
	require.NoError(t, os.Rename(parent, parent+"-old"))
	require.NoError(t, os.MkdirAll(e.dir, 0o755))
	e.put("c", "3=c")
	e.untilRows("3=c")
	require.NoError(t, os.RemoveAll(parent+"-old"))
	e.put("c", "3=d")
	e.untilRows("3=d")
}

func TestTenThousandFiles(t *testing.T) {
	const n = 10_000
	e := newEnv(t)
	for i := range n {
		e.put(fmt.Sprint(i), fmt.Sprintf("%d=a", i))
	}
	s := e.source(nil)
	e.run(s)
	e.loaded(s)
	require.Equal(t, n, e.table.NumObjects(e.db.ReadTxn()))
	require.Len(t, e.parses(), n)
	revision := e.table.Revision(e.db.ReadTxn())
	for i := range 10 {
		e.put(fmt.Sprint(i), fmt.Sprintf("%d=b", i))
		require.NoError(t, s.Loaded(t.Context(), e.path(fmt.Sprint(i))))
	}
	require.Len(t, e.parses(), n+10, "only what has changed is parsed")
	require.Equal(t, revision+10, e.table.Revision(e.db.ReadTxn()), "only what has changed is written")
	require.NoError(t, os.RemoveAll(e.dir))
	require.NoError(t, os.Mkdir(e.dir, 0o755))
	e.put("0", "0=c")
	e.untilRows("0=c")
}

func TestWithoutInotifyFilesAreLookedAt(t *testing.T) {
	e := newEnv(t)
	e.put("a", "1=a")
	s := e.source(func(_ *env, cfg *Config[*row], _ *source.Config[*row]) { cfg.Poll = 10 * time.Millisecond })
	noInotify(s)
	e.run(s)
	e.untilRows("1=a")
	require.Contains(t, e.log.String(), "Changes of files are noticed late")
	for i := range 20 {
		e.put("a", fmt.Sprint("1=", i%10)) // of the same size, also within one tick of the clock of the file system
		e.untilRows(fmt.Sprint("1=", i%10))
	}
	e.put("b", "2=b")
	e.untilRows("1=9 2=b")
	e.remove("b")
	e.untilRows("1=9")
}

func TestLoadedIncludesWhatWasSavedJustNow(t *testing.T) {
	for name, prepare := range map[string]func(*Source[*row]){"with events": func(*Source[*row]) {}, "without": noInotify} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.put("a", "1=0")
			s := e.source(nil)
			prepare(s)
			e.run(s)
			for i := range 50 {
				e.put("a", fmt.Sprint("1=", i%10))
				require.NoError(t, s.Loaded(t.Context(), e.path("a")))
				require.Equal(t, fmt.Sprint("1=", i%10), e.rows())
			}
			e.put("b", "2=b")
			e.loaded(s)
			require.Equal(t, "1=9 2=b", e.rows())
			e.remove("b")
			require.NoError(t, e.sink.Loaded(t.Context()))
			require.Equal(t, "1=9", e.rows())
		})
	}
}

func TestLoadedSaysWhatItWaitsFor(t *testing.T) {
	e := newEnv(t)
	e.put("a", "1=a")
	s := e.source(func(_ *env, cfg *Config[*row], _ *source.Config[*row]) { cfg.Settle = time.Hour })
	briefly := func(path string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		return s.Loaded(ctx, path)
	}
	require.EqualError(t, briefly(e.dir), e.dir+" is not in the table: the source does not run: context deadline exceeded")
	e.run(s)
	e.untilRows("1=a")
	file := e.begin("b", "2=")
	want := e.path("b") + " is not in the table: " + e.path("b") + " is open for writing: it is read when it is closed: context deadline exceeded"
	var err error
	e.until("the events have come", func() bool { err = briefly(e.path("b")); return err.Error() == want })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	e.loadedExcept(s, "a")
	require.NoError(t, file.Close())
	e.loadedExcept(s, "b")
	e.remove("b")
	e.until("it is missed", func() bool {
		return strings.Contains(briefly(e.path("b")).Error(), "is missing, and what it wanted is about to be removed")
	})
	e.loadedExcept(s, "none")
	for _, path := range []string{filepath.Dir(e.dir), e.path(".hidden"), e.path("x/y")} {
		require.EqualError(t, s.Loaded(t.Context(), path), path+" is not a file of "+e.dir+" that is read")
	}
}

// The most dangerous event in production: a truncated file that parses.
func TestTruncatedFileThatParsesIsHeld(t *testing.T) {
	e, s := start(t, func(e *env, _ *Config[*row], to *source.Config[*row]) {
		to.MaxDeletions.Fraction = 0.5
		e.put("a", "1=a\n2=a\n3=a\n4=a\n")
	})
	e.loaded(s)
	e.put("a", "1=b\n")
	err := s.Loaded(t.Context(), e.dir)
	require.ErrorIs(t, err, source.ErrHeld)
	require.Equal(t, "1=b 2=a 3=a 4=a", e.rows())
	held := e.sink.Snapshot().Held
	require.Equal(t, []any{3, 4, []string{"2", "3", "4"}}, []any{held.Rows, held.Of, held.Examples})
	e.put("a", "1=b\n2=b\n3=a\n4=a\n")
	e.loaded(s)
	require.Equal(t, "1=b 2=b 3=a 4=a", e.rows())
	require.Equal(t, "OK: OK", e.told())

	e.put("a", "1=c\n")
	require.ErrorIs(t, s.Loaded(t.Context(), e.dir), source.ErrHeld)
	n, err := e.sink.Approve(t.Context(), e.sink.Snapshot().Held.Set)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Equal(t, "1=c", e.rows())
	e.loaded(s)
}

func TestParseThatHangsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.put("a", "1=a")
		hang := make(chan struct{})
		s := e.source(func(e *env, cfg *Config[*row], _ *source.Config[*row]) {
			cfg.Parse = func(file string, data []byte) ([]Entry[*row], error) { <-hang; return e.parse(file, data) }
		})
		noInotify(s)
		e.run(s)
		time.Sleep(2*guard.LongAfter + time.Second)
		require.Contains(t, e.told(), "Parse of "+e.path("a")+" runs since ")
		close(hang)
		time.Sleep(time.Second)
		require.Equal(t, "OK: OK", e.told())
		require.Equal(t, "1=a", e.rows())
	})
}

func TestGoexitOfParseEndsRun(t *testing.T) {
	e := newEnv(t)
	e.put("a", "1=a")
	s := e.source(func(_ *env, cfg *Config[*row], _ *source.Config[*row]) {
		cfg.Parse = func(string, []byte) ([]Entry[*row], error) { runtime.Goexit(); return nil, nil }
	})
	require.ErrorIs(t, s.Run(t.Context()), guard.ErrGoexit)
	require.False(t, e.sink.State().Connected)
}

func TestRunCanBeCalledAgain(t *testing.T) {
	e, s := start(t, func(e *env, _ *Config[*row], _ *source.Config[*row]) { e.put("a", "1=a") })
	e.loaded(s)
	require.EqualError(t, s.Run(t.Context()), "the source runs already")
	e.stop()
	require.False(t, e.sink.State().Connected)
	e.put("a", "1=b")
	e.run(s)
	e.loaded(s)
	require.Equal(t, "1=b", e.rows())
	require.True(t, e.sink.State().Connected)
}

func TestFileThatCannotBeReadIsBad(t *testing.T) {
	e, s := start(t, func(e *env, cfg *Config[*row], _ *source.Config[*row]) {
		cfg.MaxSize, cfg.Match = 10, "*.x"
		e.put("a.x", "1=a")
		e.put("a.y", "2=a")
	})
	e.loaded(s)
	e.put("a.x", "1=aaaaaaaaaaa")
	require.EqualError(t, s.Loaded(t.Context(), e.dir), e.path("a.x")+": larger than 10 bytes")
	require.Equal(t, "1=a", e.rows())
	if os.Getuid() != 0 {
		require.NoError(t, os.Chmod(e.path("a.x"), 0))
		require.EqualError(t, s.Loaded(t.Context(), e.dir), e.path("a.x")+": permission denied")
		require.NoError(t, os.Chmod(e.path("a.x"), 0o644))
	}
	e.put("a.x", "1=b")
	e.loaded(s)
	require.Equal(t, "1=b", e.rows())
}

func TestBadConfigurationIsAnError(t *testing.T) {
	_, err := New(Config[*row]{Settle: -1, Poll: -1, MaxSize: -1, Match: "["})
	require.EqualError(t, err, strings.Join([]string{
		"Config.Path is empty", `Config.Match is "[": syntax error in pattern`, "Config.Parse is nil", "Config.Sink is nil",
		"Config.Settle is -1ns, must not be negative", "Config.Poll is -1ns, must not be negative",
		"Config.MaxSize is -1, must not be negative",
	}, "\n"))
}

func TestPipeIsRefused(t *testing.T) {
	e, s := start(t, func(e *env, cfg *Config[*row], _ *source.Config[*row]) {
		cfg.Path = os.DevNull
	})
	require.EqualError(t, s.Loaded(t.Context(), os.DevNull), os.DevNull+" is neither a folder nor a regular file")
	require.False(t, e.initialized())
}

// An object that the sink rejects is an error of Loaded, too.
func TestLoadedReturnsWhatTheSinkRejects(t *testing.T) {
	e, s := start(t, func(e *env, _ *Config[*row], to *source.Config[*row]) {
		to.Owner = func(r *row) string { return map[bool]string{true: "other", false: "files"}[r.Value == "other"] }
		wtxn := e.db.WriteTxn(e.table)
		_, _, err := e.table.Insert(wtxn, &row{"1", "other"})
		require.NoError(e, err)
		wtxn.Commit()
		e.put("a", "1=a\n2=a")
	})
	require.EqualError(t, s.Loaded(t.Context(), e.dir), `source "files" of table "rows": 1: the row belongs to "other"`)
	require.Equal(t, "1=other 2=a", e.rows())
}

// An editor takes a file away before it writes it again: its keys go to no other file meanwhile.
func TestFileThatIsAwayForAMomentKeepsItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.put("a", "1=a")
		e.put("b", "1=b")
		s := e.source(func(_ *env, cfg *Config[*row], _ *source.Config[*row]) {
			cfg.Settle, cfg.Poll = 2*time.Second, 100*time.Millisecond
		})
		noInotify(s)
		e.run(s)
		synctest.Wait()
		require.Equal(t, "1=a", e.rows())
		e.remove("a")
		time.Sleep(1900 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, "1=a", e.rows())
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorContains(t, s.Loaded(ctx, e.path("b")), e.path("b")+" has a key of "+e.path("a")+", which is missing")
		e.put("a", "1=c")
		e.loadedExcept(s, "a")
		require.Equal(t, "1=c", e.rows())
		e.remove("a")
		e.loaded(s)
		require.Equal(t, "1=b", e.rows())
		require.Equal(t, "OK: OK", e.told())
	})
}

// staysFor checks again and again, for a time, that the table has a row.
func (e *env) staysFor(d time.Duration, row string) {
	e.Helper()
	for began := time.Now(); time.Since(began) < d; time.Sleep(10 * time.Millisecond) {
		synctest.Wait()
		require.Contains(e, " "+e.rows()+" ", " "+row, "after %s", time.Since(began))
	}
}

// An agent that drops a database and makes it again has lost its data.
func TestObjectThatMovesIsNotRemovedOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.put("a", "1=a\n2=a")
		e.put("b", "3=b")
		s := e.source(func(_ *env, cfg *Config[*row], _ *source.Config[*row]) {
			cfg.Settle, cfg.Poll = 2*time.Second, 50*time.Millisecond
		})
		noInotify(s)
		e.run(s)
		e.loaded(s)
		for i, order := range []string{"ab", "ba", "ab", "ba"} {
			content := map[byte]string{'a': "1=a\n", 'b': "3=b\n"}
			content["ba"[i%2]] += "2=" + string("ba"[i%2])
			for _, name := range order {
				e.put(string(name), content[byte(name)])
				e.staysFor(150*time.Millisecond, "2=")
			}
			e.staysFor(3*time.Second, "2="+string("ba"[i%2]))
		}
		e.put("a", "1=a")
		began := time.Now()
		e.loaded(s)
		require.Equal(t, "1=a 3=b", e.rows())
		require.Less(t, time.Since(began), 2500*time.Millisecond, "no longer than it takes to see that it is not on its way")
	})
}

// A look reads a file before a swap, and another one after it: neither has the object that moves from one to the other.
func TestLookThatMeetsASwapRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.put("a", "1=a")
		e.put("b", "2=b")
		swap := func() {}
		s := e.source(func(_ *env, cfg *Config[*row], _ *source.Config[*row]) {
			cfg.Settle, cfg.Poll = 2*time.Second, 50*time.Millisecond
			cfg.Parse = func(file string, data []byte) ([]Entry[*row], error) {
				if filepath.Base(file) == "a" {
					swap()
				}
				return e.parse(file, data)
			}
		})
		noInotify(s)
		s.isWritten = func(*os.File) (is, known bool) { return false, true }
		e.run(s)
		e.loaded(s)
		swap = func() {
			swap = func() {}
			e.replace("a", "1=c\n2=c")
			e.replace("b", "")
		}
		e.put("a", "1=b")
		e.staysFor(time.Second, "2=")
		require.Equal(t, "1=c 2=c", e.rows())
		require.Contains(t, e.parses(), "1=b", "the look met the swap")
	})
}

func TestErrorsOfObjectsOutliveAnApproval(t *testing.T) {
	e, s := start(t, func(e *env, _ *Config[*row], to *source.Config[*row]) {
		to.MaxDeletions.Fraction = 0.5
		to.Owner = func(r *row) string { return map[bool]string{true: "other", false: "files"}[r.Value == "other"] }
		wtxn := e.db.WriteTxn(e.table)
		_, _, err := e.table.Insert(wtxn, &row{"1", "other"})
		require.NoError(e, err)
		wtxn.Commit()
		e.put("a", "2=a\n3=a\n4=a")
	})
	e.loaded(s)
	e.put("a", "1=a\n2=a")
	require.ErrorIs(t, s.Loaded(t.Context(), e.dir), source.ErrHeld)
	_, err := e.sink.Approve(t.Context(), e.sink.Snapshot().Held.Set)
	require.NoError(t, err)
	require.EqualError(t, s.Loaded(t.Context(), e.dir), `source "files" of table "rows": 1: the row belongs to "other"`)
	require.Equal(t, "1=other 2=a", e.rows())
}

func TestIndentedLinesOfAnErrorAreOneProblem(t *testing.T) {
	e, s := start(t, func(e *env, cfg *Config[*row], _ *source.Config[*row]) {
		cfg.Parse = func(file string, data []byte) ([]Entry[*row], error) {
			return nil, errors.New("yaml: unmarshal errors:\n  line 3: no field a\n  line 4: no field b\n" + file + ":5:1: odd")
		}
		e.put("a", "-")
	})
	require.EqualError(t, s.Loaded(t.Context(), e.dir), e.path("a")+": yaml: unmarshal errors: line 3: no field a line 4: no field b\n"+e.path("a")+":5:1: odd")
	require.Equal(t, 2, e.input().Rejected)
}

func TestPositionOfAByte(t *testing.T) {
	data := []byte("{\n  \"a\": 1,\n  x\n}")
	var syntax *json.SyntaxError
	require.ErrorAs(t, json.Unmarshal(data, &map[string]int{}), &syntax)
	for index, want := range map[int][2]int{
		int(syntax.Offset) - 1: {3, 3}, 0: {1, 1}, 1: {1, 2}, 2: {2, 1}, len(data) - 1: {4, 1}, len(data): {4, 2}, -1: {1, 1}, 1000: {4, 2},
	} {
		line, column := At(data, index)
		require.Equal(t, want, [2]int{line, column}, "index %d", index)
	}
}
