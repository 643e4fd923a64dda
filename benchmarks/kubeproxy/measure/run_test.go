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
		key := fmt.Sprintf("tcp . %s . %d", s.Addr, s.Port)
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
		Shape:     Shape{Services: 130, Endpoints: 3},
		Name:      "scripted",
		Quiet:     4,
		Gap:       20 * time.Millisecond,
		Churn:     200 * time.Millisecond,
		PerSecond: 100,
		Limit:     time.Minute,
	}
}

func started(t *testing.T, plan Plan, c Contender, changed int) *run {
	t.Helper()
	r, err := begin(plan, t.Output(), c, changed)
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
	for _, phase := range []struct {
		name    string
		measure func(context.Context) (taken, error)
		want    Writes
	}{
		// Services are applied in two parts, after a table, a chain and two maps. A change is an element for another.
		{"first", func(ctx context.Context) (taken, error) { return r.load(ctx, false) }, Writes{3, 4*130 + 4}},
		{"quiet", r.quiet, Writes{4, 2 * 4}},
		{"churn", r.churn, Writes{20, 2 * 20}},
	} {
		got, err := phase.measure(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got.writes != phase.want || got.cpu <= 0 {
			t.Errorf("%s: %+v, want %+v", phase.name, got, phase.want)
		}
	}

	// One that knows the changes made so far finds the kernel equal, and writes nothing.
	restarted, err := started(t, smallPlan(), &scripted{adopt: true}, 24).load(t.Context(), true)
	if err != nil || restarted.writes != (Writes{}) {
		t.Errorf("the restart is %+v, %v", restarted, err)
	}
	// One that makes its tables again writes, and one with other changes behind it has another kernel.
	again, err := started(t, smallPlan(), &scripted{spoil: func(s string) string {
		if strings.Contains(s, "services { tcp . 10.96.0.1 ") {
			return "flush map ip scripted services\n" + s
		}
		return s
	}}, 24).load(t.Context(), true)
	if err != nil || again.writes.Commits == 0 {
		t.Errorf("a restart that writes is %+v, %v", again, err)
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
