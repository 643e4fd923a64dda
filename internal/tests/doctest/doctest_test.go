// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package doctest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	// What the programs are made with: without it, a cached result of this test
	// would outlive a change that breaks them.
	_ "github.com/statekeel/statekeel/metrics"
	_ "github.com/statekeel/statekeel/reconciler"
	_ "github.com/statekeel/statekeel/reconciler/commands"
	_ "github.com/statekeel/statekeel/reconciler/event"
	_ "github.com/statekeel/statekeel/reconciler/managed"
	_ "github.com/statekeel/statekeel/reconciler/object"
	_ "github.com/statekeel/statekeel/reconciler/request"
	_ "github.com/statekeel/statekeel/reconciler/stateful"
	_ "github.com/statekeel/statekeel/reconciler/stepper"
	_ "github.com/statekeel/statekeel/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const module = "github.com/statekeel/statekeel"

// patience bounds one call of the go command, and one run of a program.
const patience = 3 * time.Minute

func TestProgramsInThePagesCompileAndRun(t *testing.T) {
	root := projectRoot(t)
	w := newWorkspace(t, root)
	for _, page := range pages(t, root) {
		for _, p := range parsePage(t, root, page) {
			t.Run(filepath.Join(page, p.Folder), func(t *testing.T) {
				w.check(t, p, filepath.Join(root, page))
			})
		}
	}
}

func TestFirstProgramHasFortyLines(t *testing.T) {
	programs := parsePage(t, projectRoot(t), "README.md")
	require.NotEmpty(t, programs)
	require.LessOrEqual(t, programs[0].Lines(), 40, "lines that are not blank")
}

// A page that is wrong must not pass, or the tests above show nothing.
func TestMistakesInAProgramAreFound(t *testing.T) {
	w := newWorkspace(t, projectRoot(t))
	for _, c := range []struct{ name, page, want string }{
		{"does not compile",
			"\n'''go\n// main.go\npackage main\n'''\nwords\n'''go\nfunc main() {\n\tmissing()\n}\n'''\n",
			"/bad.md:9: undefined: missing"},
		{"does not vet",
			"'''go\n// main.go\npackage main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Printf(\"%d\", \"x\")\n}\n'''\n",
			"/bad.md:8:"},
		{"exits with an error",
			"'''go\n// main.go\npackage main\n\nimport \"os\"\n\nfunc main() {\n\tos.Exit(3)\n}\n'''\n",
			"exit status 3"},
		{"prints something else",
			"'''go\n// main.go\npackage main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(\"b\")\n}\n'''\n'''text\na\n'''\n",
			"bad.md:12: the program prints\nb\n\nbut the page says\na\n"},
		{"prints what the page hides",
			"'''go\n// main.go\npackage main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(\"b\")\n}\n'''\n",
			"the program prints\nb\n\nbut the page says\n"},
		{"has a test that fails",
			"'''go\n// x_test.go\npackage x\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) {\n\tt.Error(\"oh\")\n}\n'''\n",
			"oh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			programs, err := Parse("bad.md", page(c.page))
			require.NoError(t, err)
			err = w.run(t, programs[0], "/bad.md")
			require.ErrorContains(t, err, c.want)
		})
	}
}

// link is a link of a page to a file of the project, which is the page itself if it names none,
// or to a heading in it.
var link = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)

func TestLinksLeadToFilesAndHeadings(t *testing.T) {
	root := projectRoot(t)
	for _, page := range pages(t, root) {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			file, heading := filepath.Join(root, filepath.Dir(page), match[1]), match[2]
			if match[1] == "" {
				file = filepath.Join(root, page)
			}
			_, err := os.Stat(file)
			require.NoError(t, err, "linked to from %s", page)
			if heading != "" {
				require.Contains(t, headings(t, file), heading, "linked to from %s", page)
			}
		}
	}
}

// headings returns the names by which the headings of a page are linked to.
func headings(t *testing.T, page string) (names []string) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		name := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// projectRoot returns the folder of the project's go.mod.
func projectRoot(t *testing.T) string {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "go.mod"))
	return root
}

// pages returns the pages of the project, relative to its root.
func pages(t *testing.T, root string) []string {
	found := []string{}
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, match := range matches {
			page, err := filepath.Rel(root, match)
			require.NoError(t, err)
			found = append(found, page)
		}
	}
	require.Subset(t, found, []string{"README.md", "docs/GUIDE.md"})
	return found
}

func parsePage(t *testing.T, root, page string) []*Program {
	text, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	programs, err := Parse(page, string(text))
	require.NoError(t, err)
	return programs
}

// workspace is a module of its own that requires the project, as a user's does.
type workspace struct{ dir string }

func newWorkspace(t *testing.T, root string) workspace {
	w := workspace{dir: t.TempDir()}
	// The project's own requirements and sums come along, so that nothing has to be
	// looked up anywhere.
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, name), text, 0o644))
	}
	_, err := w.command(t, w.dir, "go", "mod", "edit", "-module=pages",
		"-require="+module+"@v0.0.0", "-replace="+module+"="+root)
	require.NoError(t, err)
	return w
}

// check fails the test if a program of a page is not as the page says.
func (w workspace) check(t *testing.T, p *Program, page string) {
	if err := w.run(t, p, page); err != nil {
		t.Fatal(err)
	}
}

// run compiles a program, runs it and its tests, and compares what it prints.
func (w workspace) run(t *testing.T, p *Program, page string) error {
	dir, err := os.MkdirTemp(w.dir, "program")
	require.NoError(t, err)
	require.NoError(t, p.Write(dir, page))
	if _, err := w.command(t, dir, "go", "vet", "."); err != nil {
		return err
	}
	if p.HasTests() {
		if _, err := w.command(t, dir, "go", "test", "-vet=off", "-count=1", "."); err != nil {
			return err
		}
	}
	if !p.HasMain() {
		return nil
	}
	binary := filepath.Join(t.TempDir(), "program")
	if _, err := w.command(t, dir, "go", "build", "-o", binary, "."); err != nil {
		return err
	}
	printed, err := w.command(t, t.TempDir(), binary)
	if err != nil {
		return err
	}
	return p.compare(page, printed)
}

// compare returns an error if the program was to print something else.
func (p *Program) compare(page, printed string) error {
	want := Block{Line: p.Files[0].Blocks[0].Line}
	if p.Output != nil {
		want = *p.Output
	}
	if printed == want.Text {
		return nil
	}
	return fmt.Errorf("%s:%d: the program prints\n%s\nbut the page says\n%s", page, want.Line, printed, want.Text)
}

// command runs a command and returns what it prints to its standard output. The error
// has everything that it printed.
func (w workspace) command(t *testing.T, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=-mod=mod", "PWD="+dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		command := strings.Join(append([]string{name}, args...), " ")
		return "", fmt.Errorf("%s: %w\n%s%s", command, err, &stdout, &stderr)
	}
	return stdout.String(), nil
}
