#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 Authors of Statekeel
#
# Runs the benchmarks whose name matches PATTERN, in TURNS turns: A B C, A B C. Each run is a process of its own. Prints
# what benchstat reads, and progress to standard error.
set -euo pipefail
cd "$(dirname "$0")"

turns=${1:?usage: run.sh TURNS [PATTERN]}
pattern=${2:-.}
program=$(mktemp)
trap 'rm -f "$program"' EXIT
go test -c -o "$program" .

# A small run of all tells the names, without the number of processors at their ends.
names=$("$program" -test.run '^$' -test.bench "$pattern" -test.benchtime 1x -small |
	sed -n 's/^\(Benchmark[^ \t]*impl=[^ \t]*\)[ \t].*/\1/p' | sed 's/-[0-9]*$//')
test -n "$names"

for ((turn = 1; turn <= turns; turn++)); do
	for name in $names; do
		echo "turn $turn of $turns: $name" >&2
		exact=$(sed 's|[+]|\\+|g; s|/|$/^|g; s|.*|^&$|' <<<"$name")
		"$program" -test.run '^$' -test.bench "$exact" -test.benchtime 1x -test.timeout 10m |
			if ((turn == 1)); then cat; else grep ^Benchmark; fi
	done
done
