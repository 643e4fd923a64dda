// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package operator has what a person can ask of reconcilers and sources, and do to them: [Commands], one table for
// the shell, the socket and the page, which differ in how they read arguments and print answers. It has no state, except
// that it changes the set of the keys that are paused, one call at a time.
package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Command is something that a person can ask or do.
type Command struct {
	// Name is the name after "reconciler/", and the path of the page; empty for the list of all.
	Name string
	// Label is the text of the button of a command that acts; empty for one that asks.
	Label string
	// Args are the names of the arguments; those in brackets are optional.
	Args []string
	// Summary, Detail and Examples are the help. Detail and Examples have a line each.
	Summary          string
	Detail, Examples []string
	Flags            []Flag
	// Waits reports whether the command may take long, so that a shell may run it in the background.
	Waits bool
	// OnSource reports whether the name may be that of a source.
	OnSource bool
	// Run returns the answer. There may be one beside an error.
	Run func(ctx context.Context, in *Input) (Answer, error)
}

// The arguments of commands.
const (
	ArgName         = "NAME"
	ArgKey          = "KEY"
	ArgOptionalKey  = "[KEY]"
	ArgOptionalName = "[NAME]"
	ArgOptionalSet  = "[SET]"
)

// OnObject reports whether the command can be for one object.
func (c *Command) OnObject() bool {
	return slices.Contains(c.Args, ArgKey) || slices.Contains(c.Args, ArgOptionalKey)
}

// Flag is an optional value of a command.
type Flag struct {
	Name, Usage string
	// Default is a string, a bool, an int or a time.Duration.
	Default any
	// Values are the possible values, to complete what a user types; nil if there are too many.
	Values []string
}

// Input has the arguments and flags of one call.
type Input struct {
	Registry *inspect.Registry
	// Reconciler is the one that the call names; nil if it names none. Then Source is the source that it names, if any.
	Reconciler inspect.Controller
	Source     inspect.Source
	// Key has the key, or the set, if there is one. It may be empty.
	Key []string
	// Flag returns the text of a flag that the command has. Dashes comes before the name in errors.
	Flag   func(name string) string
	Dashes string
}

// Answer is the answer to a command: data for programs, and the same for people, reports and what follows them.
type Answer struct {
	Data    any
	Reports []text.Report
	Last    string
	// More are the flags for the next page of a list, names and values in turn; nil if this is the last.
	More []string
	// ToDo is set if the answer is that there is something to do.
	ToDo bool
	// Objects is the number of objects that a command has acted on; -1 if they were not counted.
	Objects int
	// Reconcilers and Sources are those of the list, in the order of its lines.
	Reconcilers []inspect.Controller
	Sources     []inspect.Source
}

// FlagError is the error of a flag with a wrong value.
type FlagError struct{ text string }

func (e *FlagError) Error() string { return e.text }

func (in *Input) wrong(flag, format string, args ...any) error {
	return &FlagError{in.Dashes + flag + " is " + fmt.Sprintf(format, args...)}
}

// both returns an error for two flags that exclude each other.
func (in *Input) both(one, other, why string) error {
	return &FlagError{fmt.Sprintf("%s%s and %s%s are both set%s", in.Dashes, one, in.Dashes, other, why)}
}

// Named returns the name of the reconciler, with the key if there is one, for people to read.
func (in *Input) Named() string {
	name := text.Plain(in.Reconciler.ID().String())
	if len(in.Key) > 0 {
		name += " " + text.Name(in.Key[0])
	}
	return name
}

// Is returns the value of a flag that is true or false.
func (in *Input) Is(flag string) bool { return in.Flag(flag) == "true" }

func (in *Input) number(flag string) (int, error) {
	n, err := strconv.Atoi(in.Flag(flag))
	switch {
	case err != nil:
		return 0, in.wrong(flag, "%q, must be a number", in.Flag(flag))
	case n < 0:
		return 0, in.wrong(flag, "%d, must not be negative", n)
	}
	return n, nil
}

// Duration returns the value of a flag that is a duration.
func (in *Input) Duration(flag string) (time.Duration, error) {
	d, err := time.ParseDuration(in.Flag(flag))
	switch {
	case err != nil:
		return 0, in.wrong(flag, "%q, must be a duration like 5m", in.Flag(flag))
	case d < 0:
		return 0, in.wrong(flag, "%s, must not be negative", d)
	}
	return d, nil
}

// since returns the time of a flag that is a time, or a duration before now; the zero time for 0.
func (in *Input) since(flag string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, in.Flag(flag)); err == nil {
		return t, nil
	}
	d, err := in.Duration(flag)
	if err != nil || d == 0 {
		return time.Time{}, err
	}
	return now.Add(-d), nil
}

// Patience bounds an action: a reconciler that is in an operation takes it only after that.
const Patience = 10 * time.Second

// Overdue returns the error of a call that may have reached its timeout. If it has, the error does not wrap
// that of the context: hive's script engine takes such an error for the end of the script, and a script
// could not expect it.
func Overdue(ctx context.Context, timeout time.Duration, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("not within %s: %s", text.Duration(timeout), text.Printable(err.Error()))
	}
	return err
}

// Loops returns those reconcilers that have a loop: all but derivations.
func Loops(all []inspect.Controller) (loops []inspect.LoopController) {
	for _, one := range all {
		if loop, ok := one.(inspect.LoopController); ok {
			loops = append(loops, loop)
		}
	}
	return loops
}

// Source returns the source of a registry with a name, or nil if there is none.
func Source(registry *inspect.Registry, name string) inspect.Source {
	for _, s := range registry.Sources() {
		if s.Input() == name {
			return s
		}
	}
	return nil
}
