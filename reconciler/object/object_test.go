// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package object_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/reconciler/object"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is an object by embedding Meta.
type row struct {
	object.Meta
	Size int
}

func (r *row) Clone() *row { c := *r; return &c }

func newRow() *row {
	return &row{Meta: object.Meta{Namespace: "ns", Name: "web", Annotations: map[string]string{"a": "1", "b": "2"}}}
}

func TestARowIsAnObjectByEmbeddingMeta(t *testing.T) {
	var obj object.Object = newRow()
	require.Equal(t, "ns", obj.GetNamespace())
	require.Equal(t, "web", obj.GetName())
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, obj.GetAnnotations())
}

func TestSettersOfAShallowCloneDoNotChangeTheRow(t *testing.T) {
	stored := newRow()

	changed := stored.Clone()
	changed.SetAnnotation("a", "9")
	changed.SetAnnotation("c", "")
	changed.RemoveAnnotation("b")
	require.Equal(t, map[string]string{"a": "9", "c": ""}, changed.GetAnnotations())
	require.Equal(t, newRow(), stored)
}

func TestSettingTheSameValueDoesNotCopy(t *testing.T) {
	stored := newRow()
	require.Zero(t, testing.AllocsPerRun(10, func() {
		stored.SetAnnotation("a", "1")
		stored.RemoveAnnotation("none")
	}))
	require.Equal(t, newRow(), stored)
}

func TestARowWithoutAnnotationsHasANilMap(t *testing.T) {
	var r row
	r.RemoveAnnotation("a")
	require.Nil(t, r.GetAnnotations())
	r.SetAnnotation("a", "1")
	require.Equal(t, map[string]string{"a": "1"}, r.GetAnnotations())
	r.RemoveAnnotation("a")
	require.Nil(t, r.GetAnnotations())
}

func TestAnEmptyValueIsKept(t *testing.T) {
	var r row
	r.SetAnnotation("a", "")
	require.Contains(t, r.GetAnnotations(), "a")
}

func TestKeyOf(t *testing.T) {
	require.Equal(t, "ns/web", object.KeyOf(newRow()).String())
	require.Equal(t, "web", object.KeyOf(&object.Meta{Name: "web"}).String())
	require.NotEqual(t, object.KeyOf(&object.Meta{Name: "web"}), object.KeyOf(newRow()))
}

func TestMetaIsInlineInJSON(t *testing.T) {
	text, err := json.Marshal(newRow())
	require.NoError(t, err)
	require.JSONEq(t, `{"namespace":"ns","name":"web","annotations":{"a":"1","b":"2"},"Size":0}`, string(text))
}

// other is an object that does not embed Meta.
type other struct{ object.Object }

func TestSetAnnotationsDoesNotChangeTheRow(t *testing.T) {
	stored := newRow()
	for _, wrap := range []func(*row) object.Object{
		func(r *row) object.Object { return r },
		func(r *row) object.Object { return other{r} },
	} {
		changed := stored.Clone()
		object.SetAnnotations(wrap(changed), "a", "9", "c", "3")
		require.Equal(t, map[string]string{"a": "9", "b": "2", "c": "3"}, changed.GetAnnotations())
		require.Equal(t, newRow(), stored)
	}
}
