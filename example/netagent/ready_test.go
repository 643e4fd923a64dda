// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/hive/shell"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/kernel"
	"github.com/statekeel/statekeel/internal/tests/long"
)

// wishes are what the kernel is to have, or has: by the kind and key of a row, as netagent/status has them.
type wishes map[string]string

// sections are those of a state file.
var sections = []string{"links", "addresses", "routes", "sysctls"}

// draw returns a random state: what it wants, and the texts of three files with it. A part of one state is often in the
// next one, too, as it is or different.
func draw(rng *rand.Rand) (want wishes, files [3]string) {
	want = wishes{}
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	for i := range files {
		lines := map[string]string{}
		add := func(section, text string, args ...any) { lines[section] += "  " + fmt.Sprintf(text, args...) + "\n" }
		if i == 0 {
			ttl := 64 + rng.IntN(3)
			add("sysctls", "net.ipv4.ip_default_ttl: %d", ttl)
			want["sysctl net.ipv4.ip_default_ttl"] = itoa(ttl)
		}
		address := func(dev, cidr string) {
			add("addresses", "- {dev: %s, cidr: %q}", dev, cidr)
			want["address "+dev+"/"+cidr] = "there"
		}
		if chance(85) {
			br, mtu := "br"+itoa(i), 1400+100*rng.IntN(2)
			add("links", "- {name: %s, kind: bridge, mtu: %d}", br, mtu)
			want["link "+br] = fmt.Sprintf("bridge %d up of ", mtu)
			if chance(50) {
				add("links", "- {name: p%d, kind: veth, peer: {name: q%d}, master: %s, mtu: %d}", i, i, br, mtu)
				want["link p"+itoa(i)] = fmt.Sprintf("veth %d up of %s", mtu, br)
				want["link q"+itoa(i)] = fmt.Sprintf("veth %d up of ", mtu)
			}
			// Without the first one, the kernel would remove the others with it.
			hosts := []int{1, 9, 17}
			rng.Shuffle(len(hosts), func(a, b int) { hosts[a], hosts[b] = hosts[b], hosts[a] })
			for _, host := range hosts[:1+rng.IntN(3)] {
				address(br, fmt.Sprintf("10.%d.0.%d/24", i, host))
			}
			if chance(50) {
				address(br, fmt.Sprintf("fd0%d::1/64", i))
			}
			for k := range 4 {
				dst, table, metric := fmt.Sprintf("10.%d.0.0/16", 100+10*i+k), "main", 7*rng.IntN(2)
				if chance(30) {
					table = itoa(100 + i)
				}
				switch {
				case chance(40):
				case chance(50):
					add("routes", "- {dst: %s, dev: %s, table: %s, metric: %d}", dst, br, table, metric)
					want["route "+table+"/"+dst] = fmt.Sprintf("via <nil> dev %s metric %d", br, metric)
				default:
					add("routes", "- {dst: %s, via: 10.%d.0.2, table: %s, metric: %d}", dst, i, table, metric)
					want["route "+table+"/"+dst] = fmt.Sprintf("via 10.%d.0.2 dev %s metric %d", i, br, metric)
				}
			}
			if chance(50) {
				name, value := "net.ipv4.conf."+br+".rp_filter", itoa(1+rng.IntN(2))
				add("sysctls", "%s: %s", name, value)
				want["sysctl "+name] = value
			}
		}
		// A link that is replaced takes its addresses with it.
		if x := "x" + itoa(i); chance(70) {
			if chance(50) {
				add("links", "- {name: %s, kind: bridge}", x)
				want["link "+x] = "bridge 1500 up of "
			} else {
				add("links", "- {name: %s, kind: veth, peer: y%d}", x, i)
				want["link "+x], want["link y"+itoa(i)] = "veth 1500 up of ", "veth 1500 up of "
			}
			address(x, fmt.Sprintf("10.%d.0.1/24", 50+i))
		}
		for _, section := range sections {
			if lines[section] != "" {
				files[i] += section + ":\n" + lines[section]
			}
		}
	}
	return want, files
}

// merged returns one file with what several have.
func merged(files [3]string) (text string) {
	for _, section := range sections {
		var lines string
		for _, file := range files {
			_, after, _ := strings.Cut(file, section+":\n")
			for line := range strings.Lines(after) {
				if !strings.HasPrefix(line, " ") {
					break
				}
				lines += line
			}
		}
		if lines != "" {
			text += section + ":\n" + lines
		}
	}
	return text
}

// late is a state on disk that is not, or not wholly, there when the agent starts.
type late struct {
	*testing.T
	path string
	rng  *rand.Rand
	// missing counts the files that are not whole yet.
	missing atomic.Int32
	steps   []func()
	running sync.WaitGroup
	// refused is closed when the agent has said that it is not ready. waits: the files wait for that.
	refused func()
	waits   <-chan struct{}

	mu sync.Mutex
	// half is the longest time for which a file was half written.
	half time.Duration
}

// lay puts a state, in files or in one that has what all have, where an agent is to find it, now or later.
func lay(t *testing.T, rng *rand.Rand, dir string, files [3]string) *late {
	ctx, refused := context.WithCancel(t.Context())
	l := &late{T: t, path: filepath.Join(dir, "state"), rng: rng, refused: refused, waits: ctx.Done()}
	folder := func(path string) string {
		require.NoError(l, os.MkdirAll(path, 0o755))
		return path
	}
	file := func(i int) string { return itoa(i) + ".yaml" }
	fill := func(path string) string {
		for i, text := range files {
			l.write(filepath.Join(folder(path), file(i)), text)
		}
		return path
	}
	all := merged(files)
	folder(dir)
	switch rng.IntN(7) {
	case 0: // one file
		l.file(l.path, all)
	case 1: // one file, which is not there
		if rng.IntN(2) == 0 {
			l.appear(l.path, all)
		} else {
			l.later(l.halves(l.path, all))
		}
	case 2: // a folder
		for i, text := range files {
			l.file(filepath.Join(folder(l.path), file(i)), text)
		}
	case 3: // a folder that is not there
		l.move(fill(filepath.Join(dir, "made")), l.path)
	case 4: // an empty folder
		l.appear(filepath.Join(folder(l.path), "all.yaml"), all)
	case 5: // a link that leads nowhere
		require.NoError(l, os.Symlink("mounted", l.path))
		l.move(fill(filepath.Join(dir, "made")), filepath.Join(dir, "mounted"))
	case 6: // a folder as Kubernetes mounts it
		fill(filepath.Join(l.path, "..1"))
		for i := range files {
			require.NoError(l, os.Symlink("..data/"+file(i), filepath.Join(l.path, file(i))))
		}
		require.NoError(l, os.Symlink("..1", filepath.Join(l.path, "..made")))
		l.move(filepath.Join(l.path, "..made"), filepath.Join(l.path, "..data"))
	}
	return l
}

// file writes a file that is there when the agent starts: whole, half written, or bad.
func (l *late) file(path, text string) {
	switch l.rng.IntN(3) {
	case 0:
		l.write(path, text)
	case 1:
		first, second := l.halves(path, text)
		first()
		l.later(second)
	case 2:
		l.write(path, "links: [a]\n")
		l.appear(path, text)
	}
}

func (l *late) write(path, text string) {
	require.NoError(l, writeFile(path, cmp.Or(text, "{}\n")))
}

// appear has a file in its place, later.
func (l *late) appear(path, text string) {
	made := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	l.write(made, text)
	l.move(made, path)
}

// move moves a file or a folder, later.
func (l *late) move(from, to string) { l.later(func() { assert.NoError(l, os.Rename(from, to)) }) }

// halves write a file, the first one up to any byte of it.
func (l *late) halves(path, text string) (first, second func()) {
	text = cmp.Or(text, "{}\n")
	cut := 1 + l.rng.IntN(len(text)-1)
	var file *os.File
	var began time.Time
	return func() {
			var err error
			file, err = os.Create(path)
			require.NoError(l, err)
			began = time.Now()
			_, err = file.WriteString(text[:cut])
			assert.NoError(l, err)
		}, func() {
			_, err := file.WriteString(text[cut:])
			assert.NoError(l, errors.Join(err, file.Close()))
			l.mu.Lock()
			defer l.mu.Unlock()
			l.half = max(l.half, time.Since(began))
		}
}

// later has steps taken at random moments while the agent starts, or after it has said that it is not ready. The last one
// completes a file.
func (l *late) later(steps ...func()) {
	waits := l.rng.IntN(4) == 0
	moments := make([]time.Duration, len(steps))
	for i := range moments {
		moments[i] = time.Duration(l.rng.IntN(200)) * time.Millisecond
	}
	l.missing.Add(1)
	l.steps = append(l.steps, func() {
		if waits {
			<-l.waits
		}
		for i, step := range steps {
			time.Sleep(moments[i])
			if i == len(steps)-1 {
				l.missing.Add(-1)
			}
			step()
		}
	})
}

// begin takes the steps, and end waits for them.
func (l *late) begin() {
	for _, step := range l.steps {
		l.running.Go(step)
	}
}

func (l *late) end() {
	l.refused()
	l.running.Wait()
}

// untilReady waits until the agent says that it is ready, and returns its answer.
func (p *process) untilReady(l *late) (answer string) {
	p.Helper()
	p.untilItListens()
	p.until("it is ready", func() bool {
		var out strings.Builder
		if err := shell.ShellExchange(shell.Config{ShellSockPath: p.shell}, &out, "netagent/ready"); err != nil {
			l.refused()
		}
		answer = out.String()
		return strings.HasPrefix(answer, "ready\n")
	})
	return answer
}

// look returns what a namespace has of what agents make, and the settings that are wanted.
func (want wishes) look(t *testing.T, namespace string) (has wishes) {
	within(t, namespace, func() (err error) {
		for range 10 {
			has = wishes{}
			if err = has.dump(want); !errors.Is(err, netlink.ErrDumpInterrupted) {
				break
			}
		}
		return err
	})
	return has
}

func (has wishes) dump(want wishes) error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	const filter = netlink.RT_FILTER_PROTOCOL | netlink.RT_FILTER_TABLE // of any table
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: kernel.Protocol}, filter)
	if err != nil {
		return err
	}
	names := map[int]string{}
	for _, link := range links {
		names[link.Attrs().Index] = link.Attrs().Name
	}
	for _, link := range links {
		if attrs := link.Attrs(); link.Type() == "bridge" || link.Type() == "veth" {
			flags := attrs.Flags & net.FlagUp
			has["link "+attrs.Name] = fmt.Sprintf("%s %d %s of %s", link.Type(), attrs.MTU, flags, names[attrs.MasterIndex])
		}
	}
	for _, address := range addresses {
		if !address.IP.IsLinkLocalUnicast() {
			has["address "+names[address.LinkIndex]+"/"+address.IPNet.String()] += "there"
		}
	}
	for _, route := range routes {
		table := strings.Replace(itoa(route.Table), itoa(unix.RT_TABLE_MAIN), "main", 1)
		has["route "+table+"/"+route.Dst.String()] += fmt.Sprintf("via %s dev %s metric %d", route.Gw, names[route.LinkIndex], route.Priority)
	}
	for key := range want {
		if name, is := strings.CutPrefix(key, "sysctl "); is {
			value, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
			if err != nil && !os.IsNotExist(err) {
				return err
			}
			has[key] = strings.TrimSpace(string(value))
		}
	}
	return nil
}

// differ returns what a namespace has other than it is wanted, except what an answer names as not applied.
func (want wishes) differ(has wishes, answer string) (all []string) {
	keys := maps.Clone(has)
	maps.Copy(keys, want)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if want[key] != has[key] && (want[key] == "" || !strings.Contains(answer, "\n"+key+": ")) {
			all = append(all, fmt.Sprintf("%s: wanted %q, the kernel has %q", key, want[key], has[key]))
		}
	}
	return all
}

// meddle changes something while no agent runs.
func meddle(t *testing.T, namespace string, rng *rand.Rand) {
	within(t, namespace, func() error {
		all, err := netlink.LinkList()
		links := slices.DeleteFunc(all, func(link netlink.Link) bool { return link.Type() != "bridge" && link.Type() != "veth" })
		if err != nil || len(links) == 0 {
			return err
		}
		link := links[rng.IntN(len(links))]
		stray := route("10.98.0.0/24")
		// What cannot be done is left out, such as a route by a link that is down.
		switch rng.IntN(6) {
		case 0:
			_ = netlink.LinkDel(link)
		case 1:
			_ = netlink.LinkSetDown(link)
		case 2:
			_ = netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 98, 0, 1), Mask: stray.Mask}})
			_ = netlink.RouteAdd(&netlink.Route{Dst: route("10.97.0.0/16"), LinkIndex: link.Attrs().Index, Protocol: kernel.Protocol})
		case 3:
			link = &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "stray"}}
			_ = errors.Join(netlink.LinkAdd(link), netlink.LinkSetUp(link), netlink.AddrAdd(link, &netlink.Addr{IPNet: stray}))
		}
		return nil
	})
}

// The agent is killed, at any moment, and starts with another state whose files come late. When it says that it is ready,
// the kernel has what it says, and nothing that an earlier run has left.
func TestReadyIsNeverEarly(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng, namespace, dir := rand.New(rand.NewPCG(seed, 0)), newNamespace(t), shortDir(t)
	kills, ready, early, unapplied, excused := long.Times(20), 0, 0, 0, 0
	began, waited := time.Now(), time.Duration(0)
	for i := range kills {
		want, files := draw(rng)
		l := lay(t, rng, filepath.Join(dir, itoa(i)), files)
		cmd := netagent(t, "-state", l.path, "-shell", filepath.Join(dir, "s"), never)
		cmd.Env = append(cmd.Env, asVariable+"="+asInside)
		p := startIn(t, namespace, cmd)
		l.begin()
		if since := time.Now(); rng.IntN(5) == 0 {
			time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
		} else {
			answer, answered := p.untilReady(l), time.Now()
			missing := l.missing.Load()
			wrong := want.differ(want.look(t, namespace), answer)
			ready, waited = ready+1, waited+time.Since(since)
			unapplied += len(regexp.MustCompile(`: (Blocked|Error|Pending)`).FindAllString(answer, -1))
			if missing > 0 {
				wrong = append(wrong, fmt.Sprintf("%d files are not whole", missing))
			}
			if all := fmt.Sprintf("ok, %d objects are Done", len(want)); strings.Contains(answer, "\nok, ") && !strings.Contains(answer, all) {
				wrong = append(wrong, all)
			}
			for _, pending := range regexp.MustCompile(`(?m)^(\S+) (\S+): Pending`).FindAllStringSubmatch(answer, -1) {
				// It has failed, and was written again since.
				table := map[string]string{"link": "links", "address": "addresses", "route": "routes", "sysctl": "sysctls"}[pending[1]]
				if tried := p.explain(table, pending[2]).Operations; len(tried) == 0 || tried[0].Started.After(answered) {
					wrong = append(wrong, pending[0]+": it was not attempted")
				}
			}
			l.end()
			switch {
			case len(wrong) == 0:
			case l.half >= 2*time.Second:
				excused++ // package files: what was open at the start counts when it is unchanged for so long
			default:
				early++
				t.Errorf("start %d of %s: early:\n%s\nthe answer: %s\nits log: %s", i, l.path, strings.Join(wrong, "\n"), answer, p.stderr)
			}
			if rng.IntN(3) == 0 {
				p.until("the kernel has all", func() bool { return len(want.differ(want.look(t, namespace), "")) == 0 })
			}
		}
		require.Equal(t, -1, p.stop(syscall.SIGKILL))
		l.end()
		meddle(t, namespace, rng)
		if early == 5 {
			break
		}
	}
	t.Logf("%d kills in %v: ready %d times, after %v on average, %d objects were not applied then, %d early answers, %d half files of over 2 s",
		kills, time.Since(began).Round(time.Second), ready, waited/time.Duration(max(1, ready)), unapplied, early, excused)
}
