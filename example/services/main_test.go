// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/statekeel/statekeel/example/netagent/sandbox"
	"github.com/statekeel/statekeel/example/services/input"
	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/internal/tests/testlog"
)

// asProgram is the variable that makes this test binary be the program.
const asProgram = "SERVICES_TEST_AS_PROGRAM"

// TestMain runs the tests in namespaces of their own, so that they need no root and do not change the host. They
// fail where the system forbids that.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	inside, err := sandbox.Inside()
	if err == nil && !inside {
		var code int
		if code, err = sandbox.Run(os.Args[1:]); err == nil {
			os.Exit(code)
		}
	}
	lo, loErr := netlink.LinkByName("lo")
	if err == nil {
		err = loErr
	}
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what takes milliseconds on an idle machine.
const patience = 3 * time.Minute

// until waits for what another process does.
func until(t *testing.T, what func() string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "timed out:\n%s", what())
	}
}

// shortDir returns a directory with a short name: the path of a socket is limited.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "s")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// call calls a command of the program, and returns its exit code and output.
func call(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// running starts a program in the namespace of the tests, until the test ends. It returns the path of its shell and its
// URL.
func running(t *testing.T, in input.Input) (shell, url string) {
	o := options{shell: filepath.Join(shortDir(t), "d", "s"), http: "127.0.0.1:0", table: "test"}
	listener, err := o.listen()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- program{Input: in, Table: o.table, Listener: listener, Shell: o.shell, Log: o.log()}.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return o.shell, "http://" + listener.Addr().String()
}

const conflicting = `services:
  - {name: default/web:http, address: tcp/10.96.0.1:80, created: 2026-01-31T12:00:00Z, endpoints: [10.2.0.11:8080], unready: [10.2.0.12:8080]}
  - {name: default/shop:http, address: tcp/10.96.0.1:80, created: 2026-02-28T12:00:00Z, endpoints: [10.2.0.13:8080]}
  - {name: default/dns:dns, address: udp/10.96.0.53:53}
`

func TestStatusAndWhy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "services.yaml")
	require.NoError(t, os.WriteFile(file, []byte(conflicting), 0o644))
	shell, url := running(t, input.File(file))
	var status string
	until(t, func() string { return status }, func() bool {
		code, out, errs := call("status", "-shell", shell)
		status = out + errs
		inForce := func(name string) bool {
			_, why, _ := call("why", "-shell", shell, name)
			return strings.Contains(why, "in force   since")
		}
		return code == 0 && strings.Contains(out, "all 2 rows applied") && strings.Contains(out, "health  ok") &&
			inForce("default/web:http") && inForce("default/dns:dns") && inForce("endpoint-slices/default/web:http/8080")
	})
	for _, line := range []string{
		`derive-frontends +services +3 +0 .*`, `services/frontends +frontends +2 +0 .*`, `services/file +3 +0 .*`, `endpoint-slices/file +2 +0 .*`, `health +ok`,
	} {
		assert.Regexp(t, regexp.MustCompile("(?m)^"+line+"$"), status)
	}

	for name, wants := range map[string][]string{
		"default/shop:http": {
			"default/shop:http of derive-frontends", `tcp/10.96.0.1:80 of table "frontends": it loses to default/web:http`, "2026-01-31T12:00:00Z",
		},
		"default/web:http":                      {"it wins over 1 other(s), the next is default/shop:http", "in force   since"},
		"tcp/10.96.0.1:80":                      {"the winner is default/web:http", "loser: default/shop:http", "tcp/10.96.0.1:80 of services/frontends", "done: it is in the target"},
		"default/dns:dns":                       {"udp/10.96.0.53:53", "0 row(s) now", "in force   since"},
		"tcp/10.96.0.9:80":                      {"no row derives one", "absent: not in the table"},
		"endpoint-slices/default/web:http/8080": {`it depends: default/web:http of table "services"`, "in force   since"},
		"it's nothing":                          {"it's nothing of derive-frontends", "no row derives one"},
	} {
		code, out, errs := call("why", "-shell", shell, name)
		assert.Zero(t, code, "%s: %s", name, errs)
		for _, want := range wants {
			assert.Contains(t, out, want, name)
		}
		assert.Equal(t, name == "default/shop:http", strings.Contains(out, "it loses to"), name)
	}
	code, out, _ := call("shell", "-shell", shell, "db/show", "frontends")
	assert.Zero(t, code)
	assert.Contains(t, out, "10.2.0.11:8080")

	for path, want := range map[string]string{
		"/readyz": "ready\n", "/": "services/frontends", "/metrics": `statekeel_input_connected{input="file",table="services"} 1`,
	} {
		answer, err := http.Get(url + path)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Contains(t, string(body), want, path)
	}
	http.DefaultClient.CloseIdleConnections()

	// The two are as old now: the name decides.
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(conflicting, "2026-02-28", "2026-01-31")), 0o644))
	until(t, func() string { return status }, func() bool {
		_, status, _ = call("why", "-shell", shell, "default/web:http")
		return strings.Contains(status, `tcp/10.96.0.1:80 of table "frontends": it loses to default/shop:http`)
	})

	require.NoError(t, os.WriteFile(file, []byte("services: 3\n"), 0o644))
	until(t, func() string { return status }, func() bool {
		_, status, _ = call("status", "-shell", shell)
		return strings.Contains(status, file+":1: cannot unmarshal") && !strings.Contains(status, "health  ok")
	})
	assert.Regexp(t, `services/file +3`, status)
}

func TestServicesThatWereNotReadYetAreNotNone(t *testing.T) {
	shell, url := running(t, input.File(filepath.Join(t.TempDir(), "none")))
	var status string
	until(t, func() string { return status }, func() bool {
		code, out, _ := call("status", "-shell", shell)
		status = out
		return code == 0
	})
	assert.Regexp(t, `services/frontends +frontends +0 .*table not initialised`, status)
	assert.Regexp(t, `derive-frontends +services +0 .*table not initialised`, status)
	assert.Regexp(t, `services/file +0 .*not connected`, status)
	var why string
	until(t, func() string { return why }, func() bool {
		code, out, _ := call("why", "-shell", shell, "tcp/10.96.0.1:80")
		why = out
		return code == 0
	})
	assert.Contains(t, why, "the table is not initialised")
	code, why, errs := call("why", "-shell", shell, "default/web:http")
	assert.Zero(t, code, errs)
	assert.Contains(t, why, "not started")
	answer, err := http.Get(url + "/readyz")
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	assert.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	assert.Contains(t, string(body), "not ready: ", "%s", body)
}

// An earlier run has left services in the kernel: they stay until the file is good.
func TestBadFileAtTheStartLeavesTheKernelAsItIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "services.yaml")
	table, err := kernel.Open("test")
	require.NoError(t, err)
	defer func() { require.NoError(t, table.Close()) }()
	// during starts the program, waits until the kernel has n services and the status has all of the texts, and ends it.
	during := func(name, text string, n int, wants ...string) {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
			shell, _ := running(t, input.File(file))
			var status string
			until(t, func() string { return status }, func() bool {
				_, status, _ = call("status", "-shell", shell)
				l, err := table.List()
				require.NoError(t, err)
				return len(l.Counts) == n && !slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(status, want) })
			})
		})
	}
	during("good", conflicting, 2, "all 2 rows applied")
	bad := strings.ReplaceAll(conflicting, "udp/10.96.0.53:53", "udp/10.96.0.53")
	during("bad", bad, 2, file+`:4:38: "udp/10.96.0.53": not an ip:port`, "table not initialised")
	during("good again", "services: []", 0, "all 0 rows applied", "health  ok")
}

// internal/tests/kubernetes runs it as the manifest says.
func TestManifestIsStrictAndFitsToTheProgram(t *testing.T) {
	text, err := os.ReadFile("daemonset.yaml")
	require.NoError(t, err)
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	kinds := map[string]runtime.Object{}
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		o, kind, err := strict.Decode([]byte(part), nil, nil)
		require.NoError(t, err, part)
		kinds[kind.Kind] = o
	}
	require.Len(t, kinds, 4)
	assert.Equal(t, []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}},
	}, kinds["ClusterRole"].(*rbacv1.ClusterRole).Rules)
	set := kinds["DaemonSet"].(*appsv1.DaemonSet)
	account := kinds["ServiceAccount"].(*corev1.ServiceAccount)
	assert.Equal(t, account.Namespace, set.Namespace)
	assert.Equal(t, account.Name, set.Spec.Template.Spec.ServiceAccountName)
	assert.True(t, set.Spec.Template.Spec.HostNetwork)
	container := set.Spec.Template.Spec.Containers[0]
	probe := container.ReadinessProbe.HTTPGet
	assert.Contains(t, container.Args, fmt.Sprintf("-http=%s:%s", probe.Host, probe.Port.String()))
	code, _, stderr := call(container.Args...)
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "services run: -cluster: unable to load in-cluster configuration", "it takes the flags, and asks for the pod's account")
}

func TestBadArgumentsAreErrors(t *testing.T) {
	dir := shortDir(t)
	file := filepath.Join(dir, "services.yaml")
	require.NoError(t, os.WriteFile(file, []byte("services: []"), 0o644))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	for arguments, want := range map[string]string{
		"run x":                                     "services run: wrong arguments: x; after the flags, want none",
		"why":                                       "services why: wrong arguments: none; after the flags, want NAME",
		"why default/web:http -shell s":             "services why: wrong arguments: default/web:http -shell s; after the flags, want NAME",
		"run -generate 1x1 -file f":                 "services run: wrong arguments: -file and -generate exclude each other",
		"run -generate 1x1 -table=":                 `services run: wrong arguments: -table is "", must be a letter, then letters, digits and _.-`,
		"run -generate 1x1 -table=1/x":              `services run: wrong arguments: -table is "1/x", must be a letter, then letters, digits and _.-`,
		"run -table " + strings.Repeat("x", 256):    `services run: wrong arguments: -table is "` + strings.Repeat("x", 256),
		"run -generate 5":                           `services run: wrong arguments: -generate: "5" is not of the form 10000x10`,
		"run -churn 5":                              "services run: wrong arguments: -churn is for -generate",
		"run -kubeconfig f -cluster https://a":      "services run: wrong arguments: -cluster and -kubeconfig exclude each other",
		"run -cluster":                              "services run: wrong arguments: flag needs an argument: -cluster",
		"run -cluster=":                             `services run: wrong arguments: -cluster is "", must be a URL such as`,
		"run -cluster a:1":                          `services run: wrong arguments: -cluster is "a:1", must be a URL such as`,
		"run -kubeconfig=":                          "services run: wrong arguments: -kubeconfig names no file",
		"run -kubeconfig none":                      "services run: -kubeconfig: stat none: no such file or directory",
		"run -cluster https://a":                    "services run: -cluster: unable to load in-cluster configuration",
		"run -generate 1x1 -resync -1s":             "services run: wrong arguments: -resync is -1s, must not be negative",
		"run -generate 1x1 -shell= -http 0.0.0.0:1": `services run: wrong arguments: -http is "0.0.0.0:1", must be a loopback address`,
		"run -generate 1x1 -shell= -http " + listener.Addr().String(): "(choose another by -http)",
		"demo -file " + dir + "/none":                                 "no such file",
		"demo -every -1s":                                             "services demo: wrong arguments: -every is -1s, must not be negative",
		"status -shell " + dir + "/none":                              "services status: no services run:",
		"status -shell " + dir + "/none/s":                            "services status: no services run:",
	} {
		code, _, stderr := call(strings.Fields(arguments)...)
		wantCode := 1
		if strings.Contains(want, "wrong arguments") {
			wantCode = 2
		}
		assert.Equal(t, wantCode, code, arguments)
		assert.Contains(t, stderr, want, arguments)
	}
	for _, arguments := range [][]string{nil, {"nonsense"}} {
		code, _, stderr := call(arguments...)
		assert.Equal(t, 2, code)
		assert.Equal(t, usage, stderr)
	}
	code, _, stderr := call("demo", "-h")
	assert.Zero(t, code)
	assert.Contains(t, stderr, "-every")
}

func TestWithoutRootTheErrorSaysWhatToDo(t *testing.T) {
	var out bytes.Buffer
	cmd := exec.Command("/proc/self/exe", "run", "-generate", "1x1", "-http", "", "-shell", "")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr = &out, &out
	// A user namespace below that of the tests has no rights in their network namespace.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
	}
	assert.Error(t, cmd.Run())
	assert.Contains(t, out.String(), "operation not permitted; run it as root, or try: services demo\n")
}

// demoOf starts a demo as a process of its own.
func demoOf(t *testing.T, args ...string) (cmd *exec.Cmd, out *testlog.Buffer, shell, temporary string) {
	shell, temporary = filepath.Join(shortDir(t), "d", "s"), t.TempDir()
	out = &testlog.Buffer{}
	cmd = exec.Command("/proc/self/exe", append([]string{"demo", "-shell", shell, "-http", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+temporary)
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil { // the test has failed
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd, out, shell, temporary
}

func TestDemoShowsEndpointsThatComeAndGo(t *testing.T) {
	cmd, out, shell, temporary := demoOf(t, "-every", "2s")
	seen := func(pattern string) func() bool {
		return func() bool { return regexp.MustCompile(pattern).MatchString(out.String()) }
	}
	answers := func(service, machines string) string { return service + ` +\S+ +` + machines + `\n` }
	for _, pattern := range []string{
		answers("web:http", `10\.2\.0\.11 \d+x, 10\.2\.0\.12 \d+x, 10\.2\.0\.13 \d+x`),
		answers("dns:dns", `10\.2\.0\.14 \d+x`),
		answers("db:sql", `10\.2\.0\.16 \d+x`),
		`12 is not ready any more[^$]*` + answers("web:http", `10\.2\.0\.11 \d+x, 10\.2\.0\.13 \d+x`),
		`12 is ready again[^$]*` + answers("web:http", `10\.2\.0\.11 \d+x, 10\.2\.0\.12 \d+x, 10\.2\.0\.13 \d+x`),
		`replaces 10\.2\.0\.14[^$]*` + answers("dns:dns", `10\.2\.0\.15 \d+x`),
		`the only endpoint of db[^$]*` + answers("db:sql", `rejected \d+x`),
		`it is ready again[^$]*` + answers("db:sql", `10\.2\.0\.16 \d+x`),
	} {
		until(t, func() string { return pattern + "\n" + out.String() }, seen(pattern))
	}
	var why string
	until(t, func() string { return out.String() + why }, func() bool {
		_, why, _ = call("why", "-shell", shell, "default/shop:http")
		return strings.Contains(why, `tcp/10.96.0.1:80 of table "frontends": it loses to default/web:http`)
	})

	address := regexp.MustCompile(`http://\S+`).FindString(out.String())
	answer, err := http.Get(address + "/metrics")
	require.NoError(t, err, "the page can be reached from where the demo was started")
	require.NoError(t, answer.Body.Close())
	http.DefaultClient.CloseIdleConnections()

	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	assert.NoError(t, cmd.Wait(), "%s", out)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left, "the copy of the file is removed")
	assert.NotContains(t, out.String(), "level=", "nothing was to be logged")
}

func TestDemoFollowsItsFileAndEndsAtOnce(t *testing.T) {
	text, err := os.ReadFile("services.yaml")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "services.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o644))
	cmd, out, _, _ := demoOf(t, "-every", "0", "-file", file)
	line := regexp.MustCompile(`db:sql +\S+ +10\.2\.0\.16 \d+x\n`)
	until(t, out.String, func() bool { return line.MatchString(out.String()) })
	require.NoError(t, os.WriteFile(file, bytes.ReplaceAll(text, []byte("10.2.0.16"), []byte("10.2.0.20")), 0o644))
	line = regexp.MustCompile(`db:sql +\S+ +10\.2\.0\.20 \d+x\n`)
	until(t, out.String, func() bool { return line.MatchString(out.String()) })
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.NoError(t, cmd.Wait(), "%s", out)
}
