// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"

	"github.com/cilium/hive/cell"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
)

// The target is down. After two different rules have failed one after another, nothing else is tried but
// a probe from time to time: here, for a deterministic output, after an hour.
func ExampleWithBreaker() {
	s := startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(context.Context, *Rule) error { return errors.New("connection refused") }),
		Options: []reconciler.Option{
			reconciler.WithBreaker(reconciler.Breaker{Failures: 2, MinInterval: time.Hour}),
		},
	})
	defer s.stop()
	s.insert(pending("allow-dns"), pending("allow-ssh"))
	ctx := context.Background()
	if _, err := s.loop.WaitFor(ctx, reconciler.Attempted, pending("allow-dns"), pending("allow-ssh")); err != nil {
		log.Fatal(err)
	}

	s.insert(pending("allow-http"))
	x := s.loop.Explain(ctx, "allow-http")
	fmt.Println(x.State)
	fmt.Println(x.Why)

	// Output:
	// tripped
	// it waits for the breaker to close, which lets probes through until one succeeds: connection refused
}

// Two rules of different devices are applied at the same time. Rules of one device are applied one after
// the other.
func ExampleWithSettings() {
	var both sync.WaitGroup
	both.Add(2)
	s := startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(_ context.Context, rule *Rule) error {
			both.Done()
			both.Wait() // until the rule of the other device is being applied as well
			return nil
		}),
		SerialBy: func(rule *Rule) string {
			device, _, _ := strings.Cut(rule.Name, "/")
			return device
		},
		Options: []reconciler.Option{
			reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 8 }),
		},
	})
	defer s.stop()
	s.insert(pending("eth0/allow-ssh"), pending("eth1/allow-ssh"))
	s.waitApplied()
	fmt.Println(s.row("eth0/allow-ssh").Status.Kind, s.row("eth1/allow-ssh").Status.Kind)

	// Output:
	// Done Done
}

// Others change the firewall. So the rules are applied again when they have been Done for some time: a
// millisecond here, half an hour in a program.
func ExampleWithRefreshing() {
	updates := make(chan reconciler.StatusKind)
	s := startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(ctx context.Context, rule *Rule) error {
			select {
			case updates <- rule.Status.Kind:
			case <-ctx.Done():
			}
			return nil
		}),
		Options: []reconciler.Option{reconciler.WithRefreshing(time.Millisecond, nil)},
	})
	defer s.stop()
	s.insert(pending("allow-ssh"))
	fmt.Println(<-updates)
	fmt.Println(<-updates)

	// Output:
	// Pending
	// Refreshing
}

// The hook makes a span around each operation. With OpenTelemetry, start would be tracer.Start, and the
// function that the hook returns would record the error and end the span.
func ExampleWithOperationHook() {
	start := func(ctx context.Context, name, key string) context.Context {
		fmt.Println("start:", name, key)
		return ctx
	}
	s := startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(context.Context, *Rule) error { return nil }),
		Options: []reconciler.Option{
			reconciler.WithName("firewall"),
			reconciler.WithOperationHook(func(ctx context.Context, op reconciler.OperationInfo) (context.Context, func(error)) {
				ctx = start(ctx, op.Operation+" "+op.Reconciler.String(), op.Key)
				return ctx, func(err error) { fmt.Println("end:", err) }
			}),
		},
	})
	defer s.stop()
	s.insert(pending("allow-ssh"))
	s.waitApplied()

	// Output:
	// start: update firewall allow-ssh
	// end: <nil>
}

// The figures of each reconciler have the ID of its module as their key.
func ExampleWithMetrics() {
	figures := metrics.NewExpVar()
	s := startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(context.Context, *Rule) error {
			return reconciler.TerminalError(errors.New("not supported"))
		}),
		ModuleID: cell.FullModuleID{"agent", "firewall"},
		Options:  []reconciler.Option{reconciler.WithMetrics(figures)},
	})
	defer s.stop()
	s.insert(pending("allow-dns"), pending("allow-ssh"))
	s.waitAttempted()
	fmt.Println(figures.ReconciliationCurrentErrorsVar)

	// Output:
	// {"agent.firewall": 2}
}

// New returns everything that is wrong with a configuration.
func ExampleNew() {
	_, err := reconciler.New(reconciler.Config[*Rule]{
		Clone: (*Rule).Clone, GetStatus: (*Rule).GetStatus, SetStatus: (*Rule).SetStatus,
		Operations: firewall(func(context.Context, *Rule) error { return nil }),
		Options: []reconciler.Option{
			reconciler.WithName("firewall"),
			reconciler.WithRetry(time.Minute, time.Second),
		},
	})
	fmt.Println(err)

	// Output:
	// reconciler "firewall": Config.DB is nil
	// Config.Table is nil
	// Settings.MinBackoff is 1m0s, above MaxBackoff, which is 1s
}
