// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/hivetest"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/trigger"
)

// A run that follows another processes everything that the first has not handed to the loop. A row that the source had
// before the trigger was made may be newer than the version that an object was reconciled with by an earlier loop: it
// counts as changed, even if it was deleted before the trigger ran.
func TestNextRunContinuesWithUnfinishedChanges(t *testing.T) {
	const ports, objects = 5, 300 // a change is more than a round
	for _, stop := range []int{1, 2, 5, 0} {
		t.Run(fmt.Sprintf("stop at change %d", stop), func(t *testing.T) {
			withPorts(t, func(f *followed) {
				ctx, cancel := context.WithTimeout(f.Context(), time.Hour)
				changes := 0
				for id := range uint64(ports) {
					name := fmt.Sprintf("eth%d", id)
					f.add(name, reconciler.StatusDone, harness.IDs(id*1000, id*1000+objects-1)...)
					f.set(1, name)
				}
				f.prepare(f.ports, func(change statedb.Change[*port]) []statedb.Query[*object] {
					if changes++; changes == stop {
						cancel()
					}
					return onPort(change)
				})
				f.unset("eth3", "eth4")
				f.Pass(time.Minute) // deleted rows are collected meanwhile
				run := reconcilertest.Go(f, func(context.Context) error { return f.trigger.Run(ctx) })
				if stop > 1 {
					// Until the loop runs, no round ends.
					defer reconcilertest.Go(f, f.Loop.Run)()
				}
				<-ctx.Done()
				run()
				f.Pass(time.Hour) // deleted rows are collected
				if stop <= 1 {
					defer reconcilertest.Go(f, f.Loop.Run)()
				}
				f.resume()
				f.Pass(time.Second)
				f.halt()
				f.applied()
			})
		})
	}
}

func TestClosedTriggerReleasesDeletedRows(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.follow(onPort)
		require.EqualError(f, f.trigger.Run(f.Context()), "trigger-ports: is running already")
		f.halt()
		f.set(1, "eth0")
		f.unset("eth0")
		f.Pass(time.Minute)
		require.Equal(f, "1", f.metrics.GraveyardObjectCountVar.Get("ports").String())
		f.trigger.Close()
		f.trigger.Close()
		f.Pass(time.Minute)
		require.Equal(f, "0", f.metrics.GraveyardObjectCountVar.Get("ports").String())
		require.EqualError(f, f.trigger.Run(f.Context()), "trigger-ports: has been closed")
	})
}

func TestNewNamesMissingFields(t *testing.T) {
	_, err := trigger.New(trigger.Config[*object, *port]{})
	require.EqualError(t, err, "trigger: Config.Loop is nil\nConfig.Source is nil\nConfig.Dependents is nil")
	err = trigger.Register(reconciler.Params{}, trigger.Config[*object, *port]{Dependents: onPort})
	require.EqualError(t, err, "trigger: Config.Loop is nil\nConfig.Source is nil")
}

// panicky is a dependents function that panics for the broken ports, and records for which port it was called and when.
type panicky struct {
	broken []string
	healed atomic.Bool
	began  time.Time
	calls  []string
}

func (p *panicky) dependents(change statedb.Change[*port]) []statedb.Query[*object] {
	name, value := change.Object.Note, change.Object.Value
	p.calls = append(p.calls, fmt.Sprintf("%s=%d at %s", name, value, time.Since(p.began).Round(time.Millisecond)))
	if slices.Contains(p.broken, name) && !p.healed.Load() {
		panic("no idea of " + name)
	}
	return onPort(change)
}

// withPanics runs a test with a trigger that panics for the broken ports. The object 1 depends on "bad", 2 on "worse"
// and 3 on "good".
func withPanics(t *testing.T, test func(f *followed, p *panicky), broken ...string) {
	withPorts(t, func(f *followed) {
		f.Start(f.cfg)
		p := &panicky{broken: broken, began: time.Now()}
		f.follow(p.dependents)
		for i, name := range []string{"bad", "worse", "good"} {
			f.add(name, reconciler.StatusDone, uint64(i+1))
		}
		synctest.Wait()
		test(f, p)
	})
}

func TestChangeWhoseDependentsPanicIsKept(t *testing.T) {
	withPanics(t, func(f *followed, p *panicky) {
		f.set(1, "bad", "good")
		synctest.Wait()

		require.Equal(f, []string{"refresh(3)"}, f.target.Calls(), "other changes are processed")
		level, message, err := f.health.Now()
		require.Equal(f, cell.StatusDegraded, level)
		require.Equal(f, "1 error(s)", message)
		require.EqualError(f, err, `dependents of key "bad" of table "ports": panic: no idea of bad`)
		require.Contains(f, f.Logged(), "dependents function panicked")
		require.Contains(f, f.Logged(), "keep_test.go", "the stack")

		f.Pass(time.Second)
		require.Len(f, f.health.History(), 2, "the same failure is reported once")
		p.healed.Store(true)
		f.Pass(time.Hour)
		require.Equal(f, []string{
			"bad=1 at 0s", "good=1 at 0s", "bad=1 at 100ms", "bad=1 at 300ms", "bad=1 at 700ms", "bad=1 at 1.5s",
		}, p.calls)
		require.Equal(f, []string{"refresh(1)"}, f.target.Calls())
		level, message, _ = f.health.Now()
		require.Equal(f, cell.StatusOK, level)
		require.Equal(f, `OK, following table "ports"`, message)
	}, "bad")
}

// A query with an index that the table does not have is a mistake of the dependents function, too.
func TestQueryOfAnotherTableIsAnError(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.Start(f.cfg)
		stray := noteIndex
		stray.Name = "stray"
		f.follow(func(change statedb.Change[*port]) []statedb.Query[*object] {
			return append(onPort(change), stray.Query("x"))
		})
		f.add("eth0", reconciler.StatusDone, 1)
		f.set(1, "eth0")
		f.Pass(time.Minute)
		require.Empty(f, f.target.Calls(), "the rows of the valid query are not applied")
		_, _, err := f.health.Now()
		require.ErrorContains(f, err, `dependents of key "eth0" of table "ports": panic: `)
		require.ErrorContains(f, err, "stray")
	})
}

// The program runs in its own process.
func TestPanicPropagationEndsTheProgram(t *testing.T) {
	const inProgram = "STATEKEEL_TRIGGER_PANICS"
	if os.Getenv(inProgram) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		cmd.Env = append(os.Environ(), inProgram+"=1", "GOCOVERDIR="+t.TempDir())
		output, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "the program is still alive: %s", output)
		require.Equal(t, 2, exit.ExitCode(), "%s", output)
		require.Contains(t, string(output), "panic: no idea")
		return
	}
	withPorts(t, func(f *followed) {
		f.cfg.PanicPropagation = true
		f.prepare(f.ports, func(statedb.Change[*port]) []statedb.Query[*object] { panic("no idea") })
		f.set(1, "bad")
		_ = f.trigger.Run(f.Context())
	})
}

// A registered trigger runs as a job of the hive, under the documented names, and releases its source
// when the hive stops.
func TestRegisteredTriggerIsAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			db      *statedb.DB
			objects statedb.RWTable[*object]
			ports   statedb.RWTable[*port]
			health  *cell.SimpleHealth
			target  target
		)
		h := hive.New(
			statedb.Cell, job.Cell, cell.SimpleHealthCell,
			cell.Module("test", "Test",
				cell.Provide(job.Registry.NewGroup),
				cell.Invoke(func(p reconciler.Params, s *cell.SimpleHealth) {
					db, health = p.DB, s
					objects = statedb.MustNewTable(db, "objects", harness.ByID, noteIndex)
					ports = statedb.MustNewTable(db, "ports", portIndex)
					target = newTarget(ports)
					cfg := harness.Config(target, reconciler.WithName("objects"), reconciler.WithoutPruning())
					cfg.Table = objects
					loop, err := reconciler.RegisterConfig(p, cfg)
					require.NoError(t, err)
					require.NoError(t, trigger.Register(p, trigger.Config[*object, *port]{Loop: loop, Source: ports, Dependents: onPort}))
				}),
			),
		)
		require.NoError(t, h.Start(hivetest.Logger(t), t.Context()))
		harness.Insert(t, db, objects, &object{ID: 1, Note: "eth0", Status: reconciler.StatusPending()})
		for value := range 2 {
			harness.Insert(t, db, ports, &port{Note: "eth0", Value: value})
			time.Sleep(time.Second)
			require.Equal(t, value, target.holds()[1])
		}

		job := health.GetChild("job-trigger-ports-objects")
		require.NotNil(t, job)
		require.Equal(t, cell.StatusOK, job.Level)
		require.Equal(t, `OK, following table "ports"`, job.Status)
		require.NoError(t, h.Stop(hivetest.Logger(t), t.Context()))
	})
}
