// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"strconv"
	"strings"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/object"
)

// MaxText bounds each text of an event, in bytes. A longer one is cut, and ends with the number of bytes
// left out. Names that differ only after the limit count as equal.
const MaxText = 1 << 10

// Row is the events of one source and object with the same type and reason. Its texts are within
// [MaxText]. Rows are immutable.
type Row struct {
	// Source is that of the events, empty if they have none. Namespace, which may be empty, and Name identify the object.
	Source    string `json:"source,omitempty" yaml:"source,omitempty"`
	Namespace string `json:"namespace,omitempty" yaml:"namespace,omitempty"`
	Name      string `json:"name" yaml:"name"`
	Type      Type   `json:"type" yaml:"type"`
	Reason    Reason `json:"reason" yaml:"reason"`
	// Message is that of the latest event.
	Message string `json:"message" yaml:"message"`
	// Count is the number of events, First and Last are the times of the first and the latest.
	Count uint64    `json:"count" yaml:"count"`
	First time.Time `json:"first" yaml:"first"`
	Last  time.Time `json:"last" yaml:"last"`
}

// newRow returns the row of a single event.
func newRow(obj object.Object, e Event, now time.Time) *Row {
	key := object.KeyOf(obj)
	return &Row{
		Source: short(e.Source), Namespace: short(key.Namespace), Name: short(key.Name),
		Type: Type(short(string(e.Type))), Reason: Reason(short(string(e.Reason))),
		Message: short(e.Message), Count: 1, First: now, Last: now,
	}
}

// short returns a cut copy of a text, since s may be a substring that keeps a long text in memory.
func short(s string) string { return strings.Clone(text.Cut(s, MaxText)) }

func (r *Row) object() object.Key { return object.Key{Namespace: r.Namespace, Name: r.Name} }

// key is the primary key. Each part ends with a sequence that no part contains.
func (r *Row) key() string {
	key := ""
	for _, part := range []string{r.Source, r.Namespace, r.Name, string(r.Type), string(r.Reason)} {
		key += strings.ReplaceAll(part, "\x00", "\x00\xff") + "\x00\x01"
	}
	return key
}

// TableHeader implements [statedb.TableWritable].
func (r *Row) TableHeader() []string {
	return []string{"Object", "Type", "Reason", "Count", "Last", "Message"}
}

// TableRow implements [statedb.TableWritable]. The object is "source:namespace/name", without the
// source if there is none. Unprintable characters are escaped.
func (r *Row) TableRow() []string {
	name := r.object().String()
	if r.Source != "" {
		name = r.Source + ":" + name
	}
	cells := []string{name, string(r.Type), string(r.Reason), strconv.FormatUint(r.Count, 10), text.Stamp(r.Last), r.Message}
	for i := range cells {
		cells[i] = text.Printable(cells[i])
	}
	return cells
}

var (
	keyIndex = statedb.Index[*Row, string]{
		Name:       "key",
		FromObject: func(r *Row) index.KeySet { return index.NewKeySet(index.String(r.key())) },
		FromKey:    index.String,
		Unique:     true,
	}

	// Its keys are texts that a person types. Objects whose names contain slashes may share one.
	objectIndex = statedb.Index[*Row, object.Key]{
		Name:       "object",
		FromObject: func(r *Row) index.KeySet { return index.NewKeySet(index.String(r.object().String())) },
		FromKey:    func(k object.Key) index.Key { return index.String(k.String()) },
		FromString: index.FromString,
	}
)

// NewTable makes the table "events" in a program without a hive; [Cell] makes its own. Only a
// [TableRecorder] may write it.
func NewTable(db *statedb.DB) (statedb.RWTable[*Row], error) {
	return statedb.NewTable(db, "events", keyIndex, objectIndex)
}
