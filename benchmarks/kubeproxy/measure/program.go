// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
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
	New func() (Contender, error)
	// Versions returns the versions of what the contender is made of, by name; nil if there is nothing to say.
	Versions func() (map[string]string, error)
}

// The phases of a run. The first load is always there, because the others need it.
const (
	phaseFirst   = "first"
	phaseQuiet   = "quiet"
	phaseChurn   = "churn"
	phaseRestart = "restart"
)

// config is what the command line says.
type config struct {
	plan     Plan
	phases   []string
	json     bool
	settings map[string]string
	// worker says that this process is the one that runs the contender. changed is how many changes another one made
	// before, on whose kernel it restarts.
	worker  bool
	changed int
}

// Main runs the command and ends the process.
func Main(p Program) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := p.run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	default:
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		os.Exit(1)
	}
}

func (p Program) run(ctx context.Context, args []string, out, messages io.Writer) error {
	cfg, err := p.parse(args, messages)
	if err != nil {
		return err
	}
	var figures *Figures
	if cfg.worker {
		figures, err = p.work(ctx, cfg)
	} else {
		figures, err = p.supervise(ctx, cfg, args, messages)
	}
	if err != nil {
		return err
	}
	if !cfg.json && !cfg.worker {
		_, err := io.WriteString(out, figures.Text())
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(figures)
}

func (p Program) parse(args []string, messages io.Writer) (config, error) {
	var cfg config
	var phases string
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(messages)
	plan := &cfg.plan
	flags.IntVar(&plan.Services, "services", 1000, "how many services there are")
	flags.IntVar(&plan.Endpoints, "endpoints", 10, "how many endpoints each service has")
	flags.IntVar(&plan.UDPEvery, "udp-every", 0, "make each so-many-th service one of UDP; 0: none")
	flags.IntVar(&plan.Flows, "flows", 0, "how many flows of UDP that go elsewhere conntrack has")
	flags.StringVar(&phases, "phase", "all", "what to measure after the first load: quiet, churn and restart, with "+
		"commas; or first; or all")
	flags.IntVar(&plan.Quiet, "changes", 20, "how many quiet changes there are")
	flags.DurationVar(&plan.Gap, "gap", 2*time.Second, "how long no write makes a contender idle; longer than it waits "+
		"between two writes")
	flags.DurationVar(&plan.Churn, "duration", time.Minute, "how long there are many changes")
	flags.Float64Var(&plan.PerSecond, "rate", 100, "how many changes a second that is")
	flags.DurationVar(&plan.Limit, "limit", 10*time.Minute, "how long the kernel may lack something")
	flags.BoolVar(&cfg.json, "json", false, "print the figures as JSON")
	flags.BoolVar(&cfg.worker, "worker", false, "run the contender in this process and network namespace; for the "+
		"command itself")
	flags.IntVar(&cfg.changed, "changed", 0, "how many changes a process made before this one; for the command itself")
	common := make(map[string]bool)
	flags.VisitAll(func(f *flag.Flag) { common[f.Name] = true })
	if p.Flags != nil {
		p.Flags(flags)
	}
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("%q is not a flag", flags.Arg(0))
	}
	cfg.settings = make(map[string]string)
	flags.VisitAll(func(f *flag.Flag) {
		if !common[f.Name] {
			cfg.settings[f.Name] = f.Value.String()
		}
	})
	if phases == "all" {
		phases = strings.Join([]string{phaseFirst, phaseQuiet, phaseChurn, phaseRestart}, ",")
	}
	cfg.phases = strings.Split(phases, ",")
	for _, phase := range cfg.phases {
		if !slices.Contains([]string{phaseFirst, phaseQuiet, phaseChurn, phaseRestart}, phase) {
			return config{}, fmt.Errorf("there is no phase %q", phase)
		}
	}
	return cfg, plan.check()
}

func (c config) has(phase string) bool { return slices.Contains(c.phases, phase) }

// supervise runs the contender in processes of their own, one after another, in one new network namespace. What the
// first one leaves in the kernel is what the second one starts on.
func (p Program) supervise(ctx context.Context, cfg config, args []string, messages io.Writer) (*Figures, error) {
	machine := thisMachine()
	// A process that is started from this thread is in the thread's namespace. Nothing else may run on it any more.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("make a network namespace, which takes root: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return nil, err
	}
	if err := makeFlows(cfg.plan.Flows); err != nil {
		return nil, err
	}
	figures, err := p.execute(ctx, args, messages, "-phase", p.without(cfg))
	if err != nil {
		return nil, err
	}
	if cfg.has(phaseRestart) {
		changed := 0
		for _, c := range []*Changes{figures.Quiet, figures.Churn} {
			if c != nil {
				changed += c.Count
			}
		}
		restarted, err := p.execute(ctx, args, messages, "-phase", phaseRestart, "-changed", fmt.Sprint(changed))
		if err != nil {
			return nil, fmt.Errorf("after a restart: %w", err)
		}
		figures.Restart, figures.RestartMemory = restarted.Restart, restarted.RestartMemory
	}
	figures.Machine = machine
	return figures, nil
}

// without returns the phases of the first process.
func (Program) without(cfg config) string {
	phases := []string{phaseFirst}
	for _, phase := range cfg.phases {
		if phase == phaseQuiet || phase == phaseChurn {
			phases = append(phases, phase)
		}
	}
	return strings.Join(phases, ",")
}

// execute runs this program as a worker, with more arguments, and returns its figures.
func (Program) execute(ctx context.Context, args []string, messages io.Writer, more ...string) (*Figures, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to run it again: %w", err)
	}
	var out bytes.Buffer
	worker := exec.CommandContext(ctx, self, slices.Concat(args, more, []string{"-worker"})...)
	worker.Stdout, worker.Stderr = &out, messages
	// It ends in its own way, and with it what it started, before it is killed.
	worker.Cancel = func() error { return worker.Process.Signal(syscall.SIGTERM) }
	worker.WaitDelay = 10 * time.Second
	worker.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := worker.Start(); err != nil {
		return nil, fmt.Errorf("start the process that runs the contender: %w", err)
	}
	sampler, err := sample(worker.Process.Pid)
	err = errors.Join(worker.Wait(), err)
	if sampler != nil {
		sampler.stop()
	}
	if err != nil {
		return nil, fmt.Errorf("the process that runs the contender: %w", err)
	}
	var figures Figures
	if err := json.Unmarshal(out.Bytes(), &figures); err != nil {
		return nil, fmt.Errorf("read the figures: %w", err)
	}
	for _, m := range []*Memory{figures.Memory, figures.RestartMemory} {
		if m != nil {
			m.Child, m.Together = mebibytes(sampler.children), mebibytes(sampler.together)
		}
	}
	return &figures, nil
}

// work measures the phases of one process.
func (p Program) work(ctx context.Context, cfg config) (figures *Figures, err error) {
	contender, err := p.New()
	if err != nil {
		return nil, err
	}
	r, err := begin(cfg.plan, contender, cfg.changed)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	f := &Figures{Contender: p.Name, Settings: cfg.settings, Shape: cfg.plan.Shape}
	if p.Versions != nil {
		if f.Versions, err = p.Versions(); err != nil {
			return nil, err
		}
	}
	if cfg.has(phaseRestart) {
		if f.Restart, err = r.load(ctx, true); err != nil {
			return nil, err
		}
		f.RestartMemory, err = r.finish()
		return f, err
	}
	if f.First, err = r.load(ctx, false); err != nil {
		return nil, fmt.Errorf("the first load: %w", err)
	}
	if cfg.has(phaseQuiet) {
		if f.Quiet, err = r.quiet(ctx); err != nil {
			return nil, fmt.Errorf("quiet changes: %w", err)
		}
	}
	if cfg.has(phaseChurn) {
		if f.Churn, err = r.churn(ctx); err != nil {
			return nil, fmt.Errorf("many changes: %w", err)
		}
	}
	f.Memory, err = r.finish()
	return f, err
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

// thisMachine describes the machine. What it does not tell is empty.
func thisMachine() Machine {
	m := Machine{
		Cores: runtime.NumCPU(),
		Go:    runtime.Version(),
		When:  time.Now().UTC().Format(time.DateOnly),
	}
	cpus, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(cpus)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	m.Kernel = strings.TrimSpace(string(release))
	busy, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(busy), &m.Busy)
	return m
}
