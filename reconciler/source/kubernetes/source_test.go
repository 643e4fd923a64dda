// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetes

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/reconciler/source"
)

func TestListAndEventsFillTheTable(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.put("a", "1=x,2=y")
		e.server.put("none", "")
	}, func(e *env) {
		e.requireRows("1=x", "2=y")
		require.True(e, e.table.NumObjects(e.db.ReadTxn()) == 2 && e.sink.State().Connected)
		initialized, _ := e.table.Initialized(e.db.ReadTxn())
		require.True(e, initialized)
		e.server.put("a", "2=y,3=z")
		e.server.put("b", "4=w")
		e.requireRows("2=y", "3=z", "4=w")
		e.server.remove("a")
		e.requireRows("4=w")
		require.EqualValues(e, e.server.at, e.input().Input)
		require.Equal(e, e.revision(), e.input().Output)
	})
}

func TestOnlyDifferencesAreWritten(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		for i := range 10 {
			e.server.put(fmt.Sprint("o", i), fmt.Sprintf("%d=x", i))
		}
	}, func(e *env) {
		before := e.revision()
		e.server.put("o1", "1=x") // as it is
		e.requireRows(e.model()...)
		e.server.other()
		e.server.compact()
		e.server.cut(watch.Event{})
		e.pass(3 * time.Second)
		require.Len(e, e.server.times("stream"), 2, "listed again")
		require.Equal(e, before, e.revision(), "nothing was written")
		require.EqualValues(e, e.server.at, e.input().Input)
	})
}

func TestBookmarksMoveInput(t *testing.T) {
	run(t, nil, func(e *env) {
		e.server.other()
		e.server.other()
		synctest.Wait()
		require.EqualValues(e, 1, e.input().Input)
		e.server.bookmark()
		synctest.Wait()
		require.EqualValues(e, 3, e.input().Input)
	})
}

func TestEventsThatComeTogetherAreWrittenTogether(t *testing.T) {
	run(t, func(e *env, cfg *fakeConfig, _ *source.Config[*row]) {
		cfg.Rows = func(o *corev1.ConfigMap) ([]*row, error) {
			if o.Name == "slow" {
				time.Sleep(time.Second)
			}
			return rowsOf(o)
		}
	}, func(e *env) {
		e.server.put("slow", "0=x")
		for i := range 100 {
			e.server.put(fmt.Sprint("o", i), fmt.Sprintf("%03d=x", i))
		}
		e.server.remove("o7")
		synctest.Wait()
		inputs, err := inputs.Open(e.db, "rows")
		require.NoError(e, err)
		_, changed, _ := inputs.Watch(e.db.ReadTxn(), "kubernetes")
		<-changed
		require.EqualValues(e, e.server.at, e.input().Input, "one call of the sink has them all")
		require.ElementsMatch(e, e.model(), e.rows())
	})
}

func TestABadObjectKeepsItsLastGoodRows(t *testing.T) {
	for _, bad := range []string{"panic", "nonsense", "1=x,1=y", "keyless=x"} {
		t.Run(bad, func(t *testing.T) {
			run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) { e.server.put("a", "1=x") }, func(e *env) {
				e.server.put("a", bad)
				e.server.put("b", "2=y")
				e.requireRows("1=x", "2=y")
				require.EqualValues(e, e.server.at, e.input().Input)
				require.Equal(e, 1, e.input().Rejected)
				said := e.input().Problems().Of["1"]
				require.Contains(e, said, "configmaps default/a: ")
				_, _, err := e.health.Now()
				require.ErrorContains(e, err, said)
				require.ErrorContains(e, e.source.Loaded(e.Context()), said)

				// A list keeps the rows, too.
				e.server.compact()
				e.server.cut(watch.Event{})
				e.pass(3 * time.Second)
				e.requireRows("1=x", "2=y")

				e.server.put("a", "3=z")
				e.requireRows("2=y", "3=z")
				require.Zero(e, e.input().Rejected)
				require.NoError(e, e.source.Loaded(e.Context()))
				e.server.put("a", bad)
				e.server.remove("a")
				e.requireRows("2=y")
				require.Zero(e, e.input().Rejected)
				e.server.put("c", bad)
				synctest.Wait()
				require.Equal(e, 1, e.input().Rejected)
				e.server.remove("c")
				e.server.compact()
				e.server.cut(watch.Event{})
				e.pass(3 * time.Second)
				require.Zero(e, e.input().Rejected)
			})
		})
	}
}

func TestTheOldestObjectHasTheRowThatSeveralWant(t *testing.T) {
	run(t, nil, func(e *env) {
		e.server.put("b", "1=b")
		e.server.put("a", "1=a,2=a")
		e.server.put("c", "1=c")
		e.requireRows("1=b", "2=a")
		require.Equal(e, `configmaps default/a: the row "1" is that of default/b, which is older, or has the lower name`, e.input().Problems().Of["1"])
		e.server.remove("b")
		e.requireRows("1=a", "2=a")
		require.Contains(e, e.input().Problems().Of["1"], `default/c: the row "1" is that of default/a`)
		e.server.put("a", "2=a")
		e.requireRows("1=c", "2=a")
		require.Zero(e, e.input().Rejected)
	})
}

func TestRowsOfOtherOwnersStay(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, to *source.Config[*row]) {
		to.Owner = func(r *row) string {
			if r.Object == "by hand" {
				return "somebody"
			}
			return "kubernetes"
		}
		wtxn := e.db.WriteTxn(e.table)
		_, _, err := e.table.Insert(wtxn, &row{"1", "x", "by hand"})
		require.NoError(e, err)
		wtxn.Commit()
	}, func(e *env) {
		e.server.put("a", "1=y,2=y")
		e.requireRows("1=x", "2=y")
		require.Equal(e, 1, e.sink.State().Rejected)
		e.server.remove("a")
		e.requireRows("1=x")
	})
}

func TestTheWatchGoesOnWhereItWas(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) { e.server.put("a", "1=x") }, func(e *env) {
		for i, last := range []watch.Event{
			{}, {Type: watch.Error, Object: &apierrors.NewInternalError(errRefused).ErrStatus},
			{Type: watch.Error, Object: &apierrors.NewTooManyRequests("slow down", 1).ErrStatus},
		} {
			e.server.put("a", fmt.Sprintf("1=%d", i))
			synctest.Wait()
			e.server.cut(last)
			// While there is no watch.
			e.server.put("b", fmt.Sprintf("2=%d", i))
			e.pass(5 * time.Second)
			e.requireRows(fmt.Sprintf("1=%d", i), fmt.Sprintf("2=%d", i))
			e.server.remove("b")
			e.pass(time.Minute)
			e.requireRows(fmt.Sprintf("1=%d", i))
		}
		require.Len(e, e.server.times("stream"), 1, "listed once")
		require.Len(e, e.server.times("watch"), 3)
		require.Equal(e, 1, strings.Count(e.log.String(), "source connected"), e.log)
		require.NotContains(e, e.log.String(), "source disconnected", "a watch that is resumed is no news")
	})
}

func TestAWatchThatEndsAtOnceIsSaidAndOpenedLessOften(t *testing.T) {
	run(t, nil, func(e *env) {
		for range 200 {
			e.server.cut(watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(errRefused).ErrStatus})
			e.pass(time.Second)
		}
		require.Less(e, len(e.server.times("stream"))+len(e.server.times("watch")), 30)
		require.Contains(e, e.log.String(), `error="watching configmaps: Internal error occurred: dial tcp`)
		e.pass(time.Minute)
		e.server.put("a", "1=x")
		e.requireRows("1=x")
	})
}

func TestASilentWatchIsOpenedAgain(t *testing.T) {
	run(t, nil, func(e *env) {
		e.server.mu.Lock()
		clear(e.server.watches) // nothing comes any more
		e.server.mu.Unlock()
		e.server.put("a", "1=x")
		e.requireRows()
		e.pass(silence + 2*time.Second)
		e.requireRows("1=x")
		require.Len(e, e.server.times("stream"), 1)
	})
}

func TestAnExpiredVersionIsListedAgain(t *testing.T) {
	for name, event := range map[string]watch.Event{
		"when the watch begins": {},
		"in the watch":          {Type: watch.Error, Object: &apierrors.NewResourceExpired("too old resource version: 1 (7)").ErrStatus},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
				e.server.put("a", "1=x")
				e.server.put("b", "2=x")
			}, func(e *env) {
				e.server.cut(event)
				e.server.put("a", "1=y")
				e.server.remove("b") // seen only as a missing object
				e.server.compact()
				e.pass(5 * time.Second)
				e.requireRows("1=y")
				require.Len(e, e.server.times("stream"), 2)
				require.EqualValues(e, e.server.at, e.input().Input)
			})
		})
	}
}

func TestWhatCameBeforeAVersionExpiredIsWritten(t *testing.T) {
	run(t, func(e *env, cfg *fakeConfig, _ *source.Config[*row]) {
		cfg.Rows = func(o *corev1.ConfigMap) ([]*row, error) {
			time.Sleep(time.Second)
			return rowsOf(o)
		}
	}, func(e *env) {
		e.server.put("a", "1=x")
		e.server.put("b", "2=x")
		e.server.cut(watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired("too old").ErrStatus})
		e.server.setFail(always(errRefused))
		e.pass(3 * time.Second)
		e.requireRows("1=x", "2=x")
	})
}

func TestAServerThatCannotStreamListsIsListedInPages(t *testing.T) {
	changed := false
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		for i := range 10 {
			e.server.put(fmt.Sprint("o", i), fmt.Sprintf("%d=x", i))
		}
		e.server.setFail(func(what string) error {
			if what == "continue" && !changed {
				// The token expires, and the list begins again.
				changed = true
				e.server.mu.Unlock()
				e.server.remove("o3")
				e.server.mu.Lock()
			}
			return always(errStream, "stream")(what)
		})
	}, func(e *env) {
		e.requireRows(e.model()...)
		require.True(e, changed)
		require.NotEmpty(e, e.server.times("continue"))
		for _, a := range e.server.asked {
			require.Empty(e, map[string]string{"list": a.opts.ResourceVersion, "stream": a.opts.ResourceVersion}[a.what], "never older than what there is")
		}
		e.server.put("o1", "1=y")
		e.requireRows(e.model()...)
	})
}

func TestWhileTheServerIsAwayTheRowsStay(t *testing.T) {
	for name, err := range map[string]error{
		"refused": errRefused, "forbidden": errForbidden, "TLS": fmt.Errorf("tls: failed to verify certificate: x509: certificate has expired"),
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) { e.server.put("a", "1=x") }, func(e *env) {
				e.pass(time.Minute)
				began := time.Now()
				e.server.setFail(always(err))
				e.server.cut(watch.Event{})
				e.server.put("a", "1=y")
				e.pass(5 * time.Minute)
				e.requireRows("1=x")
				state := e.sink.State()
				require.False(e, state.Connected)
				require.WithinDuration(e, began, state.Since, 3*time.Second)
				require.ErrorContains(e, state.Err, err.Error())
				level, message, said := e.health.Now()
				require.Equal(e, "Degraded", string(level))
				require.Contains(e, message, "without a connection for 4 min")
				require.ErrorContains(e, said, err.Error())
				require.False(e, e.input().Connected)

				e.server.setFail(nil)
				e.pass(31 * time.Second)
				e.requireRows("1=y")
				level, _, _ = e.health.Now()
				require.Equal(e, "OK", string(level))
				require.Equal(e, 1, strings.Count(e.log.String(), "source disconnected"), "one line for a change of state")
				require.Equal(e, 2, strings.Count(e.log.String(), "source connected"))
				require.Len(e, e.server.times("stream"), 1, "listed once")
			})
		})
	}
}

func TestTheServerIsAskedAgainWhenItSays(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.setFail(always(apierrors.NewTooManyRequests("slow down", 100), "stream", "watch"))
	}, func(e *env) {
		e.pass(99 * time.Second)
		require.Len(e, e.server.times("stream"), 1)
		e.pass(9 * time.Second)
		require.Len(e, e.server.times("stream"), 2)
		require.ErrorContains(e, e.sink.State().Err, "slow down")
	})
}

func TestSourcesThatLostAServerDoNotComeBackTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*env
		for range 100 {
			e := newEnv(t, nil)
			e.start()
			all = append(all, e)
		}
		for _, e := range all {
			e.server.compact()
			e.server.other()
			e.server.compact()
			e.server.cut(watch.Event{})
		}
		time.Sleep(5 * time.Second)
		tenths := map[time.Duration]int{}
		for _, e := range all {
			times := e.server.times("stream")
			require.Len(e, times, 2)
			tenths[times[1].Sub(times[0])/(100*time.Millisecond)]++
			e.stop()
			e.sink.Close()
		}
		require.Greater(t, len(tenths), 7)
	})
}

func TestAnEmptyListOfTheSameClusterIsBelieved(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) { e.server.put("a", "1=x") }, func(e *env) {
		e.server.cut(watch.Event{})
		e.server.remove("a")
		e.server.compact()
		e.pass(5 * time.Second)
		e.requireRows()
		require.NoError(e, e.source.Loaded(e.Context()))
	})
}

func TestDeletionsAboveTheBoundAreHeld(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, to *source.Config[*row]) {
		to.MaxDeletions.Rows = 2
		for i := range 5 {
			e.server.put(fmt.Sprint("o", i), fmt.Sprintf("%d=x", i))
		}
	}, func(e *env) {
		e.server.cut(watch.Event{})
		for i := range 4 {
			e.server.remove(fmt.Sprint("o", i))
		}
		e.server.put("new", "9=x")
		e.server.compact()
		e.pass(5 * time.Second)
		e.requireRows("0=x", "1=x", "2=x", "3=x", "4=x", "9=x")
		require.ErrorIs(e, e.source.Loaded(e.Context()), source.ErrHeld)
		e.server.put("new", "9=y")
		e.server.put("o0", "0=y")
		e.requireRows("0=y", "1=x", "2=x", "3=x", "4=x", "9=y")
		_, err := e.sink.Approve(e.Context(), e.sink.Snapshot().Held.Set)
		require.NoError(e, err)
		e.requireRows(e.model()...)
		e.server.bookmark()
		synctest.Wait()
		require.EqualValues(e, e.server.at, e.input().Input)
	})
}

func TestRowsThatAnotherClusterDoesNotHaveAreHeld(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		for range 10 {
			e.server.other()
		}
		e.server.put("a", "1=x,2=x")
		e.server.put("b", "3=x")
	}, func(e *env) {
		before := e.input()
		// With higher versions: only the UID tells.
		e.server.replace("two", 100)
		e.pass(5 * time.Second)
		e.requireRows("1=x", "2=x", "3=x")
		require.Contains(e, e.input().Problems().First[0], "the server was replaced: rows of 2 configmaps that it does not have are held")
		require.ErrorContains(e, e.source.Loaded(e.Context()), "are held")

		// It is filled: each change is applied, also of a row that is held.
		e.pass(calm)
		e.server.put("new", "1=y,9=y")
		e.requireRows("1=y", "2=x", "3=x", "9=y")
		e.server.bookmark()
		e.server.put("b", "3=y")
		e.server.remove("new")
		synctest.Wait()
		e.requireRows("1=x", "2=x", "3=y")
		e.server.put("new", "1=y,9=y")
		e.requireRows("1=y", "2=x", "3=y", "9=y")
		require.Equal(e, before.Input, e.input().Input)

		// It is listed again meanwhile: that ends no hold.
		e.server.cut(watch.Event{})
		e.server.compact()
		e.server.other()
		e.server.compact()
		e.pass(5 * time.Second)
		e.requireRows("1=y", "2=x", "3=y", "9=y")

		// No object was new for a while.
		e.server.bookmark()
		e.requireRows("1=y", "2=x", "3=y", "9=y")
		e.beCalm()
		e.requireRows("1=y", "3=y", "9=y")
		require.EqualValues(e, e.server.at, e.input().Input)
		require.Zero(e, e.input().Rejected)
		require.NoError(e, e.source.Loaded(e.Context()))
		e.server.remove("b")
		e.requireRows("1=y", "9=y")
	})
}

func TestAnotherClusterThatIsEmptyRemovesNothing(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) { e.server.put("a", "1=x") }, func(e *env) {
		e.server.replace("two", 100)
		e.pass(5 * time.Second)
		for range 10 {
			e.beCalm()
			e.requireRows("1=x")
		}
		require.ErrorContains(e, e.source.Loaded(e.Context()), "are held")
		require.Contains(e, e.input().Problems().First[0], "are held")
		e.server.put("b", "2=x")
		e.requireRows("1=x", "2=x")
		e.beCalm()
		e.requireRows("2=x")
	})
}

func TestAServerThatWasRestoredIsListedAgain(t *testing.T) {
	for _, named := range []bool{true, false} {
		t.Run(fmt.Sprintf("its cluster is known: %t", named), func(t *testing.T) {
			run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
				e.server.put("a", "1=x")
				e.server.put("b", "2=x")
				if !named {
					e.server.setFail(always(errUnnamed, "cluster"))
				}
			}, func(e *env) {
				at, objects := e.server.snapshot()
				e.server.put("a", "1=y")
				e.server.put("c", "3=y")
				for range 10 {
					e.server.other()
				}
				e.server.bookmark()
				e.requireRows("1=y", "2=x", "3=y")
				e.server.restore(at, objects)
				e.server.put("b", "2=z")
				e.pass(5 * time.Second)
				e.requireRows("1=x", "2=z", "3=y") // 3 is held
				e.beCalm()
				e.requireRows("1=x", "2=z")
				require.EqualValues(e, e.server.at, e.input().Input)
				e.server.put("c", "3=z")
				e.requireRows("1=x", "2=z", "3=z")
			})
		})
	}
}

func TestWithoutTheRightToKnowTheClusterAnEmptyListIsNotBelieved(t *testing.T) {
	run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
		e.server.put("a", "1=x")
		e.server.setFail(always(errUnnamed, "cluster"))
	}, func(e *env) {
		e.requireRows("1=x")
		_, _, err := e.health.Now()
		require.ErrorContains(e, err, `another server is noticed only by versions that go back, and an empty list is not believed: `+
			`namespaces "kube-system" is forbidden`)
		e.server.replace("two", 100)
		e.pass(5 * time.Second)
		e.requireRows("1=x") // a watch cannot tell
		e.server.other()
		e.server.compact()
		e.server.cut(watch.Event{})
		e.pass(5 * time.Second)
		e.requireRows("1=x")
		require.ErrorIs(e, e.source.Loaded(e.Context()), source.ErrEmpty)
		message := e.health.History()[len(e.health.History())-1]
		require.Contains(e, message, "an empty list was refused")

		// With the right, the cluster is known from the next watch on.
		e.server.setFail(nil)
		e.server.put("b", "2=x")
		e.requireRows("2=x")
		e.server.cut(watch.Event{})
		e.pass(5 * time.Second)
		e.server.bookmark()
		synctest.Wait()
		require.Zero(e, e.input().Rejected)
	})
}

func TestAServerThatIsReplacedWhileItIsReadIsReadAgain(t *testing.T) {
	for _, doing := range []string{"stream", "list", "watch"} {
		t.Run(doing, func(t *testing.T) {
			replaced := false
			run(t, func(e *env, _ *fakeConfig, _ *source.Config[*row]) {
				e.server.put("a", "1=x")
				e.server.setFail(func(what string) error {
					if what == doing && !replaced {
						// What answers is the first one.
						replaced = true
						time.AfterFunc(0, func() { e.server.mu.Lock(); defer e.server.mu.Unlock(); e.server.uid = "two" })
					}
					if what == "stream" && doing == "list" {
						return errStream
					}
					if what == "cluster" && replaced {
						// After the timer.
						e.server.mu.Unlock()
						time.Sleep(time.Millisecond)
						e.server.mu.Lock()
					}
					return nil
				})
			}, func(e *env) {
				if doing == "watch" {
					e.server.put("b", "")
					synctest.Wait()
					e.server.cut(watch.Event{})
				}
				e.pass(5 * time.Second)
				e.requireRows("1=x")
				require.Len(e, e.server.times(doing), map[string]int{"stream": 2, "list": 2, "watch": 1}[doing])
				require.Equal(e, "two", e.source.cluster)
			})
		})
	}
}

func TestLoadedWaitsForWhatTheServerHas(t *testing.T) {
	run(t, nil, func(e *env) {
		require.NoError(e, e.sink.Loaded(e.Context()))
		e.server.mu.Lock()
		clear(e.server.watches) // the watch is behind
		e.server.mu.Unlock()
		e.server.put("a", "1=x")
		e.server.other()
		require.NoError(e, e.sink.Loaded(e.Context()), "the kind is listed")
		require.Equal(e, []string{"1=x"}, e.rows())
		require.NoError(e, e.sink.Loaded(e.Context()))
		require.NotContains(e, e.log.String(), "disconnected", "a list that was asked for is no news")

		e.server.setFail(always(errRefused))
		e.server.cut(watch.Event{})
		e.pass(2 * time.Second)
		ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
		defer cancel()
		err := e.sink.Loaded(ctx)
		require.ErrorContains(e, err, "configmaps are not listed yet: context deadline exceeded")
		require.ErrorContains(e, err, "connection refused")
		e.server.setFail(nil)
		e.server.put("a", "1=y")
		require.NoError(e, e.sink.Loaded(e.Context()))
		require.Equal(e, []string{"1=y"}, e.rows())
	})
}

func TestRunGoesOnAfterItWasStopped(t *testing.T) {
	run(t, nil, func(e *env) {
		e.server.put("a", "1=x")
		e.server.put("b", "2=x")
		e.requireRows("1=x", "2=x")
		require.EqualError(e, e.source.Run(e.Context()), "the source runs already")
		e.stop()
		require.ErrorContains(e, e.sink.State().Err, "the source has stopped")
		e.server.remove("a")
		before := e.revision()
		e.start()
		e.pass(time.Second)
		e.requireRows("2=x")
		require.Equal(e, before+1, e.revision(), "one deletion")
		// A cluster that was replaced in between is noticed.
		e.stop()
		e.server.replace("two", 100)
		e.start()
		e.pass(time.Second)
		e.requireRows("2=x")
		require.Contains(e, e.input().Problems().First[0], "are held")
	})
}

func TestAStopWhileTheServerDoesNotAnswer(t *testing.T) {
	for _, what := range []string{"cluster", "stream", "list"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, nil)
				hang := make(chan struct{})
				e.server.setFail(func(asked string) error {
					if asked == what {
						e.server.mu.Unlock()
						<-hang
						e.server.mu.Lock()
					}
					return always(errStream, "stream")(asked)
				})
				e.start()
				time.AfterFunc(time.Second, func() { close(hang) })
				e.stop()
				e.server.setFail(nil)
				e.server.put("a", "1=x")
				e.start()
				e.pass(time.Minute)
				e.requireRows("1=x")
				e.stop()
				e.sink.Close()
			})
		})
	}
}

// The Reflector may ask for a list when Run has returned, and runs again.
func TestAListThatIsAskedForTooLateChangesNothing(t *testing.T) {
	run(t, nil, func(e *env) {
		ended, cancel := context.WithCancel(e.Context())
		cancel()
		_, err := e.source.list(ended, metav1.ListOptions{})
		require.ErrorIs(e, err, context.Canceled)
		e.server.put("a", "1=x")
		e.requireRows("1=x")
	})
}

func TestAFunctionThatEndsTheGoroutineEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, nil)
		rows := e.source.cfg.Rows
		e.source.cfg.Rows = func(*corev1.ConfigMap) ([]*row, error) { runtime.Goexit(); return nil, nil }
		e.server.put("a", "1=x")
		require.ErrorContains(e, e.source.Run(e.Context()), "runtime.Goexit")
		e.source.cfg.Rows = rows
		e.start()
		e.pass(time.Second)
		e.requireRows("1=x")
		e.stop()
		e.sink.Close()
	})
}

func TestAVersionThatIsNoNumberIsSaid(t *testing.T) {
	run(t, nil, func(e *env) {
		require.EqualError(e, e.source.reach("abc"), `the server cannot be followed: the resource version "abc" is no number of 64 bits`)
	})
}

func TestBadConfigurationIsAnError(t *testing.T) {
	_, err := New(Config[*corev1.Service, *row]{Labels: "a in", Fields: "x", Backoff: -1})
	for _, part := range []string{
		"Config.Server is nil", `Config.Labels is "a in": `, `Config.Fields is "x": `, "Config.Rows is nil", "Config.Sink is nil",
		"Config.Backoff is -1ns, must not be negative",
	} {
		require.ErrorContains(t, err, part)
	}
	e := newEnv(t, nil)
	defer e.sink.Close()
	_, err = New(Config[*custom, *row]{
		Server: &rest.Config{Host: "192.0.2.1"}, Sink: e.sink, Rows: func(*custom) ([]*row, error) { return nil, nil }})
	require.ErrorContains(e, err, "Config.Scheme does not have *kubernetes.custom: ")
	_, err = New(Config[*corev1.Service, *row]{
		Server: &rest.Config{Host: "://"}, Sink: e.sink, Rows: func(*corev1.Service) ([]*row, error) { return nil, nil }})
	require.ErrorContains(e, err, "Config.Server: ")
}

// custom is a kind that no scheme has.
type custom struct{ corev1.ConfigMap }

func TestRandomHistoriesEndAsTheServerIs(t *testing.T) {
	for seed := range uint64(200) {
		walk(t, seed)
	}
}
