// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package doctest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/exported"
)

// patience bounds one call of the go command, and one run of a program.
const patience = 12 * time.Minute

// Each program compiles the generic code of the reconciler again. Without optimisations (in the programs
// only) and without debug information that takes two thirds of the time.
const (
	quickCompile = "-gcflags=pages/...=-N -l"
	quickLink    = "-ldflags=-w"
)

func TestProgramsInPagesCompileAndRun(t *testing.T) {
	root := projectRoot(t)
	w := newWorkspace(t, root)
	for _, page := range pages(t, root) {
		w.add(t, filepath.Join(root, page), parsePage(t, root, page)...)
	}
	require.NotEmpty(t, w.programs)
	require.NoError(t, w.run(t))
}

func TestFirstProgramIsShort(t *testing.T) {
	programs := parsePage(t, projectRoot(t), "README.md")
	require.NotEmpty(t, programs)
	require.LessOrEqual(t, programs[0].Lines(), 37, "lines that are not blank")
}

func parsePage(t *testing.T, root, page string) []*Program {
	programs, err := Parse(page, read(t, root, page))
	require.NoError(t, err)
	return programs
}

// workspace is a module that requires this one, as the module of a user does. Each program is a package in
// it, so that each call of the go command handles all of them.
type workspace struct {
	dir      string
	programs []placed
	groups   []*group
}

// group is a package that has the tests of several programs, which declare different names. The compiler does the
// reconciler's generic code once for each package, and the linker once for each test: that takes nearly all of the
// time. That each program is complete in itself, vet has checked before.
type group struct {
	folder string
	// names are the declared names, calls the text of a test for each test.
	names map[string]bool
	calls strings.Builder
}

// placed is a program in a workspace.
type placed struct {
	*Program
	// page is the absolute path of its page, folder its package, relative to the workspace.
	page, folder string
}

func newWorkspace(t *testing.T, root string) *workspace {
	w := &workspace{dir: filepath.Join(os.TempDir(), "statekeel-doctest")}
	// In the same folder the go command finds what it compiled in the last run. A temporary folder is for runs
	// at the same time. A folder that is older than any run was left by one that was killed.
	if info, err := os.Stat(w.dir); err == nil && time.Since(info.ModTime()) > 4*patience {
		assert.NoError(t, os.RemoveAll(w.dir))
	}
	if os.Mkdir(w.dir, 0o755) == nil {
		t.Cleanup(func() { assert.NoError(t, os.RemoveAll(w.dir)) })
	} else {
		w.dir = t.TempDir()
	}
	// A copy of our requirements and sums, so that the go command does not look up any.
	for _, name := range []string{"go.mod", "go.sum"} {
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, name), []byte(read(t, root, name)), 0o644))
	}
	_, err := w.command(t, w.dir, "go", "mod", "edit", "-module=pages",
		"-require="+module+"@v0.0.0", "-replace="+module+"="+root)
	require.NoError(t, err)
	return w
}

// add writes the programs of a page into the workspace.
func (w *workspace) add(t *testing.T, page string, programs ...*Program) {
	for _, p := range programs {
		folder := fmt.Sprintf("./program%02d", len(w.programs))
		require.NoError(t, p.Write(filepath.Join(w.dir, folder), page))
		w.programs = append(w.programs, placed{p, page, folder})
	}
}

var (
	packageClause = regexp.MustCompile(`(?m)^package \w+$`)
	testFunction  = regexp.MustCompile(`^Test[A-Z]`)
)

// group copies a program into the first group that declares none of its names.
func (w *workspace) group(t *testing.T, p placed) {
	var names []string
	for _, f := range p.Files {
		names = append(names, declared(t, filepath.Join(w.dir, p.folder, f.Name))...)
	}
	i := slices.IndexFunc(w.groups, func(g *group) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return g.names[name] })
	})
	if i < 0 {
		i = len(w.groups)
		w.groups = append(w.groups, &group{folder: fmt.Sprintf("group%d", i), names: map[string]bool{}})
		require.NoError(t, os.Mkdir(filepath.Join(w.dir, w.groups[i].folder), 0o755))
	}
	g := w.groups[i]
	for _, name := range names {
		g.names[name] = true
		if testFunction.MatchString(name) {
			fmt.Fprintf(&g.calls, "func %s(t *testing.T) { %s.%s(t) }\n", name, g.folder, name)
		}
	}
	for _, f := range p.Files {
		text := packageClause.ReplaceAllString(read(t, filepath.Join(w.dir, p.folder), f.Name), "package "+g.folder)
		name := filepath.Base(p.folder) + "_" + strings.ReplaceAll(f.Name, "_test.go", ".go")
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, g.folder, name), []byte(text), 0o644))
	}
}

// declared returns the names that a file declares, without methods.
func declared(t *testing.T, path string) (names []string) {
	file, err := goparser.ParseFile(token.NewFileSet(), path, nil, goparser.SkipObjectResolution)
	require.NoError(t, err)
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				names = append(names, decl.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "_" })
}

// run vets and tests all programs, runs those with a main function, and compares their output with the page.
func (w *workspace) run(t *testing.T) error {
	if _, err := w.command(t, w.dir, "go", "vet", "./..."); err != nil {
		return err
	}
	mains := []string{"build", quickCompile, quickLink, "-o", "bin/"}
	for _, p := range w.programs {
		if p.HasTests() {
			w.group(t, p)
		}
		if p.HasMain() {
			mains = append(mains, p.folder)
		}
	}
	if len(w.groups) > 0 {
		imports, calls := "package pages\n\nimport \"testing\"\n", ""
		for _, g := range w.groups {
			imports, calls = imports+"import \"pages/"+g.folder+"\"\n", calls+g.calls.String()
		}
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, "pages_test.go"), []byte(imports+calls), 0o644))
		if _, err := w.command(t, w.dir, "go", "test", quickCompile, quickLink, "-vet=off", "-count=1", "."); err != nil {
			return err
		}
	}
	if len(mains) > 5 {
		if _, err := w.command(t, w.dir, "go", mains...); err != nil {
			return err
		}
	}
	errs := make([]error, len(w.programs))
	var group sync.WaitGroup
	for i, p := range w.programs {
		if p.HasMain() {
			group.Go(func() { errs[i] = w.runMain(t, p) })
		}
	}
	group.Wait()
	return errors.Join(errs...)
}

// runMain runs a program in an empty folder and compares its output with the page. Safe from any goroutine.
func (w *workspace) runMain(t *testing.T, p placed) error {
	want := Block{Line: p.Files[0].Blocks[0].Line}
	if p.Output != nil {
		want = *p.Output
	}
	printed, err := w.command(t, t.TempDir(), filepath.Join(w.dir, "bin", p.folder))
	if err != nil {
		return fmt.Errorf("%s:%d: %w", p.page, want.Line, err)
	}
	if printed != want.Text {
		return fmt.Errorf("%s:%d: the program prints\n%s\nbut the page shows\n%s", p.page, want.Line, printed, want.Text)
	}
	return nil
}

// goflags returns the setting of GOFLAGS for commands that compile, with the flags of this test: what was compiled
// for the test is then not compiled again.
func goflags(flags ...string) string {
	return "GOFLAGS=" + strings.Join(append(flags, exported.BuildFlags()...), " ")
}

// command runs a command and returns its standard output. The error contains all of its output.
func (w *workspace) command(t *testing.T, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", goflags("-mod=mod"), "PWD="+dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		command := strings.Join(append([]string{filepath.Base(name)}, args...), " ")
		return "", fmt.Errorf("%w\n%s\n%s%s", err, command, &stdout, &stderr)
	}
	return stdout.String(), nil
}
