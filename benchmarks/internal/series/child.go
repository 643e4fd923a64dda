// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package series

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

// ChildFlag as the first argument makes the program do one run, which the second argument describes as JSON,
// and print the figures as JSON. It is internal: the usage text does not show it.
const ChildFlag = "-child"

// InChild returns an Execute that does each run in a new process of the same program. A child ends when ctx
// does, and when this process dies.
func InChild(program string) Execute {
	return func(ctx context.Context, run Run) (_ workload.Figures, err error) {
		spec, err := json.Marshal(run)
		if err != nil {
			return nil, fmt.Errorf("encode the run: %w", err)
		}
		var complaint strings.Builder
		cmd := exec.CommandContext(ctx, program, ChildFlag, string(spec))
		cmd.Stderr = &complaint
		// The child reads its standard input to the end, which comes when this process ends.
		lifeline, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, ignoreClosed(lifeline.Close())) }()

		out, err := cmd.Output()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%w\n%s", err, strings.TrimSpace(complaint.String()))
		}
		var figures workload.Figures
		if err := json.Unmarshal(out, &figures); err != nil {
			return nil, fmt.Errorf("read the figures: %w in %q", err, out)
		}
		return figures, nil
	}
}

// ignoreClosed drops the error of a pipe that Wait has closed already.
func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// Child does one run in a child process. args are the arguments after ChildFlag, parent is its standard
// input. It writes the figures to out.
func Child(args []string, parent io.Reader, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("%s wants one argument, got %d", ChildFlag, len(args))
	}
	var run Run
	if err := json.Unmarshal([]byte(args[0]), &run); err != nil {
		return fmt.Errorf("%s: %w", ChildFlag, err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		// The parent writes nothing: the read ends when the parent ends.
		_, err := io.Copy(io.Discard, parent)
		cancel(errors.Join(errors.New("the parent process ended"), err))
	}()
	figures, err := InProcess(ctx, run)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(figures)
}

// InProcess is an Execute that does the run in this process.
func InProcess(ctx context.Context, run Run) (workload.Figures, error) {
	workloads, contenders := workload.All(), subject.Contenders()
	w := slices.IndexFunc(workloads, func(w workload.Workload) bool { return w.Name == run.Workload })
	c := slices.IndexFunc(contenders, func(c subject.Contender) bool { return c.Name == run.Contender })
	if w < 0 || c < 0 {
		return nil, fmt.Errorf("there is no %s", run)
	}
	env := workload.Env{
		Sizes: run.Sizes, Part: run.Part,
		Start: contenders[c].Start, StartController: contenders[c].StartController,
		StartFleet: contenders[c].StartFleet,
	}
	if run.Profile != "" {
		env.Profile = func() (func() error, error) { return profile(run.Profile) }
	}
	return workloads[w].Measure(ctx, env)
}

func profile(path string) (stop func() error, err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}
