// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeFile writes a file that its owner alone may read, in place of one that is there. The
// shell's directory is /tmp: a file is made and renamed, so that nothing that others put there
// is written through, not links, nor a file that they have open.
func writeFile(path, content string) error {
	switch info, err := os.Lstat(path); {
	case err == nil && !info.Mode().IsRegular():
		// A rename would replace a device, too.
		return fmt.Errorf("%s is not a regular file", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	// The mode is 0600.
	file, err := os.CreateTemp(filepath.Dir(path), ".statekeel-*")
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		// Of the two errors the first says why.
		_ = os.Remove(file.Name())
	}
	return err
}
