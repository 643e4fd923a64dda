// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/hive/script"
	"github.com/spf13/pflag"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/internal/text"
)

// spec is a command, in the form of a shell.
type spec struct{ operator.Command }

// full returns the name of the command.
func (s *spec) full() string { return strings.TrimSuffix("reconciler/"+s.Name, "/") }

const (
	flagFormat = "format"

	formatTable = "table"
	formatJSON  = "json"
)

func (c *commands) command(s *spec) script.Cmd {
	var cmd script.Cmd
	cmd = script.Command(
		script.CmdUsage{
			Summary:          s.Summary,
			Args:             strings.Join(s.Args, " "),
			Detail:           s.help(),
			Flags:            s.addFlags,
			Async:            s.Waits,
			AutocompleteArgs: c.completeArgs(s),
			AutocompleteFlag: c.completeFlag(s),
		},
		func(state *script.State, args ...string) (script.WaitFunc, error) {
			in, err := c.read(s, state.Flags, args)
			if err != nil {
				if in == nil {
					err = fmt.Errorf("%w: %w", err, &script.UsageError{Name: s.full(), Command: cmd})
				}
				return nil, shellError{err}
			}
			wait := s.start(state.Context(), in)
			return func(*script.State) (stdout, stderr string, err error) {
				r := wait()
				return r.printed, "", r.err
			}, nil
		})
	return cmd
}

// help returns the lines of the help.
func (s *spec) help() []string {
	out := append(slices.Clone(s.Detail), "", "Examples:")
	for _, example := range s.Examples {
		out = append(out, "> "+example)
	}
	return append(out,
		"",
		"NAME is the module and the name of a reconciler (agent/routes). The name or the table alone will do if only one reconciler has it.",
		"Quote a KEY that has spaces ('a b'), and write one that begins with - after --.",
		"JSON has durations in nanoseconds.",
	)
}

func (s *spec) addFlags(fs *pflag.FlagSet) {
	fs.StringP(flagFormat, "f", formatTable, "Format of the answer: table or json")
	for _, f := range s.Flags {
		switch value := f.Default.(type) {
		case bool:
			fs.Bool(f.Name, value, f.Usage)
		case int:
			fs.Int(f.Name, value, f.Usage)
		case time.Duration:
			fs.Duration(f.Name, value, f.Usage)
		case string:
			fs.String(f.Name, value, f.Usage)
		}
	}
}

// read checks the arguments and flags of a call and returns them. If the number of arguments is wrong,
// the returned input is nil; with other errors it is not.
func (c *commands) read(s *spec, flags *pflag.FlagSet, args []string) (*operator.Input, error) {
	if err := s.count(args); err != nil {
		return nil, err
	}
	in := &operator.Input{
		Registry: c.registry, Dashes: "--",
		Flag: func(name string) string { return flags.Lookup(name).Value.String() },
	}
	if format := in.Flag(flagFormat); format != formatTable && format != formatJSON {
		return in, fmt.Errorf("--format is %q, must be table or json", format)
	}
	if len(args) > 0 {
		name := text.Unquote(args[0])
		found, err := c.registry.Find(name)
		if err != nil && s.OnSource {
			in.Source = operator.Source(c.registry, name)
		}
		if err != nil && in.Source == nil {
			return in, err
		}
		in.Reconciler = found
	}
	if len(args) > 1 {
		in.Key = args[1:]
	}
	return in, nil
}

// count returns an error if there are too few or too many arguments.
func (s *spec) count(args []string) error {
	if len(args) > len(s.Args) {
		return fmt.Errorf("unexpected argument %q", args[len(s.Args)])
	}
	if len(args) < len(s.Args) && !strings.HasPrefix(s.Args[len(args)], "[") {
		return fmt.Errorf("%s is missing", s.Args[len(args)])
	}
	return nil
}

// result is the result of a command that has ended.
type result struct {
	printed string
	err     error
	toDo    bool
}

// start returns a function that waits for the end of the command. A command that may run in the
// background starts at once, other commands start when the returned function is called.
func (s *spec) start(ctx context.Context, in *operator.Input) func() result {
	run := func() result {
		a, err := s.Run(ctx, in)
		printed, failed := s.print(in, &a)
		if err == nil {
			err = failed
		}
		if err != nil {
			err = shellError{err}
		}
		return result{printed, err, a.ToDo}
	}
	if !s.Waits {
		return run
	}
	ended := make(chan result, 1)
	go func() { ended <- run() }()
	return func() result { return <-ended }
}

// print renders an answer, also one beside an error.
func (s *spec) print(in *operator.Input, a *operator.Answer) (string, error) {
	if a.Data == nil {
		return "", nil
	}
	if in.Flag(flagFormat) == formatJSON {
		printed, err := text.JSON(a.Data)
		return guard(guardJSON, printed), err
	}
	printed := ""
	for i := range a.Reports {
		r := &a.Reports[i]
		for j := range r.Tables {
			typeable(&r.Tables[j])
		}
		printed += r.String()
	}
	printed += a.Last
	if len(a.More) > 0 {
		printed += "more: " + s.full() + " " + shellWord(keyName(text.Plain(in.Reconciler.ID().String())))
		for i := 0; i < len(a.More); i += 2 {
			printed += " --" + a.More[i] + "=" + shellWord(keyName(a.More[i+1]))
		}
		printed += "\n"
	}
	return guard(guardText, printed), nil
}

// typeable makes the keys in a table such that they can be typed again.
func typeable(t *text.Table) {
	for _, row := range t.Rows {
		for i := range row {
			if v := &row[i]; v.Kind == text.KindObject {
				v.Text = text.Cell(keyName(v.Key))
			}
		}
	}
}
