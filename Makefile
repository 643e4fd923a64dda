# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 Authors of Statekeel

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c

GO          ?= go
# Every folder with a go.mod of its own that has code.
MODULES     := . metrics/prometheus reconciler/source/etcd reconciler/source/kubernetes example example/fleet \
               example/postgres example/services internal/tests/real internal/tests/kubernetes \
               internal/tests/upstream/kernel benchmarks tools
# The modules with Cilium and with an API server, which are tidied and tested only: the linters would read their 1,300 and
# 2,160 packages.
UPSTREAM    := internal/tests/upstream internal/tests/kubernetes/server
# Those that are checked, and mostly tested, without -race: Prometheus, etcd's server and Kubernetes' libraries take
# minutes to compile with it, and are not ours.
WITHOUTRACE := reconciler/source/kubernetes example/fleet example/postgres example/services internal/tests/real internal/tests/kubernetes \
               internal/tests/upstream/kernel benchmarks tools
# A slow machine may need more than the ten minutes that go test allows a package.
# Programs without debug information are linked faster.
TEST        := $(GO) test -vet=off -count=1 -timeout 20m -ldflags=-w
RACE        := $(TEST) -race
# Every fuzz target, as folder:name, and for how long each one runs.
FUZZ        := reconciler/debug:FuzzPageQueries \
               reconciler:FuzzKeyTextNamesOneObject \
               internal/outcome:FuzzSearchOfAnErrorAgreesWithItsModel \
               internal/text:FuzzTextIsCleaned \
               status:FuzzJSONIsAnErrorOrReadsBack \
               status:FuzzYAMLIsAnErrorOrReadsBack \
               example/netagent/config:FuzzParseListsProblems
FUZZTIME    ?= 5s
# How many times longer random tests are in test-long than in test.
LONG        ?= 5
# How often each benchmark is run: benchstat needs 6 for an interval of confidence.
TURNS       ?= 6

.PHONY: help
help: ## say what there is to make
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

.PHONY: run
run: ## run netagent: a network namespace that follows example/netagent/state.yaml
	@cd example && $(GO) build -o netagent/netagent ./netagent && exec netagent/netagent -state netagent/state.yaml

.PHONY: run-fleet
run-fleet: ## run an etcd, and five netagents that are fed from it
	@cd example/fleet && $(GO) build -o fleet . && exec ./fleet

.PHONY: run-services
run-services: ## run a proxy of services, a client, and endpoints that come and go
	@cd example/services && $(GO) build -o services . && exec ./services demo

.PHONY: test
test: test-root test-modules ## the library and its examples, with -race, random tests briefly

.PHONY: test-long
test-long: lint tidy test-more ## what CI runs after test: linters, big systems, fuzzing, long random tests

# With -race, where the tests have it: then what was compiled for the checks and for the tests is the same.
.PHONY: lint
lint: ## gofmt, go vet and staticcheck, in all modules
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	@staticcheck=$$($(GO) tool -modfile=tools/go.mod -n staticcheck); \
	for module in $(MODULES); do \
		echo "lint $$module"; race=-race; case " $(WITHOUTRACE) " in *" $$module "*) race= ;; esac; \
		(cd "$$module" && export GOFLAGS="$${GOFLAGS:-} $$race" && $(GO) vet ./... && "$$staticcheck" ./...); \
	done

# -diff changes nothing, and fails if there is something to change.
.PHONY: tidy
tidy: ## check that go.mod and go.sum have what is needed and no more
	@for module in $(MODULES) $(UPSTREAM); do \
		echo "tidy $$module"; (cd "$$module" && $(GO) mod tidy -diff && $(GO) mod verify >/dev/null); \
	done

# The package that takes longest begins first, beside all others.
.PHONY: test-root
test-root:
	$(RACE) ./reconciler ./...

# Two at once: where one waits or links, the other compiles.
.PHONY: test-modules
test-modules:
	@$(MAKE) --no-print-directory -j2 --output-sync=target test-prometheus test-etcd test-example test-services

# Also two at once: one that compiles much beside one that runs long.
.PHONY: test-more
test-more:
	@$(MAKE) --no-print-directory -j2 --output-sync=target test-upstream test-benchmarks test-walks test-real test-kubernetes test-fuzz test-postgres test-fleet test-systems test-release

# New inputs, each time others. What a target once failed on goes into its testdata/fuzz, which
# test-root runs. FUZZTIME=10m looks longer. By default most of the time goes into making what was
# found shorter, hence the limit on that. Up to Go 1.26 a run may fail because its time is up
# (go.dev/issue/75804): that is no find, for which "Failing input" is printed.
.PHONY: test-fuzz
test-fuzz:
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; for target in $(FUZZ); do \
		echo "fuzz $$target"; \
		(cd "$${target%:*}" && $(GO) test -run '^$$' -fuzz "^$${target#*:}$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x . 2>&1) | tee "$$log" || { \
			grep -qx ' *context deadline exceeded' "$$log" && ! grep -q 'Failing input' "$$log" && echo "the time was up: no input failed"; }; \
	done

# Random tests, $(LONG) times as long as in test. One that fails says how to run it alone.
# With STATEDB_VALIDATE statedb checks its trees at every commit: the index by status is where we hand it keys that are
# shared. Tests with a waiting goroutine are left out: if it makes a watch channel during the check, statedb v0.9.4 may
# take that for a change of the tree, and panics.
.PHONY: test-walks
test-walks:
	STATEKEEL_LONG=$(LONG) $(TEST) \
		$$($(GO) list -f '{{.TestImports}} {{.XTestImports}} {{.ImportPath}}' ./... | awk '/internal\/tests\/long[] ]/ { print $$NF }')
	STATEDB_VALIDATE=1 $(TEST) -skip Wait ./status

.PHONY: test-prometheus
test-prometheus:
	cd metrics/prometheus && $(RACE) ./...

# netagent says on other systems that it runs on Linux only.
.PHONY: test-systems
test-systems:
	@program=$$(mktemp); trap 'rm -f "$$program"' EXIT; \
	echo "build netagent for another system"; \
	(cd example && GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GO) build -o "$$program" ./netagent); \
	grep -q 'netagent runs on Linux only' "$$program"

.PHONY: test-etcd
test-etcd:
	cd reconciler/source/etcd && $(RACE) ./...

# Etcds that are killed, wiped and cut off, for $(LONG) times as long. The tests mostly wait, so more of them run at once
# than there are processors. Then Prometheus, and Debian's chromium, which .ci/run installs, without -race: a test of
# the page says how long an answer may take.
.PHONY: test-real
test-real:
	cd internal/tests/real && STATEKEEL_LONG=$(LONG) $(RACE) -parallel 6 ./etcdtest
	cd internal/tests/real && $(TEST) ./rulestest ./browsertest

# The source's own tests have a server in memory, with -race. The others build Kubernetes' API server, which takes five
# minutes on two cores and 2.4 GB the first time, and mostly wait.
.PHONY: test-kubernetes
test-kubernetes:
	cd reconciler/source/kubernetes && $(RACE) ./...
	cd internal/tests/kubernetes && STATEKEEL_LONG=$(LONG) $(TEST) -parallel 8 ./...

# Cilium as it was released, as the kit of reconcilertest sees it. It is some 1,300 packages: without optimisation and vet
# they take two thirds of the time.
.PHONY: test-upstream
test-upstream:
	cd internal/tests/upstream && $(TEST) -gcflags=all='-N -l' -modfile=$$(./modfile.sh) ./loadbalancer
	cd internal/tests/upstream/kernel && $(TEST) .

.PHONY: test-benchmarks
test-benchmarks:
	cd benchmarks && $(TEST) ./internal/... && $(TEST) -bench . -benchtime 1x . -small
	@# The package beside these compiles Kubernetes, for 100 s.
	cd benchmarks/kubeproxy && $(TEST) ./measure ./services

# The tests against the kernel are worth nothing where they are skipped: that is a
# failure, and a reason to read what they say is missing.
.PHONY: test-example test-services test-fleet test-postgres
test-example: folder := example
test-example: command = $(RACE) -parallel 4
test-services: folder := example/services
test-services: command = $(RACE)
test-fleet:   folder := example/fleet
test-fleet:   command = $(TEST) -parallel 6
# Debian's PostgreSQL, which .ci/run installs, is killed and cut off; the kit runs 20,000 plans with a model of it.
test-postgres: folder := example/postgres
test-postgres: command = STATEKEEL_LONG=$(LONG) $(TEST)
test-example test-services test-fleet test-postgres:
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	echo "cd $(folder) && $(command) -v ./..."; \
	if ! (cd $(folder) && $(command) -v ./...) >"$$log" 2>&1; then cat "$$log"; exit 1; fi; \
	if grep -B5 -e '^ *--- SKIP' "$$log"; then echo "tests were skipped"; exit 1; fi; \
	grep -E '^(ok|\?) ' "$$log"

.PHONY: test-release
test-release: release-check
	cd tools && $(TEST) ./...

VERSION ?= v0.1.0
.PHONY: release-check
release-check: ## prove that a new user can work with release VERSION of HEAD
	@program=$$(mktemp); trap 'rm -f "$$program"' EXIT; \
	(cd tools && $(GO) build -o "$$program" ./release); "$$program" check $(VERSION)

.PHONY: release
release: ## make the branch release-VERSION, and print the tags to set
	@test -z "$$(git status --porcelain)" || { echo "the tree has changes that are not committed"; exit 1; }
	@program=$$(mktemp); trap 'rm -f "$$program"' EXIT; (cd tools && $(GO) build -o "$$program" ./release); \
	git switch -q -c release-$(VERSION); "$$program" prepare $(VERSION); git commit -qam "Release $(VERSION)"

.PHONY: mutants
mutants: ## break one promise at a time and say which test notices: a quarter of an hour
	$(GO) run ./internal/tests/mutants

.PHONY: screenshot
screenshot: ## take the picture of the page again, docs/debug-page.png
	cd internal/tests/real/browsertest && UPDATE_SCREENSHOT=1 $(GO) test -count=1 -run TestScreenshot .

# The lines of the last series stay in benchmarks/series.txt, for another look by benchstat.
.PHONY: bench
bench: ## compare with the peers and write benchmarks/results.txt, in 20 minutes; wants a quiet machine
	benchmarks/run.sh $(TURNS) >benchmarks/series.txt
	@{ \
		printf '%s, %s turns, %s cores of %s, %s.\n' "$$(date -u +%F)" $(TURNS) "$$(nproc)" \
			"$$(sed -n '/^cpu: /{s///p;q}' benchmarks/series.txt)" "$$($(GO) env GOVERSION)"; \
		printf '%s\n' 'A figure is the median of the runs; "±" is how far they are from it, at a confidence of 95 %.' \
			'"vs base" compares with the first column; "~" means that the runs show no difference.' ''; \
		$(GO) tool -modfile=tools/go.mod benchstat -table .name -col /impl benchmarks/series.txt; \
	} >benchmarks/results.txt

.PHONY: bench-services
bench-services: ## compare example/services with kube-proxy, in half an hour, to standard output; takes root and nft
	benchmarks/kubeproxy/run.sh

.PHONY: bench-inforce
bench-inforce: ## measure what in-force times cost example/services, in a quarter of an hour; takes root
	benchmarks/kubeproxy/inforce.sh
