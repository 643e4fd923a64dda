// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package check

import (
	"regexp"
	"runtime"
	"strings"
)

var bubble = regexp.MustCompile(`synctest bubble \d+`)

// Goroutines returns the stacks of all other goroutines of the bubble that it is called in, or of the program if it is
// called outside of one, by the first word of each: its number.
func Goroutines() map[string]string {
	buf := make([]byte, 1<<16)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	stacks := strings.Split(string(buf), "\n\n")
	head, _, _ := strings.Cut(stacks[0], "\n")
	ours := bubble.FindString(head)
	found := map[string]string{}
	for _, stack := range stacks[1:] {
		head, _, _ := strings.Cut(stack, "\n")
		number, _, ok := strings.Cut(strings.TrimPrefix(head, "goroutine "), " ")
		if ok && (ours == "" || bubble.FindString(head) == ours) {
			found[number] = stack
		}
	}
	return found
}

// Blocked reports whether the goroutine with a stack waits for something other than the processor.
func Blocked(stack string) bool {
	_, state, _ := strings.Cut(stack, "[")
	switch state = state[:max(0, strings.IndexAny(state, ",](:"))]; strings.TrimSpace(state) {
	case "running", "runnable", "preempted", "copystack", "GC assist wait", "GC assist marking":
		return false
	}
	return true
}
