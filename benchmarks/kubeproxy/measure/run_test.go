// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// scripted is a contender that has nft write each change at once, with a map for all endpoints. Its tables are unlike
// kube-proxy's.
type scripted struct {
	known map[string]Service
	adopt bool                // the kernel already has all that is applied before it is complete
	spoil func(string) string // what becomes of a script
}

func (c *scripted) Start(context.Context) error {
	c.known = make(map[string]Service)
	if c.adopt {
		return nil
	}
	return nft(`
		add table ip scripted
		add chain ip scripted balance
		add map ip scripted endpoints { type inet_proto . ipv4_addr . inet_service . mark : ipv4_addr . inet_service; }
		add map ip scripted services { type inet_proto . ipv4_addr . inet_service : verdict; }
	`)
}

func (c *scripted) Apply(services []Service) error {
	var script strings.Builder
	for _, s := range services {
		old, known := c.known[s.Name]
		c.known[s.Name] = s
		key := fmt.Sprintf("%d . %s . %d", s.Protocol, s.Addr, s.Port)
		for slot, e := range s.Endpoints {
			element := func(e netip.AddrPort) string {
				return fmt.Sprintf("element ip scripted endpoints { %s . %d : %s . %d }\n", key, slot, e.Addr(), e.Port())
			}
			if known && e != old.Endpoints[slot] {
				script.WriteString("delete " + element(old.Endpoints[slot]))
			}
			if !known || e != old.Endpoints[slot] {
				script.WriteString("add " + element(e))
			}
		}
		if !known {
			fmt.Fprintf(&script, "add element ip scripted services { %s : goto balance }\n", key)
		}
	}
	if c.adopt {
		return nil
	}
	text := script.String()
	if c.spoil != nil {
		text = c.spoil(text)
	}
	return nft(text)
}

func (c *scripted) Complete(context.Context) error {
	c.adopt = false
	return nil
}

func (c *scripted) Stop() error { return nil }

func (c *scripted) Layout() Layout {
	return Layout{
		Endpoint: func(e Element) (netip.AddrPort, bool) {
			if string(e.Table) != "scripted" || string(e.Set) != "endpoints" {
				return netip.AddrPort{}, false
			}
			return AddrPort(e.Data, 0, 4)
		},
		Service: func(e Element) (netip.AddrPort, bool) {
			if string(e.Set) != "services" || string(e.Verdict) != "balance" {
				return netip.AddrPort{}, false
			}
			return AddrPort(e.Key, 4, 8)
		},
	}
}

func nft(script string) error {
	command := exec.Command("nft", "-f", "-")
	command.Stdin = strings.NewReader(script)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// inNamespace makes the test's thread be in a network namespace of its own, also for the programs that it starts.
func inNamespace(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("the command nft is missing")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	switch err := unix.Unshare(unix.CLONE_NEWNET); {
	case errors.Is(err, unix.EPERM):
		t.Skip("a network namespace takes root")
	case err != nil:
		t.Fatal(err)
	}
}

func smallPlan() Plan {
	return Plan{
		Shape:     Shape{Services: 130, Endpoints: 3, UDPEvery: 4},
		Quiet:     4,
		Gap:       20 * time.Millisecond,
		Churn:     200 * time.Millisecond,
		PerSecond: 100,
		Limit:     time.Minute,
	}
}

func started(t *testing.T, plan Plan, c Contender, changed int) *run {
	t.Helper()
	r, err := begin(plan, c, changed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// TestEveryPhase measures a contender whose writes are known.
func TestEveryPhase(t *testing.T) {
	inNamespace(t)
	r := started(t, smallPlan(), &scripted{}, 0)
	load, err := r.load(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	// Services are applied in two parts, after the tables.
	if want := (Writes{Commits: 3, NewSets: 2, NewElements: 4 * 130, NewChains: 1, Other: 1}); load.Writes != want {
		t.Errorf("the load wrote %v, want %v", load.Writes, want)
	}
	has := Kernel{Tables: 1, Chains: 1, Sets: 2, Elements: 4 * 130}
	if load.After != has {
		t.Errorf("the kernel has %+v, want %+v", load.After, has)
	}
	if load.Kernel <= 0 || load.KernelFromFirst < load.Kernel {
		t.Errorf("the kernel had all %v after the last input, and %v after the first", load.Kernel, load.KernelFromFirst)
	}

	quiet, err := r.quiet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (Writes{Commits: 4, NewElements: 4, DeletedElements: 4}); quiet.Count != 4 || quiet.Writes != want {
		t.Errorf("%d changes wrote %v, want %v", quiet.Count, quiet.Writes, want)
	}
	if quiet.P50 <= 0 || quiet.Max < quiet.P99 || quiet.P99 < quiet.P50 {
		t.Errorf("p50 %v, p99 %v, max %v", quiet.P50, quiet.P99, quiet.Max)
	}
	churn, err := r.churn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := Writes{Commits: 20, NewElements: 20, DeletedElements: 20}
	if churn.Count != 20 || churn.Writes != want || churn.Passed != 0 || churn.After != has {
		t.Errorf("%d changes wrote %v, want %v; %d passed; the kernel has %+v", churn.Count, churn.Writes, want,
			churn.Passed, churn.After)
	}
	memory, err := r.finish()
	if err != nil {
		t.Fatal(err)
	}
	if memory.Before <= 0 || memory.Loaded <= 0 || memory.Now <= 0 || memory.Most < memory.Now {
		t.Errorf("memory is %+v", memory)
	}

	// One that knows the changes made so far finds the kernel equal, and writes nothing.
	restarted, err := started(t, smallPlan(), &scripted{adopt: true}, 24).load(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if restarted.Writes != (Writes{}) || restarted.Kernel != 0 || restarted.LastWrite != 0 || restarted.After != has {
		t.Errorf("the restart is %+v", restarted)
	}
	// One that makes its tables again writes, and one with other changes behind it has another kernel.
	again, err := started(t, smallPlan(), &scripted{spoil: func(s string) string {
		if strings.Contains(s, "services { 6 . 10.96.0.1 ") {
			return "flush map ip scripted services\n" + s
		}
		return s
	}}, 24).load(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if again.Writes.Commits == 0 || again.LastWrite <= 0 {
		t.Errorf("a restart that writes is %+v", again)
	}
	_, err = started(t, smallPlan(), &scripted{adopt: true}, 25).load(t.Context(), true)
	wantError(t, err, "before the start: the kernel lacks 1 endpoints and 0 services, and has 1 endpoints that are gone")
}

// TestWrongKernel measures contenders that do not make the kernel equal to the services.
func TestWrongKernel(t *testing.T) {
	without := func(start string) func(string) string {
		return func(script string) string {
			lines := slices.DeleteFunc(strings.SplitAfter(script, "\n"), func(line string) bool {
				return strings.HasPrefix(line, start)
			})
			return strings.Join(lines, "")
		}
	}
	for name, test := range map[string]struct {
		spoil   func(string) string
		changed int
		want    string
	}{
		"nothing is written": {
			spoil: func(string) string { return "" },
			want:  "the kernel still lacks 520 services and endpoints",
		},
		"no services": {
			spoil: without("add element ip scripted services"),
			want:  "the kernel still lacks 130 services and endpoints",
		},
		"a foreign endpoint": {
			spoil: func(s string) string {
				return s + "add element ip scripted endpoints { tcp . 10.96.0.1 . 80 . 99 : 10.0.0.1 . 8080 }\n"
			},
			want: "addresses that are not of the workload, such as the endpoint 10.0.0.1:8080",
		},
		"an endpoint that never was": {
			spoil: func(s string) string {
				return s + "add element ip scripted endpoints { tcp . 10.96.0.1 . 80 . 99 : 10.129.0.0 . 8080 }\n"
			},
			want: "addresses that are not of the workload, such as the endpoint 10.129.0.0:8080",
		},
		"an endpoint that is there twice": {
			spoil: func(s string) string {
				return s + "add element ip scripted endpoints { tcp . 10.96.0.1 . 80 . 99 : 10.128.0.0 . 8080 }\n"
			},
			want: "addresses that are not of the workload, such as the endpoint 10.128.0.0:8080, which is there twice",
		},
		"an endpoint that is gone": {
			spoil: func(s string) string {
				_, removed, _ := NewWorkload(smallPlan().Shape).Change()
				return fmt.Sprintf("%sadd element ip scripted endpoints { tcp . 10.96.0.1 . 80 . 99 : %s . 8080 }\n", s,
					addrOf(firstEndpoint, removed))
			},
			changed: 1,
			want:    "lacks 0 endpoints and 0 services, and has 1 endpoints that are gone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inNamespace(t)
			plan := smallPlan()
			plan.Limit = 100 * time.Millisecond
			_, err := started(t, plan, &scripted{spoil: test.spoil}, test.changed).load(t.Context(), false)
			wantError(t, err, test.want)
		})
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want %q", err, want)
	}
}
