// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package dropin

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Each case has a declaration of theirs, one of ours, and the names that must be reported.
func TestIncompatibleDeclarationsAreReported(t *testing.T) {
	l := newLoader(t)
	for _, test := range []struct {
		name, theirs, ours string
		want               []string
	}{
		{"the same", `func F(a int, b ...string) error { return nil }`, `func F(x int, y ...string) (err error) { return }`, nil},
		{"missing", `func F() {}`, ``, []string{"F"}},
		{"unexported", `func f() {}`, ``, nil},
		{"an additional name", ``, `func F() {}`, nil},
		{"another kind of declaration", `func F() {}`, `type F int`, []string{"F"}},
		{"another parameter", `func F(a int) {}`, `func F(a uint) {}`, []string{"F"}},
		{"not variadic", `func F(a ...int) {}`, `func F(a []int) {}`, []string{"F"}},
		{"a function in a variable", `func F() {}`, `var F = func() {}`, []string{"F"}},
		{"another constant", `const C = "a"`, `const C = "b"`, []string{"C"}},
		{"a typed constant", `const C = "a"`, `const C string = "a"`, []string{"C"}},
		{"a variable for a constant", `const C = "a"`, `var C = "a"`, []string{"C"}},
		{"a constant for a variable", `type K struct{}; var V K`, `type K int; const V K = 1`, nil},
		{"a variable of another type", `type K struct{}; var V K`, `type K int; var V int`, []string{"V"}},
		{"the type of the other package", `type T struct{}; func F(T) *T { return nil }`, `type T struct{}; func F(T) *T { return nil }`, nil},
		{"an alias of a type", `type T struct{ A int }`, `type u struct{ A int }; type T = u`, nil},
		{"a missing field", `type T struct{ A int; b int }`, `type T struct{ a int }`, []string{"T.A"}},
		{"a field of another type", `type T struct{ A int; b int }`, `type T struct{ A uint }`, []string{"T.A"}},
		{"a field without its tag", "type T struct{ A int `json:\"a\"`; b int }", `type T struct{ A int }`, []string{"T.A"}},
		{"an additional field", `type T struct{ A int }`, `type T struct{ A, B int }`, []string{"T"}},
		{"fields in another order", `type T struct{ A int; B string }`, `type T struct{ B string; A int }`, []string{"T"}},
		{"an additional field beside hidden ones", `type T struct{ A int; b int }`, `type T struct{ A, B int }`, nil},
		{"an opaque struct", `type T struct{ a int }`, `type T uint8`, nil},
		{"not comparable", `type T struct{ a int }`, `type T struct{ a []int }`, []string{"T"}},
		{"a missing method", `type T int; func (T) M() {}`, `type T int`, []string{"T.M"}},
		{"a method on the pointer only", `type T int; func (T) M() {}`, `type T int; func (*T) M() {}`, []string{"T.M"}},
		{"another method", `type T int; func (*T) M() int { return 0 }`, `type T int; func (*T) M() {}`, []string{"T.M"}},
		{"an embedded method", `type T struct{}; func (T) M() {}`, `type e struct{}; func (e) M() {}; type T struct{ e }`, nil},
		{"an interface without a method", `type I interface{ A(); B() }`, `type I interface{ A() }`, []string{"I.B"}},
		{"an interface with an additional method", `type I interface{ A() }`, `type I interface{ A(); B() }`, []string{"I.B"}},
		{"an interface with an embedded one", `type I interface{ A(); B() }`, `type J interface{ B() }; type I interface{ A(); J }`, nil},
		{"another interface method", `type I interface{ A(int) }`, `type I interface{ A(string) }`, []string{"I.A"}},
		{"generic", `type T[A any] struct{ F A; g int }; func F[A comparable](T[A], map[string][]A) {}`,
			`type T[B any] struct{ F B }; func F[B comparable](T[B], map[string][]B) {}`, nil},
		{"a wider constraint", `func F[A comparable](A) {}`, `func F[A any](A) {}`, nil},
		{"another constraint", `func F[A any](A) {}`, `func F[A comparable](A) {}`, []string{"F"}},
		{"another type argument", `type T[A any] struct{}; func F[A, B any](T[A]) {}`, `type T[A any] struct{}; func F[A, B any](T[B]) {}`, []string{"F"}},
		{"a named function type", `type o struct{}; type T func(*o)`, `type p struct{ x int }; type T func(*p)`, nil},
		{"another function type", `type o struct{}; type T func(*o)`, `type p struct{}; type T func(p)`, []string{"T"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			theirs, _ := l.checkSource(t, "theirs", "package p\n"+test.theirs)
			ours, _ := l.checkSource(t, "ours", "package p\n"+test.ours)
			problems := comparePackages(theirs, ours)
			assert.Equal(t, test.want, slices.Sorted(maps.Keys(problems)), "%v", problems)
		})
	}
}
