// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/reconciler/source"
)

// The tests of this file were written to break promises: to lose an event, to apply all again, and to delete rows because
// the server is confused.

func TestRowsOfAnotherClusterThatIsEmptyStayHeldWhenItIsListedAgain(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) { e.server.put("a", "1=x") }, func(e *env) {
		e.server.replace("two", 100)
		e.pass(5 * time.Second)
		require.ErrorContains(e, e.source.Loaded(e.Context()), "are held")
		for range 5 {
			e.beCalm()
			e.requireRows("1=x")
		}
		e.server.put("b", "2=x")
		e.beCalm()
		e.requireRows("2=x")
		// From now on it is the cluster.
		e.server.cut(watch.Event{})
		e.server.remove("b")
		e.server.compact()
		e.pass(5 * time.Second)
		e.requireRows()
	})
}

func TestAStoreThatWasRestoredEmptyRemovesNothing(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.put("a", "1=x")
		e.server.put("b", "2=x")
	}, func(e *env) {
		e.server.restore(2, nil)
		e.pass(5 * time.Second)
		for range 3 {
			require.ErrorContains(e, e.source.Loaded(e.Context()), "are held")
			e.beCalm()
			e.requireRows("1=x", "2=x")
		}
	})
}

func TestAWatchThatIsNotAnsweredIsAskedForAgain(t *testing.T) {
	for _, what := range []string{"stream", "watch"} {
		t.Run(what, func(t *testing.T) {
			run(t, nil, func(e *env) {
				e.server.put("a", "1=x")
				synctest.Wait()
				hung := 0
				e.server.set(func() {
					e.server.hang = func(ctx context.Context, asked string) {
						if asked == what && hung < 2 {
							hung++
							e.server.mu.Unlock()
							<-ctx.Done()
							e.server.mu.Lock()
						}
					}
				})
				if what == "stream" {
					e.server.compact()
					e.server.other()
					e.server.compact()
				}
				e.server.cut(watch.Event{})
				e.server.put("a", "1=y")
				e.pass(answerTimeout + 10*time.Second)
				require.ErrorContains(e, e.sink.State().Err, "watching configmaps: no answer for 3m0s")
				e.requireRows("1=x")
				e.pass(answerTimeout + 20*time.Second)
				e.requireRows("1=y")
				require.True(e, e.sink.State().Connected)
			})
		})
	}
}

// A readiness probe may ask each second whether all is loaded, and give up after a second.
func TestLoadedDoesNotInterruptAList(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.slow = 500 * time.Millisecond
		for i := range 6 {
			e.server.put(fmt.Sprint("o", i), fmt.Sprintf("%d=x", i))
		}
	}, func(e *env) {
		for range 4 {
			ctx, cancel := context.WithTimeout(e.Context(), time.Second)
			require.Error(e, e.source.Loaded(ctx))
			cancel()
		}
		e.requireRows(e.model()...)
		require.NoError(e, e.source.Loaded(e.Context()))
	})
}

func TestChangesAreWrittenThoughMoreComeAllTheTime(t *testing.T) {
	run(t, func(e *env, cfg *fakeConfig, _ *source.Config[*row]) {
		cfg.Rows = func(o *corev1.ConfigMap) ([]*row, error) {
			time.Sleep(10 * time.Millisecond)
			return rowsOf(o)
		}
	}, func(e *env) {
		for i := range 2000 { // twice as fast as Rows
			e.server.put(fmt.Sprint("o", i%7), fmt.Sprintf("%d=%d", i%7, i))
			time.Sleep(5 * time.Millisecond)
		}
		require.Greater(e, e.input().Input, uint64(500), "half of the changes")
		e.pass(time.Minute)
		e.requireRows(e.model()...)
	})
}

func TestAListThatExpiresAtOnceIsAskedForLessOften(t *testing.T) {
	old := apierrors.NewResourceExpired("too old")
	for name, fail := range map[string]func(f *fakeServer, asked string) error{
		"a stream": func(_ *fakeServer, asked string) error { return always(old, "stream")(asked) },
		"a list": func(_ *fakeServer, asked string) error {
			return errors.Join(always(errStream, "stream")(asked), always(old, "list")(asked))
		},
		"two clusters behind one address": func(f *fakeServer, asked string) error {
			if asked == "cluster" {
				f.uid = map[string]string{"one": "two", "two": "one"}[f.uid]
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
				e.server.put("a", "1=x")
				asked := 0
				e.server.setFail(func(what string) error {
					if asked++; asked > 2000 {
						return errRefused
					}
					return fail(e.server, what)
				})
			}, func(e *env) {
				e.pass(5 * time.Minute)
				require.Less(e, len(e.server.times("cluster")), 200)
				require.False(e, e.sink.State().Connected)
				e.server.setFail(nil)
				e.pass(time.Minute)
				e.requireRows("1=x")
			})
		})
	}
}

func TestAListThatExpiresWhileItStreamsBeginsAgain(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		for i := range 6 {
			e.server.put(fmt.Sprint("o", i), fmt.Sprintf("%d=x", i))
		}
		e.server.slow = 100 * time.Millisecond
	}, func(e *env) {
		e.pass(300 * time.Millisecond)
		e.server.remove("o1")
		e.server.cut(watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired("too old").ErrStatus})
		e.requireRows()
		e.pass(10 * time.Second)
		e.requireRows(e.model()...)
		require.Len(e, e.server.times("stream"), 2)
	})
}

// A server that comes back may take a watch, and then say that the version is too old.
func TestAWatchThatEndsAtOnceIsNoConnection(t *testing.T) {
	run(t, nil, func(e *env) {
		e.pass(5 * time.Second)
		e.server.setFail(always(errRefused))
		e.server.cut(watch.Event{})
		e.pass(2 * time.Minute)
		ends := 0
		e.server.setFail(func(what string) error {
			if ends++; what == "watch" && ends < 20 {
				time.AfterFunc(time.Millisecond, func() {
					e.server.cut(watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired("too old").ErrStatus})
				})
			}
			return nil
		})
		e.pass(5 * time.Minute)
		require.Equal(e, 1, strings.Count(e.log.String(), "source disconnected"), e.log)
		require.Equal(e, 2, strings.Count(e.log.String(), "source connected"), e.log)
	})
}

// The server sends no bookmarks for a kind that it has no cache of, such as events.
func TestAQuietKindWithoutBookmarksIsNotAway(t *testing.T) {
	run(t, nil, func(e *env) {
		e.server.put("a", "1=x")
		e.pass(40 * time.Minute)
		require.True(e, e.sink.State().Connected)
		require.NotContains(e, e.log.String(), "disconnected")
		e.server.put("a", "1=y")
		e.requireRows("1=y")
	})
}

// A proxy may hold back what comes. It is not known then whether the kind has bookmarks.
func TestWhatSilentWatchesDoNotShowIsListed(t *testing.T) {
	run(t, nil, func(e *env) {
		for i := range 5 {
			e.server.set(func() { e.server.hidden = true; clear(e.server.watches) })
			e.server.put("a", fmt.Sprint("1=", i))
			e.pass(2*silence + 5*time.Second)
			e.requireRows(fmt.Sprint("1=", i))
		}
		require.NotContains(e, e.log.String(), "disconnected")
	})
}

func TestAListThatIsSilentIsReadInPages(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.silent = true // it knows no lists that stream, and takes them for watches
		e.server.put("a", "1=x")
	}, func(e *env) {
		e.requireRows()
		e.pass(silence + 2*time.Second)
		require.Contains(e, e.log.String(), `error="watching configmaps: nothing has come for 3m0s, not even a bookmark"`)
		e.requireRows("1=x")
		require.True(e, e.sink.State().Connected)
		initialized, _ := e.table.Initialized(e.db.ReadTxn())
		require.True(e, initialized)
		require.Len(e, e.server.times("stream"), 1)
	})
}

func TestASilentWatchOfAServerThatSendsBookmarksIsSaid(t *testing.T) {
	run(t, nil, func(e *env) {
		e.server.put("a", "1=x")
		e.server.bookmark()
		synctest.Wait()
		e.server.set(func() { e.server.silent = true; clear(e.server.watches) })
		e.pass(2*silence + 5*time.Second)
		require.ErrorContains(e, e.sink.State().Err, "nothing has come for 3m0s, not even a bookmark")
		e.server.put("a", "1=y")
		e.pass(silence - 10*time.Second)
		level, _, _ := e.health.Now()
		require.Equal(e, "Degraded", string(level))
		e.pass(20 * time.Second)
		e.requireRows("1=y") // it is listed in pages
		e.server.set(func() { e.server.silent = false })
		e.pass(3*silence + time.Minute)
		e.server.put("a", "1=z")
		e.requireRows("1=z")
	})
}

// A proxy may end what is quiet for less than a minute, before the first bookmark.
func TestAWatchThatIsCutWhileItIsQuietGoesOnWithinTheBackoff(t *testing.T) {
	for name, last := range map[string]watch.Event{
		"cleanly": {}, "with an error": {Type: watch.Error, Object: &apierrors.NewInternalError(errRefused).ErrStatus},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, nil, func(e *env) {
				for i := range 20 {
					e.pass(50 * time.Second)
					e.server.cut(last)
					if i%5 == 4 {
						e.server.put("a", fmt.Sprint("1=", i))
						e.pass(time.Second + time.Millisecond)
						e.requireRows(fmt.Sprint("1=", i))
					}
				}
				require.NotContains(e, e.log.String(), "disconnected")
				require.Len(e, e.server.times("stream"), 1)
			})
		})
	}
}

// How often an attempt failed before the server came back does not count when a watch ends later.
func TestAfterATimeAwayAWatchGoesOnWithinTheBackoff(t *testing.T) {
	run(t, nil, func(e *env) {
		e.server.setFail(always(errRefused))
		e.server.cut(watch.Event{})
		e.pass(10 * time.Minute)
		e.server.setFail(nil)
		e.pass(50 * time.Second)
		require.True(e, e.sink.State().Connected)
		e.server.cut(watch.Event{})
		e.server.put("a", "1=x")
		e.pass(time.Second + time.Millisecond)
		e.requireRows("1=x")
		require.Equal(e, 1, strings.Count(e.log.String(), "source disconnected"), e.log)
	})
}

// Nodes, as an example, change all the time, and slices while a program is rolled out.
func TestAHoldEndsThoughObjectsChangeAllTheTime(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.put("a", "1=x")
		e.server.put("b", "2=x")
	}, func(e *env) {
		e.server.replace("two", 100)
		e.server.put("b", "2=0")
		e.pass(5 * time.Second)
		e.requireRows("1=x", "2=0")
		e.pass(calm - 10*time.Second)
		e.server.put("new", "3=x") // it is being filled
		e.pass(20 * time.Second)
		e.server.bookmark()
		e.requireRows("1=x", "2=0", "3=x")
		for i := range 9 {
			e.server.put("b", fmt.Sprint("2=", i))
			e.pass(10 * time.Second)
			e.requireRows("1=x", fmt.Sprint("2=", i), "3=x")
		}
		e.server.bookmark()
		e.requireRows("2=8", "3=x")
		require.EqualValues(e, e.server.at, e.input().Input)
	})
}

// A client of the API server sends five requests a second, and a list of 100,000 objects has 200 pages.
func TestAPageIsAskedForWithOneOtherRequest(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		for i := range 10 {
			e.server.put(fmt.Sprint("o", i), fmt.Sprintf("%d=x", i))
		}
		e.server.setFail(always(errStream, "stream"))
	}, func(e *env) {
		e.requireRows(e.model()...)
		require.Len(e, e.server.times("continue"), 3)
		require.Len(e, e.server.times("version"), 1, "of the watch")
		require.Len(e, e.server.times("cluster"), 7, "before the stream, before and after the list, for each page, and of the watch")
	})
}

func TestAWatchThatEndsAfterEachEventLosesNone(t *testing.T) {
	run(t, nil, func(e *env) {
		for i := range 100 {
			e.server.put(fmt.Sprint("o", i%9), fmt.Sprintf("%d=%d", i%9, i))
			if i%4 == 3 {
				e.server.remove(fmt.Sprint("o", i%7))
			}
			e.server.cut(watch.Event{})
			e.pass(200 * time.Millisecond)
		}
		e.pass(2 * time.Second)
		e.requireRows(e.model()...)
		require.Len(e, e.server.times("stream"), 1)
		require.NotContains(e, e.log.String(), "disconnected")
	})
}

func TestEventsThatComeTwiceWriteNothing(t *testing.T) {
	run(t, nil, func(e *env) {
		e.server.put("a", "1=x")
		e.server.put("b", "2=x")
		e.server.remove("b")
		e.requireRows("1=x")
		before := e.revision()
		e.server.mu.Lock()
		for _, again := range []watch.Event{e.server.history[0], e.server.history[2], e.server.history[2], e.server.history[0]} {
			for w := range e.server.watches {
				w.send(again)
			}
		}
		e.server.mu.Unlock()
		e.requireRows("1=x")
		require.Equal(e, before, e.revision())
	})
}

// A bad object concerns its rows, and a row that is shared only itself, even if it is named as an object.
func TestAProblemIsThatOfItsRows(t *testing.T) {
	run(t, nil, func(e *env) {
		e.server.put("a", "default/b=x,1=x")
		e.server.put("b", "2=x")
		e.server.put("c", "default/b=y")
		synctest.Wait()
		require.Equal(e, 1, e.input().Rejected)
		of := e.input().Problems().Of
		require.Contains(e, of["default/b"], "configmaps default/c: the row")
		require.NotContains(e, of, "2", "a row of default/b, which has no problem")
		e.server.put("b", "nonsense")
		synctest.Wait()
		require.Contains(e, e.input().Problems().Of["2"], "has no =")
	})
}

func TestOfObjectsOfOneSecondTheLowerNameHasTheRow(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) { e.server.created = metav1.Unix(1000, 0) }, func(e *env) {
		e.server.put("b", "1=b")
		e.server.put("a", "1=a")
		e.requireRows("1=a")
		require.Equal(e, `configmaps default/b: the row "1" is that of default/a, which is older, or has the lower name`,
			e.input().Problems().Of["1"])
	})
}

func TestAFunctionThatHangsIsNamed(t *testing.T) {
	hang := make(chan struct{})
	run(t, func(e *env, cfg *fakeConfig, _ *source.Config[*row]) {
		hang = make(chan struct{})
		cfg.Rows = func(o *corev1.ConfigMap) ([]*row, error) {
			if o.Name == "hangs" {
				<-hang
			}
			return rowsOf(o)
		}
	}, func(e *env) {
		e.server.put("a", "1=x")
		e.requireRows("1=x")
		began := time.Now()
		e.server.put("hangs", "2=x")
		e.pass(guard.LongAfter + time.Second)
		state := e.sink.State()
		require.False(e, state.Connected)
		require.ErrorContains(e, state.Err, "configmaps default/hangs: Rows runs since "+began.UTC().Format("2006-01-02T15:04:05"))
		e.pass(time.Minute)
		level, _, _ := e.health.Now()
		require.Equal(e, "Degraded", string(level))
		close(hang)
		e.requireRows("1=x", "2=x")
		require.True(e, e.sink.State().Connected)
		level, _, _ = e.health.Now()
		require.Equal(e, "OK", string(level))
	})
}

func TestAServerWhoseVersionsAreNoNumbersRemovesNothing(t *testing.T) {
	for _, version := range []string{"abc", "", "99999999999999999999999999"} {
		t.Run(version, func(t *testing.T) {
			run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) { e.server.put("a", "1=x") }, func(e *env) {
				e.requireRows("1=x")
				e.server.set(func() { e.server.versions = &version })
				e.server.cut(watch.Event{})
				e.server.remove("a")
				e.server.compact()
				e.pass(5 * time.Minute)
				e.requireRows("1=x")
				require.Less(e, len(e.server.times("cluster")), 200)
				require.False(e, e.sink.State().Connected)
				require.Contains(e, strings.ReplaceAll(e.log.String(), `\`, ""), fmt.Sprintf("the resource version %q is no number of 64 bits", version))
				e.server.set(func() { e.server.versions = nil })
				e.pass(time.Minute)
				e.requireRows()
			})
		})
	}
}

// A program without a hive has only the log.
func TestTheLogSaysWhatIsWrong(t *testing.T) {
	run(t, func(e *env, cfg *fakeConfig, to *source.Config[*row]) {
		e.server.setFail(always(errRefused))
		cfg.Log = to.Log
	}, func(e *env) {
		e.pass(10 * time.Minute)
		require.Equal(e, 1, strings.Count(e.log.String(), "level=WARN"), e.log)
		require.Contains(e, e.log.String(), "source disconnected")
		require.Contains(e, e.log.String(), "connection refused")
		e.server.setFail(always(errUnnamed, "cluster"))
		e.server.put("a", "nonsense0")
		e.server.put("b", "1=x")
		e.server.put("c", "1=x")
		e.pass(time.Minute)
		for range 10 {
			e.server.put("a", "nonsense1")
			synctest.Wait()
		}
		require.Equal(e, 5, strings.Count(e.log.String(), "level=WARN"), e.log)
		require.Contains(e, e.log.String(), `msg="Not applied" error="configmaps default/a: \"nonsense0\" has no ="`)
		require.Contains(e, e.log.String(), "default/c: the row")
		require.Contains(e, e.log.String(), `msg="The cluster is not known"`)
	})
}

func TestWhyTheClusterIsNotKnownIsSaid(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.setFail(always(apierrors.NewUnauthorized("no"), "cluster"))
	}, func(e *env) {
		require.EqualError(e, e.sink.State().Err, "watching configmaps: the namespace kube-system: no")
	})
}

// The deadline of a request would end each watch.
func TestTheTimeoutOfTheConfigurationIsNotThatOfAWatch(t *testing.T) {
	made, err := newClient(&Config[*corev1.ConfigMap, *row]{
		Server: &rest.Config{Host: "192.0.2.1", Timeout: time.Second}, Scheme: scheme.Scheme,
	})
	require.NoError(t, err)
	if made.rest.Client != nil { // nil is the default of net/http, without a deadline
		require.Zero(t, made.rest.Client.Timeout)
	}
}

func TestAStopInEachPhase(t *testing.T) {
	for _, what := range []string{"cluster", "version", "stream", "list", "continue", "watch"} {
		t.Run(what, func(t *testing.T) {
			run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
				for i := range 5 {
					e.server.put(fmt.Sprint("o", i), fmt.Sprintf("%d=x", i))
				}
				e.server.hang = func(ctx context.Context, asked string) {
					if asked == what {
						e.server.mu.Unlock()
						<-ctx.Done()
						e.server.mu.Lock()
					}
				}
				if what == "list" || what == "continue" {
					e.server.setFail(always(errStream, "stream"))
				}
			}, func(e *env) {
				e.pass(time.Second)
				e.server.cut(watch.Event{})
				e.pass(5 * time.Second)
				e.stop()
				e.server.set(func() { e.server.hang = nil })
				e.start()
				e.pass(5 * time.Second)
				e.requireRows(e.model()...)
			})
		})
	}
	t.Run("Rows", func(t *testing.T) {
		run(t, func(e *env, cfg *fakeConfig, _ *source.Config[*row]) {
			cfg.Rows = func(o *corev1.ConfigMap) ([]*row, error) {
				time.Sleep(time.Second)
				return rowsOf(o)
			}
			for i := range 5 {
				e.server.put(fmt.Sprint("o", i), fmt.Sprintf("%d=x", i))
			}
		}, func(e *env) {
			for range 4 {
				e.pass(700 * time.Millisecond)
				e.stop()
				e.start()
			}
			e.pass(10 * time.Second)
			e.requireRows(e.model()...)
		})
	})
}

// Of a server that does not stream, the whole list is there before the first call of Rows. The list after that which was
// given up still shows that another cluster answers.
func TestAStopDoesNotWaitForTheRowsOfAList(t *testing.T) {
	run(t, func(e *env, cfg *fakeConfig, _ *source.Config[*row]) {
		cfg.Rows = func(o *corev1.ConfigMap) ([]*row, error) {
			time.Sleep(time.Second)
			return rowsOf(o)
		}
		e.server.setFail(always(errStream, "stream"))
		e.server.put("a", "1=x")
	}, func(e *env) {
		e.pass(2 * time.Second)
		e.requireRows("1=x")
		e.server.replace("two", 100)
		for i := range 20 {
			e.server.put(fmt.Sprint("o", i), fmt.Sprintf("1%02d=x", i))
		}
		e.pass(5 * time.Second)
		began := time.Now()
		e.stop()
		require.LessOrEqual(e, time.Since(began), time.Second)
		e.start()
		e.pass(time.Minute)
		require.Len(e, e.rows(), 21)
		require.Contains(e, e.input().Problems().First[0], "rows of 1 configmaps that it does not have are held")
	})
}

// Two sources of one table: each bound is that of its own rows.
func TestMaxDeletionsAreThoseOfEachSource(t *testing.T) {
	run(t, func(e *env, cfg *fakeConfig, to *source.Config[*row]) {
		to.Owner = func(r *row) string {
			owner, _, _ := strings.Cut(r.Object, "-")
			return owner
		}
		to.MaxDeletions = source.Bound{Fraction: 0.5}
		for i := range 10 {
			e.server.put(fmt.Sprint("kubernetes-", i), fmt.Sprintf("%d=x", i))
		}
	}, func(e *env) {
		other := newFakeServer("two")
		for i := range 4 {
			other.put(fmt.Sprint("other-", i), fmt.Sprintf("other%d=x", i))
		}
		sink, err := source.New(source.Config[*row]{Name: "other", DB: e.db, Table: e.table,
			Owner:        func(r *row) string { return strings.Split(r.Object, "-")[0] },
			MaxDeletions: source.Bound{Fraction: 0.5}})
		require.NoError(e, err)
		defer sink.Close()
		cfg, _ := fakeConfig{Rows: rowsOf, Sink: sink}.complete()
		cfg.Resource = "configmaps"
		second := &env{T: e.T, server: other, db: e.db, table: e.table, sink: sink, source: newSource(cfg, other)}
		second.start()
		defer second.stop()
		e.requireRows(append(e.model(), second.model()...)...)
		// Three of four are more than half of the rows of that source, though not of the table.
		other.cut(watch.Event{})
		for i := range 3 {
			other.remove(fmt.Sprint("other-", i))
		}
		other.compact()
		e.pass(5 * time.Second)
		require.Equal(e, 14, len(e.rows()))
		require.Equal(e, 3, sink.State().Held)
		require.Zero(e, e.sink.State().Held)
	})
}

func TestARightToReadTheClusterThatComesOrGoesDuringAListIsNoTrouble(t *testing.T) {
	for name, misses := range map[string]func(asked int) bool{
		"comes": func(asked int) bool { return asked == 1 },
		"goes":  func(asked int) bool { return asked > 1 },
	} {
		for _, how := range []string{"streamed", "in pages"} {
			t.Run(name+", "+how, func(t *testing.T) {
				run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
					e.server.put("a", "1=1")
					asked := 0
					e.server.fail = func(what string) error {
						if what == "stream" && how == "in pages" {
							asked = 0
							return errStream
						}
						if what == "cluster" {
							if asked++; misses(asked) {
								return errUnnamed
							}
						}
						return nil
					}
				}, func(e *env) {
					e.pass(10 * time.Second)
					e.requireRows("1=1")
					require.Equal(e, name == "goes", len(e.input().Problems().First) > 0)
					require.Equal(e, 1, strings.Count(e.log.String(), "source connected"))
					require.NotContains(e, e.log.String(), "source disconnected")
				})
			})
		}
	}
}

// Several API servers behind one address: one does not know of the right yet, or any more.
func TestARightToReadTheClusterThatComesAndGoesIsNoTrouble(t *testing.T) {
	for name, may := range map[string]func(asked int) bool{
		"it goes during a list":              func(asked int) bool { return asked == 1 },
		"it comes after a list":              func(asked int) bool { return asked > 2 },
		"it goes after a list":               func(asked int) bool { return asked <= 2 },
		"every second server knows of it":    func(asked int) bool { return asked%2 == 0 },
		"every second server, from a second": func(asked int) bool { return asked%2 == 1 },
		"two of three":                       func(asked int) bool { return asked%3 > 0 },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
				e.server.put("a", "1=1")
				asked := 0
				e.server.fail = func(what string) error {
					if what != "cluster" {
						return nil
					}
					if asked++; may(asked) {
						return nil
					}
					return errUnnamed
				}
			}, func(e *env) {
				e.requireRows("1=1")
				for i := range 10 {
					e.pass(10 * time.Second)
					e.server.cut(watch.Event{})
					e.server.put("a", fmt.Sprint("1=", i))
					e.pass(2 * time.Second)
					e.requireRows(fmt.Sprint("1=", i))
				}
				require.NoError(e, e.source.Loaded(e.Context()))
				require.Equal(e, 1, strings.Count(e.log.String(), "source connected"), e.log)
				require.NotContains(e, e.log.String(), "source disconnected")
				require.Len(e, e.server.times("stream"), 2, "at first, and for Loaded")
				require.Less(e, len(e.server.times("cluster")), 20)
			})
		})
	}
}

// The list was read without the right to know the cluster. With it, the first watch after that knows it.
func TestAfterTheRightHasComeAnotherClusterIsNoticed(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.put("a", "1=x")
		e.server.put("b", "2=x")
		e.server.setFail(always(errUnnamed, "cluster"))
	}, func(e *env) {
		e.requireRows("1=x", "2=x")
		e.server.setFail(nil)
		e.server.cut(watch.Event{})
		e.pass(2 * time.Second)
		e.server.bookmark()
		synctest.Wait()
		require.Zero(e, e.input().Rejected)
		e.server.replace("two", 100)
		e.server.put("a", "1=y")
		e.pass(5 * time.Second)
		e.requireRows("1=y", "2=x")
		require.ErrorContains(e, e.source.Loaded(e.Context()), "are held")
	})
}

// The cluster was known before a list that was read without the right.
func TestAfterAListWithoutTheRightAnotherClusterIsNoticed(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.put("a", "1=x")
		e.server.put("b", "2=x")
	}, func(e *env) {
		e.pass(5 * time.Second)
		e.server.setFail(always(errUnnamed, "cluster"))
		require.NoError(e, e.source.Loaded(e.Context()))
		e.pass(5 * time.Second)
		e.server.set(func() { e.server.uid = "two"; delete(e.server.objects, "a") })
		e.server.setFail(nil)
		e.server.cut(watch.Event{})
		e.pass(5 * time.Second)
		e.requireRows("1=x", "2=x")
		require.Contains(e, fmt.Sprint(e.input().Problems().First), "are held")
		require.Contains(e, e.log.String(), "the UID of kube-system is two, before one")
	})
}

// What was listed in between may be of another cluster, which does not give the right.
func TestAnEmptyListWhileTheRightGoesIsNotBelieved(t *testing.T) {
	for _, goes := range []bool{true, false} {
		t.Run(fmt.Sprintf("it goes: %t", goes), func(t *testing.T) {
			run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) { e.server.put("a", "1=x") }, func(e *env) {
				e.requireRows("1=x")
				asked := 0
				e.server.setFail(func(what string) error {
					if what != "cluster" {
						return nil
					}
					if asked++; goes == (asked > 1) {
						return errUnnamed
					}
					return nil
				})
				e.server.cut(watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired("old").ErrStatus})
				e.server.set(func() { clear(e.server.objects) })
				e.pass(5 * time.Second)
				require.Equal(e, 2, asked)
				e.requireRows("1=x")
			})
		})
	}
}

// A server that takes the place of another one makes kube-system some time after its start.
func TestAServerThatHasNoNamespacesYetIsNoCluster(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.put("a", "1=x")
		e.server.put("b", "2=x")
	}, func(e *env) {
		e.requireRows("1=x", "2=x")
		e.server.replace("two", 100)
		e.server.put("b", "2=y")
		e.server.setFail(always(errNoNamespace, "cluster"))
		e.pass(time.Minute)
		e.requireRows("1=x", "2=x")
		require.ErrorContains(e, e.sink.State().Err, `the namespace kube-system: namespaces "kube-system" not found`)
		e.server.setFail(nil)
		e.pass(time.Minute)
		e.requireRows("1=x", "2=y")
		e.beCalm()
		e.requireRows("2=y")
	})
}

// A readiness probe asks all the time whether all is loaded. Then no watch lasts until a bookmark comes.
func TestAHoldEndsThoughLoadedIsCalledAllTheTime(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.put("a", "1=x")
		e.server.put("b", "2=x")
	}, func(e *env) {
		e.server.replace("two", 100)
		e.server.put("b", "2=y")
		e.pass(5 * time.Second)
		held := func(d time.Duration, rows ...string) {
			for range d / (10 * time.Second) {
				e.pass(10 * time.Second)
				require.ErrorContains(e, e.source.Loaded(e.Context()), "are held")
				e.requireRows(rows...)
			}
		}
		held(calm-20*time.Second, "1=x", "2=y")
		// A list shows what is new, too.
		e.server.set(func() { clear(e.server.watches) })
		e.server.put("c", "3=x")
		held(calm-10*time.Second, "1=x", "2=y", "3=x")
		e.pass(20 * time.Second)
		require.NoError(e, e.source.Loaded(e.Context()))
		e.requireRows("2=y", "3=x")
	})
}

// The server sends no bookmarks for a kind that it has no cache of: a quiet one is listed every few minutes.
func TestAHoldEndsWithoutBookmarks(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.put("a", "1=x")
		e.server.put("b", "2=x")
	}, func(e *env) {
		e.server.replace("two", 100)
		e.server.put("b", "2=y")
		e.pass(calm)
		e.requireRows("1=x", "2=y")
		e.pass(2*silence + 10*time.Second)
		e.requireRows("2=y")
		require.NoError(e, e.source.Loaded(e.Context()))
	})
}

// The rows are from a source before this one, which may have followed another cluster.
func TestAnEmptyFirstListIsNotBelievedWhenItIsListedAgain(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		wtxn := e.db.WriteTxn(e.table)
		_, _, err := e.table.Insert(wtxn, &row{"1", "x", "a"})
		require.NoError(e, err)
		wtxn.Commit()
	}, func(e *env) {
		for range 3 {
			e.requireRows("1=x")
			require.ErrorIs(e, e.source.Loaded(e.Context()), source.ErrEmpty)
			e.server.bookmark()
		}
		e.server.put("b", "2=x")
		e.requireRows("2=x")
		e.server.remove("b")
		e.requireRows()
		require.NoError(e, e.source.Loaded(e.Context()))
	})
}

func TestAFunctionThatHasHungDuringAListIsNoConnection(t *testing.T) {
	run(t, func(e *env, cfg *fakeConfig, _ *source.Config[*row]) {
		cfg.Rows = func(o *corev1.ConfigMap) ([]*row, error) {
			time.Sleep(guard.LongAfter + time.Second)
			return rowsOf(o)
		}
		e.server.slow = 10 * time.Second
		for i := range 5 {
			e.server.put(fmt.Sprint("o", i), fmt.Sprintf("o%d=x", i))
		}
	}, func(e *env) {
		for initialized := false; !initialized; initialized, _ = e.table.Initialized(e.db.ReadTxn()) {
			require.False(e, e.sink.State().Connected, "the list is not through")
			e.pass(time.Second)
		}
		require.True(e, e.sink.State().Connected)
		require.Equal(e, 1, strings.Count(e.log.String(), "source connected"))
	})
}

// The store of the server went back to before the first page, so that it cannot read the next one at its version.
func TestAPageThatIsNeverAnsweredEndsTheList(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		for i := range 10 {
			e.server.put(fmt.Sprint("o", i), fmt.Sprintf("%d=x", i))
		}
		lists := 0
		e.server.setFail(func(what string) error {
			switch {
			case what == "stream":
				return errStream
			case what == "list":
				lists++
			case what == "continue" && lists == 1:
				return apierrors.NewInternalError(errors.New("etcdserver: mvcc: required revision is a future revision"))
			}
			return nil
		})
	}, func(e *env) {
		e.pass(time.Second)
		require.ErrorContains(e, e.sink.State().Err, "future revision")
		e.pass(2 * time.Minute)
		e.requireRows(e.model()...)
		require.True(e, e.sink.State().Connected)
		require.Len(e, e.server.times("list"), 2)
	})
}

// What is asked again after a second answers. The list goes on.
func TestAPageThatIsRefusedForAWhileIsAskedForAgain(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		for i := range 10 {
			e.server.put(fmt.Sprint("o", i), fmt.Sprintf("%d=x", i))
		}
		asked := 0
		e.server.setFail(func(what string) error {
			if asked++; what == "continue" && asked%4 > 0 {
				return apierrors.NewTooManyRequests("slow down", 0)
			}
			return always(errStream, "stream")(what)
		})
	}, func(e *env) {
		e.pass(170 * time.Second) // less than a silence
		e.requireRows(e.model()...)
		require.Len(e, e.server.times("list"), 1)
	})
}

// The wait is an hour. When the source runs again, it asks at once.
func TestAStopDoesNotWaitForTheTimeThatTheServerAsksFor(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.setFail(always(apierrors.NewTooManyRequests("slow down", 3600), "stream"))
	}, func(e *env) {
		e.pass(time.Minute)
		ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
		defer cancel()
		require.ErrorContains(e, e.source.Loaded(ctx), "slow down")
		began := time.Now()
		e.stop()
		require.Zero(e, time.Since(began))
		require.Len(e, e.server.times("stream"), 1)
		e.server.setFail(nil)
		e.start()
		e.pass(time.Second)
		require.True(e, e.sink.State().Connected)
	})
}

func TestVersionsMayBeLargeNumbers(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.at = math.MaxUint64 - 20
		e.server.put("a", "1=x")
	}, func(e *env) {
		at, objects := e.server.snapshot()
		for i := range 5 {
			e.server.put("a", fmt.Sprint("1=", i))
			e.server.cut(watch.Event{})
			e.pass(2 * time.Second)
			e.requireRows(fmt.Sprint("1=", i))
			require.Equal(e, e.server.at, e.input().Input)
		}
		require.Len(e, e.server.times("stream"), 1)
		e.server.put("b", "2=x")
		e.requireRows("1=4", "2=x")
		e.server.restore(at, objects)
		e.pass(5 * time.Second)
		e.requireRows("1=x", "2=x") // 2 is held
		e.beCalm()
		e.requireRows("1=x")
	})
}
