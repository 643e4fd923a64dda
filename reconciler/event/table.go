// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/object"
)

// TableName is the name of the table of events.
const TableName = "events"

// Row is an event in the table together with its repetitions: events of one source and object with
// the same type, reason and message. Its texts are within [MaxName], [MaxMessage] and [MaxText].
// Rows are immutable.
type Row struct {
	// Source is the value of [SourceAnnotation], or empty.
	Source string `json:"source,omitempty" yaml:"source,omitempty"`
	// Namespace, which may be empty, and Name identify the object.
	Namespace string `json:"namespace,omitempty" yaml:"namespace,omitempty"`
	Name      string `json:"name" yaml:"name"`

	Type    Type   `json:"type" yaml:"type"`
	Reason  Reason `json:"reason" yaml:"reason"`
	Message string `json:"message" yaml:"message"`
	// Annotations are those of the latest event, without the source. nil if there are none.
	Annotations map[string]string `json:"annotations,omitempty" yaml:"annotations,omitempty"`

	// Count is the number of recorded events.
	Count uint64 `json:"count" yaml:"count"`
	// HeldBack is the number of events of the object and the reason, with any message, that a
	// throttle held back before one of the recorded events.
	HeldBack uint64 `json:"heldBack,omitempty" yaml:"heldBack,omitempty"`
	// First and Last are the times of the first and the latest recorded event.
	First time.Time `json:"first" yaml:"first"`
	Last  time.Time `json:"last" yaml:"last"`
}

// RowKey is the primary key of the table.
type RowKey struct {
	Source  string
	Object  object.Key
	Type    Type
	Reason  Reason
	Message string
}

// Key returns the key of the row.
func (r *Row) Key() RowKey {
	return RowKey{r.Source, object.Key{Namespace: r.Namespace, Name: r.Name}, r.Type, r.Reason, r.Message}
}

// bytes returns the parts in an order in which rows of one object are adjacent. Each part ends with
// a sequence that no part contains.
func (k RowKey) bytes() index.Key {
	var key bytes.Buffer
	for _, part := range []string{k.Source, k.Object.Namespace, k.Object.Name, string(k.Type), string(k.Reason), k.Message} {
		key.WriteString(strings.ReplaceAll(part, "\x00", "\x00\xff"))
		key.WriteString("\x00\x01")
	}
	return key.Bytes()
}

// TableHeader implements [statedb.TableWritable].
func (r *Row) TableHeader() []string {
	return []string{"Object", "Type", "Reason", "Count", "Last", "Message"}
}

// TableRow implements [statedb.TableWritable]. The object is "source:namespace/name", without the
// source if there is none. The count is followed by the number that a throttle held back, as in
// "3+12". The annotations follow the message. Unprintable characters are escaped.
func (r *Row) TableRow() []string {
	name := r.Key().Object.String()
	if r.Source != "" {
		name = r.Source + ":" + name
	}
	count := strconv.FormatUint(r.Count, 10)
	if r.HeldBack > 0 {
		count += "+" + strconv.FormatUint(r.HeldBack, 10)
	}
	cells := []string{name, string(r.Type), string(r.Reason), count, text.Stamp(r.Last), r.described()}
	for i := range cells {
		cells[i] = text.Printable(cells[i])
	}
	return cells
}

// described returns the message followed by the annotations.
func (r *Row) described() string {
	if len(r.Annotations) == 0 {
		return r.Message
	}
	var pairs []string
	for _, key := range sorted(r.Annotations) {
		pairs = append(pairs, key+"="+r.Annotations[key])
	}
	return strings.TrimLeft(r.Message+" ("+strings.Join(pairs, ", ")+")", " ")
}

var (
	keyIndex = statedb.Index[*Row, RowKey]{
		Name:       "key",
		FromObject: func(r *Row) index.KeySet { return index.NewKeySet(r.Key().bytes()) },
		FromKey:    RowKey.bytes,
		Unique:     true,
	}

	// ByKey is the query for one row.
	ByKey = keyIndex.Query

	objectIndex = statedb.Index[*Row, object.Key]{
		Name:       "object",
		FromObject: func(r *Row) index.KeySet { return index.NewKeySet(objectKey(r.Key().Object)) },
		FromKey:    objectKey,
		FromString: index.FromString,
	}

	// ByObject is the query for the rows of an object, of all sources. In the shell it is `db/list
	// -i object events namespace/name`.
	ByObject = objectIndex.Query
)

// objectKey is the text that a person types. Objects whose namespaces or names contain slashes may
// share one.
func objectKey(k object.Key) index.Key { return index.String(k.String()) }

// NewTable makes the table of events in a program without a hive; [Cell] makes its own. Only a
// [TableRecorder] may write it.
func NewTable(db *statedb.DB) (statedb.RWTable[*Row], error) {
	return statedb.NewTable(db, TableName, keyIndex, objectIndex)
}
