// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

// Services makes the kernel of a node send the clients of services to their endpoints, as kube-proxy does: an example
// of Statekeel's reconcilers at a real size. The README shows what to try.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/hive/shell"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/services/input"
	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/reconciler/commands"
)

func main() {
	// A terminal sends its signals to both processes of the demo, and the outer one passes on those that it gets: the
	// second one must not kill the inner one while it handles the first.
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

const usage = `services makes the kernel send the clients of services to their endpoints.

  services demo [flags]       in namespaces of its own, with a client and endpoints; needs no root
  services run [flags]        on this node; needs root

and, while one of them runs, in another terminal:

  services status             how far the kernel is
  services why NAME           what became of a service, such as default/web, of a slice, such as
                              endpoint-slices/default/web-x7f2q, or of an address, such as tcp/10.96.0.1:80
  services shell COMMAND...   run a command of its shell, such as help; without a command, a prompt

-h after a command lists its flags.
`

// errUsage is returned for wrong arguments.
var errUsage = errors.New("wrong arguments")

// run runs a command, and returns the exit code: 1 for a failure, 2 for wrong arguments.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	verbs := map[string]func(context.Context, *flag.FlagSet, []string, io.Writer) error{
		"run": runProxy, "demo": runDemo, "status": runStatus, "why": runWhy, "shell": runShell,
	}
	if len(args) == 0 || verbs[args[0]] == nil {
		fmt.Fprint(stderr, usage)
		return 2
	}
	flags := flag.NewFlagSet("services "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	err := verbs[args[0]](ctx, flags, args[1:], stdout)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(stderr, "services %s: %v\n", args[0], err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

// parse parses flags, and rejects another number of arguments after them than names.
func parse(flags *flag.FlagSet, args []string, names ...string) error {
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errUsage, err)
	case flags.NArg() != len(names):
		return fmt.Errorf("%w: %s; after the flags, want %s", errUsage,
			cmp.Or(strings.Join(flags.Args(), " "), "none"), cmp.Or(strings.Join(names, " "), "none"))
	}
	return nil
}

// shellName is the name in the shell's prompt and in its socket's path.
const shellName = "services"

// options are those flags that run and demo share.
type options struct {
	resync  time.Duration
	http    string
	shell   string
	table   string
	verbose bool
}

func (o *options) add(flags *flag.FlagSet) {
	flags.DurationVar(&o.resync, "resync", 10*time.Minute,
		"how often to compare the kernel with what is wanted; 0 means only at the start")
	flags.StringVar(&o.http, "http", "127.0.0.1:7090",
		"loopback `address` of the page and the metrics; port 0 is a free one, \"\" is none")
	flags.StringVar(&o.table, "table", "services", "the `name` of the table of nftables")
	flags.BoolVar(&o.verbose, "v", false, "also log what goes well")
	o.addShell(flags)
}

func (o *options) addShell(flags *flag.FlagSet) {
	flags.StringVar(&o.shell, "shell", commands.SocketPath(shellName), "`path` of the socket for services shell; \"\" is none")
}

// tableForm is what nft takes for a name, and the kernel as one of a table.
var tableForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,254}$`)

// listen checks the options, opens the listener for HTTP, which is nil if there is none, and prepares the directory of the
// shell.
func (o *options) listen() (listener net.Listener, err error) {
	if !tableForm.MatchString(o.table) {
		return nil, fmt.Errorf("%w: -table is %q, must be a letter, then letters, digits and _.-, at most 255 in all",
			errUsage, o.table)
	}
	if o.resync < 0 {
		return nil, fmt.Errorf("%w: -resync is %s, must not be negative", errUsage, o.resync)
	}
	if o.shell != "" {
		if err := commands.PrepareSocket(o.shell); err != nil {
			return nil, fmt.Errorf("%w (choose another by -shell)", err)
		}
	}
	if o.http == "" {
		return nil, nil
	}
	// The page has no login, and its buttons act.
	if at, err := netip.ParseAddrPort(o.http); err != nil || !at.Addr().IsLoopback() {
		return nil, fmt.Errorf("%w: -http is %q, must be a loopback address and a port", errUsage, o.http)
	}
	if listener, err = net.Listen("tcp", o.http); err != nil {
		return nil, fmt.Errorf("%w (choose another by -http)", err)
	}
	return listener, nil
}

func runProxy(ctx context.Context, flags *flag.FlagSet, args []string, stdout io.Writer) error {
	var o options
	var from inputs
	from.add(flags)
	o.add(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	in, err := from.open(flags)
	if err != nil {
		return err
	}
	unix.Umask(0o077) // for the shell's socket; its directory is private already
	listener, err := o.listen()
	if err != nil {
		return err
	}
	if listener != nil {
		fmt.Fprintf(stdout, "http://%s has a page and metrics\n", listener.Addr())
	}
	p := program{Input: in, Table: o.table, Resync: o.resync, Listener: listener, Shell: o.shell, Log: o.log()}
	return p.run(ctx)
}

// inputs are the flags that say where services come from.
type inputs struct {
	file, kubeconfig, cluster, generate string
	churn                               int
}

func (i *inputs) add(flags *flag.FlagSet) {
	flags.StringVar(&i.file, "file", "services.yaml", "the YAML `file` with the services; edits are applied, and one that is bad changes nothing")
	flags.StringVar(&i.kubeconfig, "kubeconfig", "", "follow the services of a cluster of Kubernetes instead: the `file` says where it is, and who asks")
	flags.StringVar(&i.cluster, "cluster", "", "follow those of the cluster in which this runs, as the service account of the pod: the `URL` is that of\n"+
		"the API server itself, which does not depend on services, such as https://192.0.2.1:6443")
	flags.StringVar(&i.generate, "generate", "", "make up services of this `size` instead, such as 10000x10")
	flags.IntVar(&i.churn, "churn", 0, "with -generate, how many endpoints to replace in a second")
}

// open returns the input that the flags name.
func (i *inputs) open(flags *flag.FlagSet) (in input.Input, err error) {
	var named []string
	flags.Visit(func(f *flag.Flag) {
		if slices.Contains([]string{"file", "kubeconfig", "cluster", "generate"}, f.Name) {
			named = append(named, "-"+f.Name)
		}
	})
	from := strings.Join(named, " and ")
	server, notURL := url.Parse(i.cluster)
	switch {
	case len(named) > 1:
		err = fmt.Errorf("%s exclude each other", from)
	case i.churn != 0 && from != "-generate":
		err = errors.New("-churn is for -generate")
	case from == "-cluster" && (notURL != nil || server.Scheme != "https" || server.Host == ""):
		err = fmt.Errorf("-cluster is %q, must be a URL such as https://192.0.2.1:6443", i.cluster)
	case from == "-kubeconfig" && i.kubeconfig == "":
		err = errors.New("-kubeconfig names no file")
	case from == "-cluster" || from == "-kubeconfig":
		if in, err = input.OpenCluster(i.kubeconfig, i.cluster); err != nil {
			err = fmt.Errorf("%s: %w", from, err)
		}
		return in, err
	case from == "-generate":
		if in, err = input.ParseGenerated(i.generate, i.churn); err != nil {
			err = fmt.Errorf("-generate: %w", err)
		}
	default:
		in = input.File(i.file)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errUsage, err)
	}
	return in, err
}

func (o *options) log() *slog.Logger {
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

func runStatus(_ context.Context, flags *flag.FlagSet, args []string, stdout io.Writer) error {
	var o options
	o.addShell(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	return ask(o.shell, stdout, "reconciler", "health")
}

func runWhy(_ context.Context, flags *flag.FlagSet, args []string, stdout io.Writer) error {
	var o options
	o.addShell(flags)
	if err := parse(flags, args, "NAME"); err != nil {
		return err
	}
	// Two quotes are one within quotes.
	name := "'" + strings.ReplaceAll(flags.Arg(0), "'", "''") + "'"
	about := []string{"reconciler/explain derive-frontends " + name}
	if _, err := kernel.ParseService(flags.Arg(0)); err == nil {
		about = append(about, "reconciler/explain frontends "+name)
	}
	return ask(o.shell, stdout, about...)
}

func runShell(_ context.Context, flags *flag.FlagSet, args []string, stdout io.Writer) error {
	var o options
	o.addShell(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return ask(o.shell, stdout, strings.Join(flags.Args(), " "))
	}
	if err := commands.CheckSocket(o.shell); err != nil {
		return err
	}
	cmd := shell.ShellCmd(o.shell, shellName+"> ", func(w io.Writer) {
		fmt.Fprintln(w, "This is the shell of services. Try: db/show frontends, reconciler, health, help.")
	})
	cmd.SilenceUsage = true
	cmd.SetArgs([]string{})
	return cmd.Execute()
}

// ask runs commands in the shell of a running program.
func ask(path string, stdout io.Writer, all ...string) error {
	if strings.Contains(strings.Join(all, ""), "\n") {
		return fmt.Errorf("%w: a line break", errUsage)
	}
	if err := commands.CheckSocket(path); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no services run: %w", err)
	} else if err != nil {
		return err
	}
	// ShellExchange would wait for a program.
	conn, err := net.Dial("unix", path)
	if err != nil {
		return fmt.Errorf("no services run: %w", err)
	}
	_ = conn.Close() // nothing was sent
	for _, command := range all {
		if err := shell.ShellExchange(shell.Config{ShellSockPath: path}, stdout, "%s", command); err != nil {
			return err
		}
	}
	return nil
}
