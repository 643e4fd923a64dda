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

	"github.com/statekeel/statekeel/internal/keys"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/object"
)

// TableName is the name of the table of events.
const TableName = "events"

// Row is an event in the table, and all its repetitions: events of one source and object that
// have the same type, reason and message. Its texts are within [MaxName], [MaxMessage] and
// [MaxText]. Rows are immutable.
type Row struct {
	// Source is the value of [SourceAnnotation], empty if there is none.
	Source string `json:"source,omitempty" yaml:"source,omitempty"`
	// Namespace, which may be empty, and Name are those of the object.
	Namespace string `json:"namespace,omitempty" yaml:"namespace,omitempty"`
	Name      string `json:"name" yaml:"name"`

	Type    Type   `json:"type" yaml:"type"`
	Reason  Reason `json:"reason" yaml:"reason"`
	Message string `json:"message" yaml:"message"`
	// Annotations are those of the latest event, the source left out. nil if there are
	// none.
	Annotations map[string]string `json:"annotations,omitempty" yaml:"annotations,omitempty"`

	// Count is how often the event was recorded.
	Count uint64 `json:"count" yaml:"count"`
	// HeldBack is how many more of the object and the reason, whatever their messages, a
	// throttle kept from being recorded before one of these.
	HeldBack uint64 `json:"heldBack,omitempty" yaml:"heldBack,omitempty"`
	// First and Last are when the event was recorded the first and the latest time.
	First time.Time `json:"first" yaml:"first"`
	Last  time.Time `json:"last" yaml:"last"`
}

// RowKey is what tells the rows of the table apart.
type RowKey struct {
	Source  string
	Object  object.Key
	Type    Type
	Reason  Reason
	Message string
}

// Key returns the key of the row. Safe from any goroutine.
func (r *Row) Key() RowKey {
	return RowKey{r.Source, object.Key{Namespace: r.Namespace, Name: r.Name}, r.Type, r.Reason, r.Message}
}

// bytes returns the parts, in an order by which rows of one object are next to each other.
// Every part ends in what no part contains.
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

// TableRow implements [statedb.TableWritable]. The object stands behind its source, if there
// is one, as "source:namespace/name"; what a throttle held back behind the count, as "3+12";
// the annotations behind the message. Nothing of it is unprintable.
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

// described returns the message and, behind it, the annotations.
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
		FromObject: func(r *Row) index.KeySet { return keys.Set(r.Key().bytes()) },
		FromKey:    RowKey.bytes,
		Unique:     true,
	}

	// ByKey finds a row.
	ByKey = keyIndex.Query

	objectIndex = statedb.Index[*Row, object.Key]{
		Name:       "object",
		FromObject: func(r *Row) index.KeySet { return keys.Set(objectKey(r.Key().Object)) },
		FromKey:    objectKey,
		FromString: index.FromString,
	}

	// ByObject finds the rows of an object, whatever their source. In the shell that is
	// `db/list -i object events namespace/name`.
	ByObject = objectIndex.Query
)

// objectKey is the text that a person would type, so that objects whose namespaces and names
// have slashes in them may share one.
func objectKey(k object.Key) index.Key { return index.String(k.String()) }

// NewTable makes the table of events, for programs without a hive; [Cell] makes its own. It
// is to be written by a [TableRecorder] only.
func NewTable(db *statedb.DB) (statedb.RWTable[*Row], error) {
	return statedb.NewTable(db, TableName, keyIndex, objectIndex)
}
