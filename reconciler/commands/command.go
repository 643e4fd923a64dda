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

// spec describes one command.
type spec struct {
	name, summary string
	// args are the names of the arguments; those in brackets are optional.
	args   []string
	detail []string
	// flags adds the command's own flags to the common ones; may be nil.
	flags func(fs *pflag.FlagSet)
	// values are the possible values of a flag, for completion.
	values map[string][]string
	// background allows the command to be run with "&".
	background bool
	// run executes the command. The output is printed also if there is an error.
	run func(ctx context.Context, in *input) (output, error)
}

// input has the arguments and flags of one call of a command.
type input struct {
	flags *pflag.FlagSet
	// reconciler is the reconciler that the first argument names; nil without arguments.
	reconciler inspect.Controller
	// key is the second argument. hasKey is false if there is none: a key may be empty.
	key    string
	hasKey bool
}

// named returns the name of the reconciler, with the key if there is one, for people to read.
func (in *input) named() string {
	name := text.Plain(in.reconciler.ID().String())
	if in.hasKey {
		name += " " + text.Name(in.key)
	}
	return name
}

// output is the answer of a command: the data for --format=json, and the same as text.
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
	"NAME is the module and the name of a reconciler (agent/routes). The name or the table alone will do if only one reconciler has it.",
	"Quote a KEY that has spaces ('a b'), and write one that begins with - after --.",
	"JSON has durations in nanoseconds. With --out=FILE nothing is printed. Only its owner can read the file (mode 0600), and FILE must not be a link.",
}

func (s *spec) addFlags(fs *pflag.FlagSet) {
	fs.StringP(flagOut, "o", "", "File to write the answer to, instead of stdout")
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
func (s *spec) start(state *script.State, in *input) script.WaitFunc {
	// The next command uses the state while this one runs in the background: read it now.
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

// write renders the output and returns it. If there is a file, it writes the output there instead.
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
