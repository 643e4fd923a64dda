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
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// spec describes one command.
type spec struct {
	name, summary string
	// args are the names of the arguments; those in brackets are optional.
	args []string
	// detail describes the command, examples are calls of it. Each is a line of the help.
	detail, examples []string
	// flags adds the command's own flags to the common ones; may be nil.
	flags func(fs *pflag.FlagSet)
	// values are the possible values of a flag, for completion.
	values map[string][]string
	// background allows the command to be run with "&".
	background bool
	// run executes the command. The output is printed also if there is an error.
	run func(ctx context.Context, in *input) (output, error)
	// onSource is run for a name of a source that no reconciler has; nil if the command is for reconcilers only.
	onSource func(ctx context.Context, source inspect.Source, in *input) (output, error)
}

// output is the answer of a command: the data for --format=json; and the same for people, a report and what
// follows it.
type output struct {
	data   any
	report text.Report
	last   string
}

// input has the arguments and flags of one call of a command.
type input struct {
	flags *pflag.FlagSet
	// reconciler is the reconciler that the first argument names; nil without arguments.
	reconciler inspect.Controller
	// source is the source that the first argument names, if no reconciler has the name; nil if it names none.
	source inspect.Source
	// key has the second argument, if there is one. It may be empty.
	key []string
	// toDo is set by a command whose answer is that there is something to do.
	toDo bool
}

// named returns the name of the reconciler, with the key if there is one, for people to read.
func (in *input) named() string {
	name := text.Plain(in.reconciler.ID().String())
	if len(in.key) > 0 {
		name += " " + text.Name(in.key[0])
	}
	return name
}

// text returns the value of a flag. The command must have declared the flag.
func (in *input) text(flag string) string { return in.flags.Lookup(flag).Value.String() }

func (in *input) is(flag string) bool { return in.text(flag) == "true" }

func (in *input) number(flag string) (int, error) {
	n, err := in.flags.GetInt(flag)
	if err == nil && n < 0 {
		err = fmt.Errorf("--%s is %d, must not be negative", flag, n)
	}
	return n, err
}

func (in *input) duration(flag string) (time.Duration, error) {
	d, err := in.flags.GetDuration(flag)
	if err == nil && d < 0 {
		err = fmt.Errorf("--%s is %s, must not be negative", flag, d)
	}
	return d, err
}

const (
	argName         = "NAME"
	argKey          = "KEY"
	argOptionalKey  = "[KEY]"
	argOptionalName = "[NAME]"
	argOptionalSet  = "[SET]"

	flagFormat = "format"
	flagKey    = "key"

	formatTable = "table"
	formatJSON  = "json"
)

func (c *commands) command(s *spec) script.Cmd {
	var cmd script.Cmd
	cmd = script.Command(
		script.CmdUsage{
			Summary:          s.summary,
			Args:             strings.Join(s.args, " "),
			Detail:           s.help(),
			Flags:            s.addFlags,
			Async:            s.background,
			AutocompleteArgs: c.completeArgs(s),
			AutocompleteFlag: c.completeFlag(s),
		},
		func(state *script.State, args ...string) (script.WaitFunc, error) {
			in, err := c.read(s, state.Flags, args)
			if err != nil {
				if in == nil {
					err = fmt.Errorf("%w: %w", err, &script.UsageError{Name: s.name, Command: cmd})
				}
				return nil, shellError{err}
			}
			return s.start(state.Context(), in), nil
		})
	return cmd
}

// help returns the lines of the help.
func (s *spec) help() []string {
	out := append(slices.Clone(s.detail), "", "Examples:")
	for _, example := range s.examples {
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
	if s.flags != nil {
		s.flags(fs)
	}
}

// read checks the arguments and flags of a call and returns them. If the number of arguments is wrong,
// the returned input is nil; with other errors it is not.
func (c *commands) read(s *spec, flags *pflag.FlagSet, args []string) (*input, error) {
	if err := s.count(args); err != nil {
		return nil, err
	}
	in := &input{flags: flags}
	if format := in.text(flagFormat); format != formatTable && format != formatJSON {
		return in, fmt.Errorf("--format is %q, must be table or json", format)
	}
	if len(args) > 0 {
		name := text.Unquote(args[0])
		found, err := c.registry.Find(name)
		if err != nil && s.onSource != nil {
			in.source = operator.Source(c.registry, name)
		}
		if err != nil && in.source == nil {
			return in, err
		}
		in.reconciler = found
	}
	if len(args) > 1 {
		in.key = args[1:]
	}
	return in, nil
}

// count returns an error if there are too few or too many arguments.
func (s *spec) count(args []string) error {
	if len(args) > len(s.args) {
		return fmt.Errorf("unexpected argument %q", args[len(s.args)])
	}
	if len(args) < len(s.args) && !strings.HasPrefix(s.args[len(args)], "[") {
		return fmt.Errorf("%s is missing", s.args[len(args)])
	}
	return nil
}

// result is the output of a command that has ended.
type result struct {
	printed string
	err     error
}

// start returns a function that waits for the end of the command. A command that may run in the
// background starts at once, other commands start when the returned function is called.
func (s *spec) start(ctx context.Context, in *input) script.WaitFunc {
	run := func() result {
		run := s.run
		if in.source != nil {
			run = func(ctx context.Context, in *input) (output, error) { return s.onSource(ctx, in.source, in) }
		}
		out, err := run(ctx, in)
		printed, failed := out.print(in.text(flagFormat))
		if err == nil {
			err = failed
		}
		if err != nil {
			err = shellError{err}
		}
		return result{printed, err}
	}
	wait := run
	if s.background {
		ended := make(chan result, 1)
		go func() { ended <- run() }()
		wait = func() result { return <-ended }
	}
	return func(*script.State) (stdout, stderr string, err error) {
		r := wait()
		return r.printed, "", r.err
	}
}

// print renders the output.
func (o *output) print(format string) (string, error) {
	if o.data == nil {
		return "", nil
	}
	if format == formatJSON {
		printed, err := text.JSON(o.data)
		return guard(guardJSON, printed), err
	}
	for i := range o.report.Tables {
		typeable(&o.report.Tables[i])
	}
	return guard(guardText, o.report.String()+o.last), nil
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
