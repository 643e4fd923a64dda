// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxErrorClass is how many bytes of a class count that [Config].ErrorClass returns.
const MaxErrorClass = 1024

// classify asks the function of the user, if there is one, for the classes of the failures of a
// round that have none yet. It is called without a lock: the function may end the goroutine.
func (l *Loop[Obj]) classify() {
	if l.cfg.ErrorClass == nil {
		return
	}
	for i := range l.batch.attempts {
		a := &l.batch.attempts[i]
		if !a.classed && (a.result == resultFailed || a.result == resultTerminal) {
			a.class, a.classed = l.classOf(&l.batch.tasks[i], a), true
		}
	}
}

// classOf returns the class of what came of a task, which failed.
func (l *Loop[Obj]) classOf(t *task[Obj], a *attempt[Obj]) string {
	if l.cfg.ErrorClass == nil {
		return l.plainClassOf(*a.text, a.row)
	}
	if c, is := t.err.(*cutError); is {
		return c.class
	}
	return l.errorClass(t.err)
}

// errorClass returns the class of an error by the function of the user; none if there is no
// function, or if it panics.
func (l *Loop[Obj]) errorClass(err error) (class string) {
	if l.cfg.ErrorClass == nil {
		return ""
	}
	defer func() {
		if r := recover(); r != nil && !l.cfg.PanicPropagation {
			l.log.Error("Config.ErrorClass panicked", "panic", cut(textOfAny(r), MaxErrorText), "error", cut(textOf(err), MaxErrorText))
		} else if r != nil {
			panic(r)
		}
	}()
	// It may be a piece of a text that is long.
	return strings.Clone(cut(l.cfg.ErrorClass(err), MaxErrorClass))
}

// classText is how much of a text its class is made from.
const classText = 1024

// plainClassOf returns the class of a text about an object, without its name, and without its key
// if the name is that in quotes or in hexadecimal.
func (l *Loop[Obj]) plainClassOf(text string, obj Obj) string {
	name, key := l.rows.Name(obj), l.rows.Key(obj)
	if name == l.rows.KeyName(key) {
		return plainClass(text, name, string(key))
	}
	return plainClass(text, name)
}

// plainClass returns a text without what tells one object from another: its digits, and the
// names of the object where they are words of their own.
func plainClass(text string, names ...string) string {
	text = cut(text, classText)
	for _, name := range names {
		if name != "" {
			text = withoutWord(text, name)
		}
	}
	var b strings.Builder
	digits := false
	for _, r := range text {
		was := digits
		digits = r >= '0' && r <= '9'
		switch {
		case !digits:
			b.WriteRune(r)
		case !was:
			b.WriteByte('#')
		}
		if b.Len() >= maxClass {
			return b.String() + "..."
		}
	}
	return b.String()
}

// withoutWord returns a text with "#" in place of a word, where neither a letter nor a digit is
// beside it.
func withoutWord(text, word string) string {
	var b strings.Builder
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			b.WriteString(text[from:])
			return b.String()
		}
		at += from
		end := at + len(word)
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[end:])
		b.WriteString(text[from:at])
		if at > 0 && isWordRune(before) || end < len(text) && isWordRune(after) {
			b.WriteString(word)
		} else {
			b.WriteByte('#')
		}
		from = end
	}
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
