// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/hive/script"
	"github.com/spf13/pflag"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// spec is what one command is made from.
type spec struct {
	name, summary string
	// args are the names of the arguments; those in brackets may be left out.
	args   []string
	detail []string
	// flags adds flags to those that every command has; may be nil.
	flags func(fs *pflag.FlagSet)
	// values are what a flag may be set to, for completion.
	values map[string][]string
	// background: the command may be run with "&".
	background bool
	// run does it. It returns an error, or what to print: also beside an error.
	run func(ctx context.Context, in *input) (output, error)
}

// input is what a command is called with.
type input struct {
	flags *pflag.FlagSet
	// reconciler is the one that the first argument names; nil without one.
	reconciler inspect.Controller
	// key is the text of the key, hasKey whether there is one.
	key    string
	hasKey bool
}

// named says what the command is about, for a person.
func (in *input) named() string {
	name := text.Plain(in.reconciler.ID().String())
	if in.hasKey {
		name += " " + text.Name(in.key)
	}
	return name
}

// output is the answer of a command: data for --format=json, and the same for people.
type output struct {
	data any
	text func() string
}

const (
	argName        = "NAME"
	argKey         = "KEY"
	argOptionalKey = "[KEY]"
	argOptional    = "[NAME]"

	flagFormat = "format"
	flagOut    = "out"
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
			Detail:           append(slices.Clone(s.detail), commonDetail...),
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
			return s.start(state, in), nil
		})
	return cmd
}

var commonDetail = []string{
	"",
	"A name is the module and the name of a reconciler, or the table or the name alone if there is only one of it.",
	"A key that has spaces is quoted ('a b'), one that begins with - comes after --.",
	"With --format=json durations are in nanoseconds. With --out=FILE nothing is printed; the file is for its owner only (0600), and a link there is not followed.",
}

func (s *spec) addFlags(fs *pflag.FlagSet) {
	fs.StringP(flagOut, "o", "", "File to write to instead of stdout")
	fs.StringP(flagFormat, "f", formatTable, "Format to write in (table or json)")
	if s.flags != nil {
		s.flags(fs)
	}
}

// read returns what a command is called with. The error comes with an input unless it is
// the number of the arguments that is wrong.
func (c *commands) read(s *spec, flags *pflag.FlagSet, args []string) (*input, error) {
	if err := s.count(args); err != nil {
		return nil, err
	}
	in := &input{flags: flags}
	if format := in.text(flagFormat); format != formatTable && format != formatJSON {
		return in, fmt.Errorf("--format is %q, must be table or json", format)
	}
	if len(args) > 0 {
		found, err := c.registry.Find(text.Unquote(args[0]))
		if err != nil {
			return in, err
		}
		in.reconciler = found
	}
	if len(args) > 1 {
		in.key, in.hasKey = args[1], true
	}
	return in, nil
}

// count returns an error if there are too few arguments or too many.
func (s *spec) count(args []string) error {
	if len(args) > len(s.args) {
		return fmt.Errorf("unexpected argument %q", args[len(s.args)])
	}
	if len(args) < len(s.args) && !strings.HasPrefix(s.args[len(args)], "[") {
		return fmt.Errorf("%s is missing", s.args[len(args)])
	}
	return nil
}

// result is what a command ends with.
type result struct {
	printed string
	err     error
}

// start returns what waits for the command to end: one for the background begins at once.
func (s *spec) start(state *script.State, in *input) script.WaitFunc {
	// The state is not to be used while the next command does.
	ctx, file := state.Context(), in.text(flagOut)
	if file != "" {
		file = state.Path(file)
	}
	run := func() result {
		out, err := s.run(ctx, in)
		printed, failed := out.write(in.text(flagFormat), file)
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

// write renders the output, and returns it unless it is written to a file.
func (o output) write(format, file string) (printed string, err error) {
	if o.text == nil {
		return "", nil
	}
	if format == formatJSON {
		printed, err = text.JSON(o.data)
		printed = guard(guardJSON, printed)
	} else {
		printed = guard(guardText, o.text())
	}
	if err != nil || file == "" {
		return printed, err
	}
	if err := writeFile(file, printed); err != nil {
		return "", fmt.Errorf("--out: %w", err)
	}
	return "", nil
}
