// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler/source"
)

func (f *following) loaded(within time.Duration) error {
	ctx, cancel := context.WithTimeout(f.Context(), within)
	defer cancel()
	return f.source.cfg.Sink.Loaded(ctx)
}

// Each answer of the server takes a while, and so does the news of a watch.
func TestLoadedIncludesWhatWasPutJustNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &testlog.Buffer{}
		f := follow(t, func() time.Duration { return time.Second }, func(cfg *Config[*thing], _ *source.Config[*thing]) {
			cfg.Log = slog.New(slog.NewTextHandler(log, nil))
		})
		defer f.stop()
		for i := range 20 {
			f.put(i, "a", "b")
			if err := f.loaded(time.Minute); err != nil {
				t.Fatal(err)
			}
			f.has("loaded", fmt.Sprintf("a:%d b:%d", i, i), 0)
		}
		// A change of another prefix moves the revision of the store, and no event tells.
		f.write(nil)
		began := time.Now()
		if err := f.loaded(time.Minute); err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		f.wait(3 * check)
		if strings.Contains(log.String(), "The store is not followed") {
			t.Errorf("the calls have ended the watch:\n%s", log)
		}
	})
}

func TestLoadedSaysWhatIsNotInTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, atOnce, func(_ *Config[*thing], to *source.Config[*thing]) { to.MaxDeletions.Rows = 1 })
		defer f.stop()
		says := func(want string, is ...error) {
			t.Helper()
			err := f.loaded(time.Minute)
			for _, is := range is {
				if !errors.Is(err, is) {
					t.Errorf("%v is not %v", err, is)
				}
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		f.put(1, "a", "b", "c")
		f.write(map[string]string{"d": "bad"})
		says(`"p/d": bad`)
		f.has("the others are", "a:1 b:1 c:1", 0)
		f.write(map[string]string{"a": "", "b": "", "d": ""})
		says("2 of 3 rows are not in the source any more", source.ErrHeld)
		f.has("held", "a:1 b:1 c:1", 0)
		if _, err := f.source.cfg.Sink.Approve(t.Context(), f.source.cfg.Sink.Snapshot().Held.Set); err != nil {
			t.Error(err)
		}
		if err := f.loaded(time.Minute); err != nil {
			t.Error(err)
		}
		f.replace()
		says("the store was replaced: 1 row(s) that it does not have are held")
		f.setAway(true)
		says(`what etcd has at "p/" is not in the table: the store is not followed: `, context.DeadlineExceeded)
		f.setAway(false)
		f.put(2, "c")
		if err := f.loaded(2 * check); err != nil {
			t.Error(err)
		}
		f.has("back", "c:2", 0)
	})
}

func TestLoadedWaitsForRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, atOnce, func(*Config[*thing], *source.Config[*thing]) {})
		f.stop()
		if err := f.loaded(time.Second); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the source does not run") {
			t.Error(err)
		}
	})
}
