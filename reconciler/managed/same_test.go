// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/statekeel/statekeel/reconciler"
)

// gapped is a row with gaps in its memory, after each of the small fields.
type gapped struct {
	a     uint8
	b     uint64
	inner struct {
		c bool
		d *int
	}
	array [2]struct {
		e uint32
		f uint8
	}
	g any
	h uint8
}

func TestGapsInTheMemoryOfARowAreIgnored(t *testing.T) {
	same := untouched[*gapped]()
	row, clone := &gapped{}, &gapped{}
	// Change a small field together with the gap after it, and then set the field back.
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&clone.a)), unsafe.Sizeof(clone.a)+7)
	for i := range memory {
		memory[i] = 0xff
	}
	clone.a = 0
	tail := unsafe.Slice((*byte)(unsafe.Pointer(&clone.array[1].f)), 4)
	for i := range tail {
		tail[i] = 0xff
	}
	clone.array[1].f = 0
	assert.True(t, same(clone, row))

	n := 0
	for name, set := range map[string]func(*gapped){
		"first":        func(g *gapped) { g.a = 1 },
		"second":       func(g *gapped) { g.b = 1 },
		"inner":        func(g *gapped) { g.inner.c = true },
		"pointer":      func(g *gapped) { g.inner.d = &n },
		"array":        func(g *gapped) { g.array[0].f = 1 },
		"end of array": func(g *gapped) { g.array[1].f = 1 },
		"of any type":  func(g *gapped) { g.g = 1 },
		"last":         func(g *gapped) { g.h = 1 },
	} {
		changed := *row
		set(&changed)
		assert.False(t, same(&changed, row), name)
	}
}

func TestNonPointerRowsAreNotComparedByMemory(t *testing.T) {
	assert.False(t, untouched[gapped]()(gapped{}, gapped{}))
	same := untouched[*gapped]()
	assert.True(t, same(nil, nil))
	assert.False(t, same(nil, &gapped{}))
	assert.False(t, same(&gapped{}, nil))
}

func TestFieldsWithoutAGapAreOneRange(t *testing.T) {
	packed := reflect.TypeFor[struct {
		A, B uint32
		C    [2]uint64
		D    string
	}]()
	assert.Equal(t, []extent{{0, 40}}, appendFields(nil, packed, 0))
	assert.Equal(t, []extent{{0, 1}, {8, 17}, {24, 37}, {40, 45}, {48, 65}}, appendFields(nil, reflect.TypeFor[gapped](), 0))
}

type comparedRow struct {
	Meta
	Size  int8
	Wide  int64
	Text  string
	Parts []string
	More  map[string]int
}

func TestShallowCopyIsUntouchedUntilAFieldIsSet(t *testing.T) {
	same := untouched[*comparedRow]()
	row := &comparedRow{Size: 1, Wide: 2, Text: "a", Parts: []string{"b"}, More: map[string]int{"c": 1}}
	row.SetAnnotation("d", "e")
	for name, set := range map[string]func(r *comparedRow){
		"size":       func(r *comparedRow) { r.Size++ },
		"wide":       func(r *comparedRow) { r.Wide++ },
		"text":       func(r *comparedRow) { r.Text = "b" },
		"parts":      func(r *comparedRow) { r.Parts = append(r.Parts, "c") },
		"other map":  func(r *comparedRow) { r.More = map[string]int{"c": 2} },
		"annotation": func(r *comparedRow) { r.SetAnnotation("d", "f") },
		"condition":  func(r *comparedRow) { r.SetConditions(Available()) },
		"finalizer":  func(r *comparedRow) { r.SetFinalizers([]string{"g"}) },
	} {
		t.Run(name, func(t *testing.T) {
			clone := *row
			assert.True(t, same(&clone, row))
			set(&clone)
			assert.False(t, same(&clone, row))
		})
	}
}

// statusRow is a row for any way to set its status.
type statusRow struct {
	Meta
	Size   int
	Status reconciler.Status
}

// A pass detects its own changes and leaves the status alone, however the program sets statuses.
func TestStatusThatAsksForAPassIsNoChange(t *testing.T) {
	for name, set := range map[string]func(*statusRow, reconciler.Status) *statusRow{
		"in place":  func(r *statusRow, s reconciler.Status) *statusRow { r.Status = s; return r },
		"on a copy": func(r *statusRow, s reconciler.Status) *statusRow { c := *r; c.Status = s; return &c },
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler[*statusRow]{
				getStatus: func(r *statusRow) reconciler.Status { return r.Status }, setStatus: set,
				untouched: untouched[*statusRow](), equal: func(a, b *statusRow) bool { return a.Size == b.Size },
			}
			row := &statusRow{Size: 1, Status: reconciler.StatusDone()}
			clone := *row
			clone.Status = reconciler.StatusPending()
			asked := clone.Status
			p := &pass[*statusRow]{r: r, obj: &clone, row: row, known: true}
			assert.False(t, p.changed())
			assert.Equal(t, asked, p.obj.Status)
			p.obj.Size++
			assert.True(t, p.changed())
			assert.Equal(t, asked, p.obj.Status)
			assert.Equal(t, reconciler.StatusKindDone, row.Status.Kind)
		})
	}
}
