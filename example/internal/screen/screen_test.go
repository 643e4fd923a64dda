// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package screen

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestScreenRedrawsInPlaceWithoutWrapping(t *testing.T) {
	var out strings.Builder
	s := Screen{Out: &out, Size: func() (width, height int) { return 6, 0 }}
	require.NoError(t, s.Show([]string{"title", "a longer line"}))
	assert.Equal(t, "title\na lon…\n", out.String())
	require.NoError(t, s.Show([]string{"title", "a longer line"}))
	assert.Equal(t, "title\na lon…\n", out.String(), "the same again")
	out.Reset()
	require.NoError(t, s.Show([]string{"ä ö ü ß"}))
	assert.Equal(t, "\r\x1b[2A\x1b[Jä ö ü…\n", out.String())
}

func TestLogScrollsAboveTheLines(t *testing.T) {
	var out strings.Builder
	s := Screen{Out: &out, Size: func() (width, height int) { return 0, 0 }}
	write := func(text string) {
		n, err := s.Write([]byte(text))
		require.NoError(t, err)
		require.Len(t, text, n)
	}
	write("before\n")
	require.NoError(t, s.Show([]string{"title", "line"}))
	assert.Equal(t, "before\ntitle\nline\n", out.String())
	out.Reset()
	write("log 1\nlo")
	write("g 2")
	assert.Equal(t, "\r\x1b[2A\x1b[Jlog 1\ntitle\nline\n", out.String(), "complete lines only")
	out.Reset()
	write("\n")
	assert.Equal(t, "\r\x1b[2A\x1b[Jlog 2\ntitle\nline\n", out.String())
}

// fullDisk is a writer that fails.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestScreenThatCannotBeWrittenIsAnError(t *testing.T) {
	s := Screen{Out: fullDisk{}, Size: func() (width, height int) { return 0, 0 }}
	assert.EqualError(t, s.Show([]string{"x"}), "disk full")
	_, err := s.Write([]byte("x\n"))
	assert.EqualError(t, err, "disk full")
}
