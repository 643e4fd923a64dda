// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package servicestest

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/statekeel/statekeel/example/services/nettest"
	"github.com/statekeel/statekeel/internal/tests/kubernetes/apiserver"
	"github.com/statekeel/statekeel/internal/tests/testlog"
)

// programs is the variable with the path of the program services. It is set when that and the API server have been built:
// in the namespaces of the tests there is no network, from which modules may come.
const programs = "SERVICESTEST_PROGRAM"

func TestMain(m *testing.M) {
	if built := os.Getenv(programs) != ""; built && os.Getenv(kubeProxy) != "" {
		os.Exit(m.Run()) // nft needs larger buffers for kube-proxy than root of a namespace may have
	} else if built {
		nettest.Main(m)
		return
	}
	dir, err := os.MkdirTemp("", "servicestest")
	if err == nil {
		err = build(filepath.Join(dir, "services"))
	}
	if err == nil {
		cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
		cmd.Env = append(os.Environ(), programs+"="+filepath.Join(dir, "services"))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err = cmd.Run()
	}
	_ = os.RemoveAll(dir)
	if err != nil {
		log.Fatal(err)
	}
}

func build(program string) error {
	// Without debug information it is linked in a third of the time.
	cmd := exec.Command("go", "build", "-ldflags=-w", "-o", program)
	cmd.Dir = "../../../../example/services"
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return apiserver.Build("../server")
}

// manifest is the one of example/services, applied to an API server.
type manifest struct {
	container corev1.Container
	token     string
}

// apply applies the manifest, and returns it with a token of its service account.
func apply(t testing.TB, s *apiserver.Server) (m manifest) {
	text, err := os.ReadFile("../../../../example/services/daemonset.yaml")
	require.NoError(t, err)
	client, ctx := s.Client(t), t.Context()
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		read, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(part), nil, nil)
		require.NoError(t, err, part)
		switch o := read.(type) {
		case *corev1.ServiceAccount:
			_, err = client.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
			require.NoError(t, err)
			answer, err := client.CoreV1().ServiceAccounts(o.Namespace).CreateToken(ctx, o.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			require.NoError(t, err)
			m.token = answer.Status.Token
		case *rbacv1.ClusterRole:
			_, err = client.RbacV1().ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRoleBinding:
			_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
		case *appsv1.DaemonSet:
			_, err = client.AppsV1().DaemonSets(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
			m.container = o.Spec.Template.Spec.Containers[0]
		default:
			require.Fail(t, "another kind", "%T", o)
		}
		require.NoError(t, err)
	}
	require.NotEmpty(t, m.token)
	return m
}

// agent is the container of a manifest on a node.
type agent struct {
	testing.TB
	manifest
	server *apiserver.Server
	node   *nettest.Place
	// dir has what the container has in /tmp, and what is mounted for its service account.
	dir    string
	cmd    *exec.Cmd
	output testlog.Buffer
	probe  *http.Client
}

func newAgent(t testing.TB, s *apiserver.Server, node *nettest.Place) *agent {
	// The path of the socket has a limit.
	dir, err := os.MkdirTemp("", "s")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	a := &agent{TB: t, manifest: apply(t, s), server: s, node: node, dir: dir}
	authority, err := os.ReadFile(s.Path("certificates/apiserver.crt"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "account"), 0o700))
	for name, data := range map[string]string{"token": a.token, "ca.crt": string(authority)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "account", name), []byte(data), 0o600))
	}
	a.probe = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			err = node.Try(func() (err error) {
				conn, err = new(net.Dialer).DialContext(ctx, network, address)
				return err
			})
			return conn, err
		},
	}}
	a.start()
	t.Cleanup(a.kill)
	return a
}

// start starts the program with the arguments of the manifest. Only the address of the API server is another one.
func (a *agent) start() {
	var args []string
	for _, arg := range a.container.Args {
		if strings.HasPrefix(arg, "-cluster=") {
			arg = fmt.Sprint("-cluster=https://127.0.0.1:", a.server.Port)
		}
		args = append(args, arg)
	}
	require.Contains(a, args, fmt.Sprint("-cluster=https://127.0.0.1:", a.server.Port))
	const account = "/var/run/secrets/kubernetes.io/serviceaccount"
	script := fmt.Sprintf(`mount -t tmpfs none /var/run && mkdir -p %s && mount --bind %s/account %s && exec "$0" "$@"`, account, a.dir, account)
	a.cmd = exec.Command("unshare", append([]string{"-m", "sh", "-ec", script, os.Getenv(programs)}, args...)...)
	a.cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443", "TMPDIR="+a.dir, "XDG_RUNTIME_DIR=")
	a.cmd.Stdout, a.cmd.Stderr = &a.output, &a.output
	a.node.Do(a.cmd.Start)
}

// kill kills the program in the middle of whatever it does.
func (a *agent) kill() {
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait() // it was killed
}

// isReady reports whether the probe of the manifest succeeds.
func (a *agent) isReady() bool {
	get := a.container.ReadinessProbe.HTTPGet
	answer, err := a.probe.Get(fmt.Sprintf("http://%s:%s%s", get.Host, get.Port.String(), get.Path))
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

func (a *agent) ready() {
	a.Helper()
	eventually(a, a.isReady, func() string { return "not ready: " + a.output.String() })
}

// status returns what the command of the program says.
func (a *agent) status() string {
	cmd := exec.Command(os.Getenv(programs), "status")
	cmd.Env = append(os.Environ(), "TMPDIR="+a.dir, "XDG_RUNTIME_DIR=")
	said, _ := cmd.CombinedOutput()
	return string(said)
}

// eventually waits for a state.
func eventually(t testing.TB, is func() bool, why func() string) {
	t.Helper()
	for deadline := time.Now().Add(6 * time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(why())
		}
	}
}
