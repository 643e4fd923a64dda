// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package filled makes values of the types of package inspect in which no field is zero, for tests that
// compare their JSON with a golden file.
package filled

import (
	"fmt"
	"reflect"
	"time"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Value returns a value in which no field is zero, including those of nested structs and of elements of
// slices. Slices have two elements. It always returns the same value for a type, and panics for kinds that
// package inspect does not use, such as maps.
func Value[T any]() T {
	var value T
	f := filler{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	f.fill(reflect.ValueOf(&value).Elem(), "value")
	return value
}

// named has the values for types that allow only certain words.
var named = map[reflect.Type]any{
	reflect.TypeFor[inspect.State]():     inspect.StateRetry,
	reflect.TypeFor[inspect.Cause]():     inspect.CauseRetry,
	reflect.TypeFor[inspect.Reason]():    inspect.ReasonChange,
	reflect.TypeFor[inspect.Result]():    inspect.ResultFailed,
	reflect.TypeFor[inspect.Condition](): inspect.ConditionBusy,
}

// filler fills values. n counts the fields, so that each gets another value; times are at plus n seconds.
type filler struct {
	at time.Time
	n  int
}

// fill sets a value. name is that of its field, and becomes part of a string.
func (f *filler) fill(v reflect.Value, name string) {
	f.n++
	if value, has := named[v.Type()]; has {
		v.Set(reflect.ValueOf(value))
		return
	}
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(f.at.Add(time.Duration(f.n) * time.Second)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("%s %d", name, f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.n))
	case reflect.Uint64:
		v.SetUint(uint64(f.n))
	case reflect.Float64:
		v.SetFloat(float64(f.n) + 0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), name)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i), name)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), v.Type().Field(i).Name)
		}
	default:
		panic(fmt.Sprintf("no value for %s of type %s", name, v.Type()))
	}
}

// Zeros returns the names of the zero fields of a value, including those of nested structs:
// "Round.Operations[0].Key".
func Zeros(value any) (names []string) {
	zeros(reflect.ValueOf(value), reflect.TypeOf(value).Name(), &names)
	return names
}

func zeros(v reflect.Value, name string, names *[]string) {
	switch {
	case v.IsZero(), v.Kind() == reflect.Slice && v.Len() == 0:
		*names = append(*names, name)
	case v.Type() == reflect.TypeFor[time.Time]():
	case v.Kind() == reflect.Pointer:
		zeros(v.Elem(), name, names)
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			zeros(v.Index(i), fmt.Sprintf("%s[%d]", name, i), names)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			zeros(v.Field(i), name+"."+v.Type().Field(i).Name, names)
		}
	}
}
