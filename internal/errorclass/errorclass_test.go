// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package errorclass_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/errorclass"
)

// logged takes the log lines. It returns Repeated of each, by object.
func logged(c *errorclass.Classes[int]) map[int]int {
	lines := map[int]int{}
	for _, l := range c.TakeLines() {
		lines[l.Object] = l.Repeated
	}
	return lines
}

func failure(object int, text string) errorclass.Failure[int] {
	return errorclass.Failure[int]{Operation: "update", Object: object, Revision: 7, Attempt: 2, Text: text}
}

func TestClassesAreListedLatestFirst(t *testing.T) {
	var c errorclass.Classes[int]
	require.Empty(t, c.List())
	c.Add("b", 1, failure(1, "b 1"))
	c.Add("c", 2, failure(2, "c 2"))
	c.Add("a", 2, failure(3, "a 3"))
	c.Add("b", 1, failure(4, "b 4"))
	require.Equal(t, []errorclass.Class[int]{
		{Name: "a", Count: 1, At: 2, Object: 3, Text: "a 3"},
		{Name: "c", Count: 1, At: 2, Object: 2, Text: "c 2"},
		{Name: "b", Count: 2, At: 1, Object: 4, Text: "b 4"},
	}, c.List())
}

func TestOldestClassMakesRoom(t *testing.T) {
	var c errorclass.Classes[int]
	for i := range errorclass.MaxClasses {
		c.Add(fmt.Sprint(i), time.Duration(i), failure(i, ""))
	}
	c.Add("0", time.Hour, failure(0, ""))
	c.Add("new", time.Hour, failure(0, ""))
	list := c.List()
	require.Len(t, list, errorclass.MaxClasses)
	for _, k := range list {
		require.NotEqual(t, "1", k.Name)
	}
}

func TestClassIsLoggedAtMostOnceInLogEvery(t *testing.T) {
	var c errorclass.Classes[int]
	for i := range 100 {
		c.Add("down", time.Duration(i)*time.Second, failure(i, ""))
	}
	lines := c.TakeLines()
	require.Equal(t, errorclass.Line[int]{Failure: failure(0, "")}, lines[0])
	c.Add("down", 100*time.Second, failure(100, ""))
	require.Empty(t, c.TakeLines())
	for i, l := range lines[1:] {
		require.Equal(t, errorclass.Line[int]{Failure: failure(30*(i+1), ""), Repeated: 29}, l)
	}
	require.Len(t, lines, 4)
}

// Failures that are not logged are counted in the next line of their class.
func TestLinesOfManyClassesAreBounded(t *testing.T) {
	var c errorclass.Classes[int]
	add := func(at time.Duration) {
		for i := range errorclass.MaxClasses {
			c.Add(fmt.Sprint(i), at, failure(i, ""))
		}
	}
	add(time.Hour)
	require.Len(t, logged(&c), errorclass.LogBurst)
	add(time.Hour)
	require.Empty(t, logged(&c))
	add(time.Hour + time.Second)
	require.Equal(t, map[int]int{errorclass.LogBurst: 2}, logged(&c))
	add(time.Hour + time.Minute)
	require.Len(t, logged(&c), errorclass.LogBurst)
}

func TestFailureThatIsNotLoggedAllocatesNothing(t *testing.T) {
	var c errorclass.Classes[int]
	c.Add("down", 0, failure(1, "down"))
	require.Zero(t, testing.AllocsPerRun(1000, func() { c.Add("down", time.Second, failure(2, "down")) }))
}
