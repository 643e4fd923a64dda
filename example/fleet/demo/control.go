// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build unix

package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// A request is a line. The answer is "ok", or an error, and the end of the connection.
const answerOK = "ok"

// sendTimeout bounds how long a client may take to send its request, since one at a time is served.
const sendTimeout = 5 * time.Second

// serve carries out requests, one after the other, until the listener is closed.
func (d *Demo) serve(ctx context.Context) {
	for {
		conn, err := d.control.Accept()
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(sendTimeout)) // if it fails, so does reading
		line, err := bufio.NewReader(io.LimitReader(conn, 1<<10)).ReadString('\n')
		if err == nil {
			err = d.carryOut(ctx, strings.TrimSuffix(line, "\n"))
		}
		answer := answerOK
		if err != nil {
			answer = err.Error()
		}
		_ = conn.SetDeadline(time.Now().Add(sendTimeout))
		_, _ = fmt.Fprintln(conn, answer) // the client may have gone
		_ = conn.Close()
	}
}

// Ask sends one of the [Requests] to the fleet that runs in a directory, and returns when it is carried
// out.
func Ask(dir Dir, request string) error {
	if strings.Contains(request, "\n") {
		return fmt.Errorf("request %q: is not one line", request)
	}
	conn, err := dial(dir)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // all was read
	if _, err := fmt.Fprintln(conn, request); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	switch text := strings.TrimSpace(string(answer)); {
	case err != nil:
		return err
	case text == "":
		return errors.New("the fleet ended before it answered")
	case text != answerOK:
		return errors.New(text)
	}
	return nil
}

// Check returns an error if no fleet runs in a directory.
func Check(dir Dir) error {
	conn, err := dial(dir)
	if err != nil {
		return err
	}
	return conn.Close()
}

// dial connects to the fleet of a directory, unless another user may have made that.
func dial(dir Dir) (net.Conn, error) {
	err := dir.check()
	var conn net.Conn
	if err == nil {
		conn, err = net.Dial("unix", dir.control())
	}
	if err != nil {
		return nil, fmt.Errorf("no fleet runs in %q: %w", dir, err)
	}
	return conn, nil
}
