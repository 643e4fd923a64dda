// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"strings"

	"github.com/cilium/hive/script"

	"github.com/statekeel/statekeel/internal/text"
)

// maxCompletions bounds the keys that are offered for what was typed.
const maxCompletions = 50

// completeArgs returns what completes the arguments of a command: names, then keys.
func (c *commands) completeArgs(s *spec) func(state *script.State, before []string, current string) []string {
	return func(_ *script.State, before []string, current string) []string {
		switch {
		case len(before) >= len(s.args):
			return nil
		case len(before) == 0:
			return c.completeName(current)
		}
		found, err := c.registry.Find(before[0])
		if err != nil {
			return nil
		}
		var out []string
		for _, key := range found.Keys(strings.TrimPrefix(current, "'"), maxCompletions) {
			out = append(out, shellWord(key))
		}
		return out
	}
}

func (c *commands) completeName(prefix string) []string {
	var out []string
	for _, r := range c.registry.All() {
		if name := r.ID().String(); strings.HasPrefix(name, prefix) {
			out = append(out, shellWord(name))
		}
	}
	return out
}

func (s *spec) completeFlag(_ *script.State, _ []string, flag, current string) []string {
	values := s.values[flag]
	if flag == "format" {
		values = []string{formatTable, formatJSON}
	}
	var out []string
	for _, v := range values {
		if strings.HasPrefix(v, current) {
			out = append(out, v)
		}
	}
	return out
}

// shellWord returns a text as a word of a script that is read as that text: printable,
// and quoted where the script would split it or expand something in it.
func shellWord(s string) string {
	s = text.Plain(s)
	if strings.ContainsAny(s, " '#$") {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return s
}
