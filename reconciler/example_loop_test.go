// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
)

// A rule fails. Explain returns why, since when, and when it is tried again.
func ExampleLoop_Explain() {
	s := startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(context.Context, *Rule) error { return errors.New("connection refused") }),
		Options:    []reconciler.Option{reconciler.WithRetry(time.Hour, time.Hour)},
	})
	defer s.stop()
	s.insert(pending("allow-ssh"))
	s.waitAttempted()

	x := s.loop.Explain(context.Background(), "allow-ssh")
	fmt.Println(x.State)
	fmt.Println(x.Why)
	fmt.Println(x.Error)

	// Output:
	// retry
	// it has failed 1 time in a row and waits for its retry
	// connection refused
}

// The limit of operations is lifted while the reconciler runs.
func ExampleLoop_Reconfigure() {
	s := startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(context.Context, *Rule) error { return nil }),
		Options: []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) {
			s.OperationLimiter = rate.NewLimiter(rate.Every(time.Hour), 1)
		})},
	})
	defer s.stop()
	s.insert(pending("allow-dns"), pending("allow-ssh"))
	if _, err := s.loop.WaitFor(context.Background(), reconciler.Applied, pending("allow-dns")); err != nil {
		log.Fatal(err)
	}
	fmt.Println("allow-ssh is", s.row("allow-ssh").Status.Kind)

	if err := s.loop.Reconfigure(func(s *reconciler.Settings) { s.OperationLimiter = nil }); err != nil {
		log.Fatal(err)
	}
	s.waitApplied()
	fmt.Println("allow-ssh is", s.row("allow-ssh").Status.Kind)

	// Output:
	// allow-ssh is Pending
	// allow-ssh is Done
}

// Rules of a tenant wait while a person repairs something by hand. The other rules do not wait.
func ExampleLoop_PauseObjects() {
	s := startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(context.Context, *Rule) error { return nil }),
	})
	defer s.stop()
	s.loop.PauseObjects(func(rule *Rule) bool { return strings.HasPrefix(rule.Name, "tenant-a/") })
	s.insert(pending("tenant-a/allow-ssh"), pending("tenant-b/allow-ssh"))
	if _, err := s.loop.WaitFor(context.Background(), reconciler.Applied, pending("tenant-b/allow-ssh")); err != nil {
		log.Fatal(err)
	}
	fmt.Println("tenant-a/allow-ssh is", s.row("tenant-a/allow-ssh").Status.Kind)

	s.loop.Resume()
	s.waitApplied()
	fmt.Println("tenant-a/allow-ssh is", s.row("tenant-a/allow-ssh").Status.Kind)

	// Output:
	// tenant-a/allow-ssh is Pending
	// tenant-a/allow-ssh is Done
}
