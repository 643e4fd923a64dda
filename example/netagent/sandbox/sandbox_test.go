// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// asVariable selects what this binary does instead of its tests.
const asVariable = "SANDBOX_TEST_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(asVariable) {
	case "outside":
		code, err := Run([]string{"argument"}, os.Stdin)
		fmt.Println("ended with", code, err)
		os.Exit(0)
	case "":
		goleak.VerifyTestMain(m)
		return
	}
	panic("unknown task")
}

func init() {
	// The inner process inherits the task of the outer one.
	if inside, err := Inside(); err != nil || inside {
		os.Exit(tellAboutInside(err))
	}
}

func tellAboutInside(err error) int {
	if err != nil {
		fmt.Println(err)
		return 1
	}
	uids, _ := os.ReadFile("/proc/self/uid_map")
	var stat syscall.Stat_t
	statErr := syscall.Fstat(3, &stat)
	again, againErr := Inside()
	fmt.Println("inside with", os.Args[1:], "as", os.Getuid(), "map", strings.Fields(string(uids)), "file", statErr, "again", again, againErr)
	if os.Getenv("SANDBOX_TEST_SIGNAL") != "" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return 42
}

func runOutside(t *testing.T, environment ...string) string {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), asVariable+"=outside"), environment...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestProgramRunsAsRootOfItsOwnNamespaces(t *testing.T) {
	assert.Equal(t, fmt.Sprintf(
		"inside with [argument] as 0 map [0 %d 1] file <nil> again false <nil>\nended with 42 <nil>\n", os.Getuid()),
		runOutside(t))
}

func TestExitCodeNamesTheSignal(t *testing.T) {
	assert.Contains(t, runOutside(t, "SANDBOX_TEST_SIGNAL=1"), "ended with 137 <nil>\n")
}

func TestOnlyNewNamespacesAreInside(t *testing.T) {
	here := namespaces{"user:[2]", "net:[2]"}
	assert.NoError(t, checkNew(here, "user:[1] net:[1]"))
	assert.Error(t, checkNew(here, "user:[2] net:[1]"))
	assert.Error(t, checkNew(here, "user:[1] net:[2]"))
	assert.Error(t, checkNew(namespaces{initialUser, "net:[2]"}, "user:[1] net:[1]"), "the namespace of the host is never new")
	assert.Error(t, checkNew(here, "user:[1]"))
}

func TestErrorsOfTheSystemAreExplained(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		sysctls map[string]string
		want    string
	}{
		"no user namespaces": {
			syscall.ENOSPC, map[string]string{"user.max_user_namespaces": "0", "user.max_net_namespaces": "100"},
			"the system forbids user and network namespaces: no space left on device\nuser.max_user_namespaces is 0: enable them by\n    sudo sysctl -w user.max_user_namespaces=10000",
		},
		"no network namespaces": {
			syscall.ENOSPC, map[string]string{"user.max_net_namespaces": "0"},
			"the system forbids user and network namespaces: no space left on device\nuser.max_net_namespaces is 0: enable them by\n    sudo sysctl -w user.max_net_namespaces=10000",
		},
		"Debian": {
			syscall.EPERM, map[string]string{"kernel.unprivileged_userns_clone": "0"},
			"the system forbids user and network namespaces: operation not permitted\nkernel.unprivileged_userns_clone is 0: enable them by\n    sudo sysctl -w kernel.unprivileged_userns_clone=1",
		},
		"Ubuntu": {
			syscall.EACCES, map[string]string{"kernel.apparmor_restrict_unprivileged_userns": "1", "kernel.unprivileged_userns_clone": "1"},
			"the system forbids user and network namespaces: permission denied\nkernel.apparmor_restrict_unprivileged_userns is 1: enable them by\n    sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
		},
		"a container": {
			syscall.EPERM, nil,
			"the system forbids user and network namespaces: operation not permitted\nno setting of the kernel says why; if this is a container, its seccomp or AppArmor profile does not let it:\nstart it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined; in a chroot it cannot work",
		},
		"an old kernel": {
			syscall.EINVAL, nil,
			"the system forbids user and network namespaces: invalid argument\nthis kernel was built without CONFIG_USER_NS or CONFIG_NET_NS: another one is needed",
		},
	} {
		err := explain(fmt.Errorf("%w", test.err), func(name string) string { return test.sysctls[name] })
		assert.EqualError(t, err, test.want, name)
		assert.ErrorIs(t, err, ErrForbidden, name)
		assert.ErrorIs(t, err, test.err, name)
	}
	err := explain(errors.New("boom"), func(string) string { return "" })
	assert.EqualError(t, err, "start in namespaces of its own: boom")
	assert.NotErrorIs(t, err, ErrForbidden)
}
