// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package files

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type row struct{ Key, Value string }

func (*row) TableHeader() []string { return []string{"Key", "Value"} }
func (r *row) TableRow() []string  { return []string{r.Key, r.Value} }

// env is a table that a source fills from a folder.
type env struct {
	*testing.T
	db     *statedb.DB
	table  statedb.RWTable[*row]
	sink   *source.Sink[*row]
	health *reconcilertest.Health
	log    *testlog.Buffer
	dir    string
	stop   func()

	mu sync.Mutex
	// parsed are the contents that were parsed.
	parsed []string
}

// settle is how long a file must be unchanged in tests with real time.
const settle = 50 * time.Millisecond

// start runs a source of the folder, after prepare has changed its configuration.
func start(t *testing.T, prepare func(*env, *Config[*row], *source.Config[*row])) (*env, *Source[*row]) {
	e := newEnv(t)
	s := e.source(prepare)
	e.run(s)
	return e, s
}

func newEnv(t *testing.T) *env {
	e := &env{
		T: t, db: statedb.New(), health: &reconcilertest.Health{}, log: &testlog.Buffer{}, dir: filepath.Join(t.TempDir(), "d"),
	}
	require.NoError(t, os.Mkdir(e.dir, 0o755))
	var err error
	e.table, err = statedb.NewTable(e.db, "rows", statedb.Index[*row, string]{
		Name: "key", Unique: true, FromKey: index.String, FromString: index.FromString,
		FromObject: func(r *row) index.KeySet {
			if r.Key == "keyless" {
				return index.EmptyKeySet
			}
			return index.NewKeySet(index.String(r.Key))
		},
	})
	require.NoError(t, err)
	return e
}

func (e *env) source(prepare func(*env, *Config[*row], *source.Config[*row])) *Source[*row] {
	e.Helper()
	to := source.Config[*row]{Name: "files", DB: e.db, Table: e.table, Health: e.health}
	cfg := Config[*row]{Path: e.dir, Parse: e.parse, Settle: settle, Log: slog.New(slog.NewTextHandler(e.log, nil))}
	if prepare != nil {
		prepare(e, &cfg, &to)
	}
	var err error
	e.sink, err = source.New(to)
	require.NoError(e, err)
	e.Cleanup(e.sink.Close)
	cfg.Sink = e.sink
	s, err := New(cfg)
	require.NoError(e, err)
	return s
}

func (e *env) run(s *Source[*row]) { e.stop = reconcilertest.Go(e, s.Run) }

// parse reads lines of a key, "=" and a value. All errors have positions.
func (e *env) parse(file string, data []byte) (entries []Entry[*row], err error) {
	e.mu.Lock()
	e.parsed = append(e.parsed, string(data))
	e.mu.Unlock()
	var errs []error
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		key, value, is := strings.Cut(line, "=")
		switch {
		case line == "":
		case line == "panic":
			panic("no")
		case !is:
			errs = append(errs, fmt.Errorf("%s:%d:%d: no =", file, i+1, len(line)+1))
		default:
			entries = append(entries, Entry[*row]{&row{key, value}, i + 1, 1})
		}
	}
	return entries, errors.Join(errs...)
}

func (e *env) parses() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.parsed)
}

// rows returns the rows as text, by key.
func (e *env) rows() string {
	var all []string
	for r := range e.table.All(e.db.ReadTxn()) {
		all = append(all, r.Key+"="+r.Value)
	}
	return strings.Join(all, " ")
}

func (e *env) initialized() bool {
	is, _ := e.table.Initialized(e.db.ReadTxn())
	return is
}

// input returns the row of the source in the table of inputs.
func (e *env) input() *inputs.Input { return inputs.Of(e.db, e.db.ReadTxn(), "rows")[0] }

// told returns the last report to health.
func (e *env) told() string {
	level, message, err := e.health.Now()
	if err != nil {
		message += "\n" + err.Error()
	}
	return fmt.Sprintf("%s: %s", level, message)
}

// until waits for what depends on the kernel and the clock.
func (e *env) until(what string, condition func() bool) {
	e.Helper()
	eventually(e.T, what, condition, func() string {
		return fmt.Sprintf("rows: %s\nhealth: %s\nlog:\n%s", e.rows(), e.told(), e.log)
	})
}

func eventually(t *testing.T, what string, condition func() bool, detail func() string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); {
		if !time.Now().Before(deadline) {
			if detail != nil {
				what += "\n" + detail()
			}
			t.Fatalf("timed out waiting until %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

func (e *env) untilRows(want string) {
	e.Helper()
	e.until("the rows are "+want, func() bool { return e.rows() == want })
}

// path returns the path of a file in the folder.
func (e *env) path(name string) string { return filepath.Join(e.dir, name) }

// put writes a file in place.
func (e *env) put(name, content string) {
	e.Helper()
	require.NoError(e, os.WriteFile(e.path(name), []byte(content), 0o644))
}

// replace puts another file in the place of a file.
func (e *env) replace(name, content string) {
	e.Helper()
	e.put("."+name, content)
	require.NoError(e, os.Rename(e.path("."+name), e.path(name)))
}

func (e *env) remove(name string) {
	e.Helper()
	require.NoError(e, os.Remove(e.path(name)))
}

// begin opens a file, and writes the beginning of its content.
func (e *env) begin(name, content string) *os.File {
	e.Helper()
	file, err := os.Create(e.path(name))
	require.NoError(e, err)
	e.Cleanup(func() { _ = file.Close() })
	e.write(file, content)
	return file
}

func (e *env) write(file *os.File, content string) {
	e.Helper()
	_, err := file.WriteString(content)
	require.NoError(e, err)
}

// loaded waits until what is on disk now is in the table.
func (e *env) loaded(s *Source[*row]) {
	e.Helper()
	require.NoError(e, s.Loaded(e.Context(), e.dir))
}

// noInotify is a system that has none left, so that nothing but time passes in a test with virtual time.
func noInotify(s *Source[*row]) {
	s.newWatcher = func(signal.Signal) (watcher, error) { return nil, errors.New("none left") }
}

// events is a watcher of a test.
type events struct {
	mu      sync.Mutex
	writers map[string]writer
}

func (*events) follow(map[string]struct{}) (map[string]struct{}, error) { return nil, nil }
func (*events) close()                                                  {}
func (w *events) of(path string) writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writers[path]
}

func (w *events) take(path string) writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.writers[path]
	delete(w.writers, path)
	return was
}

func (w *events) restore(path string, was writer) { w.set(path, was) }

func (w *events) set(path string, now writer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writers[path] = now
}
