// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Program is a command that measures one contender. It links no other one: what that links would be in the memory of
// this.
type Program struct {
	Name string
	// Flags adds the flags of the contender; nil if it has none.
	Flags func(*flag.FlagSet)
	// New returns the contender once the flags are parsed.
	New func() Contender
}

// The processes of a run, which the parent starts one after the other.
const (
	first   = "first"   // the first load and the changes
	restart = "restart" // a start on the kernel that the first one left
)

// Main runs the command and ends the process.
func Main(p Program) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := p.run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (p Program) run(ctx context.Context, args []string, out, messages io.Writer) error {
	var plan Plan
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(messages)
	flags.StringVar(&plan.Name, "name", p.Name, "the name of the contender in the results")
	flags.IntVar(&plan.Services, "services", 1000, "how many services there are")
	flags.IntVar(&plan.Endpoints, "endpoints", 10, "how many endpoints each service has")
	flags.IntVar(&plan.Quiet, "changes", 20, "how many quiet changes there are")
	flags.DurationVar(&plan.Gap, "gap", 2*time.Second, "how long no write makes a contender idle; longer than it waits "+
		"between two writes")
	flags.DurationVar(&plan.Churn, "duration", time.Minute, "how long there are many changes")
	flags.Float64Var(&plan.PerSecond, "rate", 100, "how many changes a second that is")
	flags.DurationVar(&plan.Limit, "limit", 10*time.Minute, "how long the kernel may lack something")
	flags.BoolVar(&plan.Turns, "turns", false, "make many changes again at each line of standard input, and no restart")
	process := flags.String("process", "", "first or restart: run the contender in this process and network namespace; for "+
		"the command itself")
	if p.Flags != nil {
		p.Flags(flags)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not a flag", flags.Arg(0))
	}
	if err := plan.check(); err != nil {
		return err
	}
	if *process == "" {
		processes := []string{first, restart}
		if plan.Turns {
			processes = processes[:1]
		}
		return p.supervise(ctx, processes, args, out, messages)
	}
	return p.measure(ctx, plan, *process, out)
}

// supervise runs the contender in processes of their own, one after another, in one new network namespace. What the
// first one leaves in the kernel is what the second one starts on.
func (Program) supervise(ctx context.Context, processes, args []string, out, messages io.Writer) error {
	// A process that is started from this thread is in the thread's namespace. Nothing else may run on it any more.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace, which takes root: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to run it again: %w", err)
	}
	for _, process := range processes {
		worker := exec.CommandContext(ctx, self, slices.Concat(args, []string{"-process", process})...)
		worker.Stdin, worker.Stdout, worker.Stderr = os.Stdin, out, messages
		// It ends in its own way, and with it what it started, before it is killed.
		worker.Cancel = func() error { return worker.Process.Signal(syscall.SIGTERM) }
		worker.WaitDelay = 10 * time.Second
		worker.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := worker.Run(); err != nil {
			return fmt.Errorf("the process that runs the contender (%s): %w", process, err)
		}
	}
	return nil
}

// measure measures the phases of one process.
func (p Program) measure(ctx context.Context, plan Plan, process string, out io.Writer) (err error) {
	changed := 0
	if process == restart {
		changed = plan.Quiet + plan.churned()
	}
	r, err := begin(plan, out, p.New(), changed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	if _, err := r.load(ctx, process == restart); err != nil || process == restart {
		return err
	}
	if _, err := r.quiet(ctx); err != nil {
		return fmt.Errorf("quiet changes: %w", err)
	}
	for turns := bufio.NewScanner(os.Stdin); !plan.Turns || turns.Scan(); {
		if _, err := r.churn(ctx); err != nil {
			return fmt.Errorf("many changes: %w", err)
		}
		if !plan.Turns {
			break
		}
	}
	return nil
}

// loopbackUp sets the loopback device of the thread's network namespace up, as it is on a node.
func loopbackUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("set the loopback device up: %w", err)
	}
	return nil
}
