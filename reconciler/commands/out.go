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

// writeFile writes a file that only its owner can read, and replaces an existing file. The shell works in
// /tmp, where other users can prepare links and files. writeFile therefore creates a new file and
// renames it: it never writes through a link, or into a file that another process has open.
func writeFile(path, content string) error {
	switch info, err := os.Lstat(path); {
	case err == nil && !info.Mode().IsRegular():
		// The rename would replace a device or a link.
		return fmt.Errorf("%s is not a regular file", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	// CreateTemp creates the file with mode 0600.
	file, err := os.CreateTemp(filepath.Dir(path), ".statekeel-*")
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		// The first error is the cause; an error of Remove adds nothing.
		_ = os.Remove(file.Name())
	}
	return err
}
