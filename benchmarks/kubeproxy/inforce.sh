#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 Authors of Statekeel
#
# Measures what in-force times cost example/services: the histogram, and that the registry can be asked. Two processes have
# 10,000 services each: one with a library in which nothing of that is noted. 100 changes a second are made of one of them,
# then of the other, and so on, in pairs of turns of 5 s, each with a garbage collection before it. It takes root, and a
# quarter of an hour: inforce.sh PAIRS. It fails if they cost more than 2 % of what a change takes, with 95 %.
set -euo pipefail
cd "$(dirname "$0")"

pairs=${1:-60}
work=$(mktemp -d)
trap 'rm -rf "$work"; kill $(jobs -p) 2>/dev/null || true' EXIT

declare -A overlaid
without() { # FILE FUNCTION RESULT: the function returns at once
	local file from to
	file=$(realpath "../../$1")
	from=${overlaid[$file]:-$file}
	to=$work/$2.go
	sed "/^func .*\b$2(.*{\$/a return $3" "$from" >"$to"
	if cmp -s "$from" "$to"; then
		echo "$1 has no function $2" >&2
		exit 1
	fi
	overlaid[$file]=$to
}
without internal/inputs/origins.go Note ''
without internal/inputs/origins.go OriginsOf nil
without reconciler/derive/force.go noteTimes ''
overlay=
for file in "${!overlaid[@]}"; do
	overlay+="${overlay:+,}\"$file\":\"${overlaid[$file]}\""
done
echo "{\"Replace\":{$overlay}}" >"$work/overlay.json"
go build -o "$work/with" ./services
go build -o "$work/without" -overlay "$work/overlay.json" ./services

begin() { # NAME FLAGS
	mkfifo "$work/$1.in" "$work/$1.out"
	"$work/$1" -name "$1" -services 10000 -endpoints 10 -changes 0 -duration 5s -gap 300ms -resync 0 -turns "${@:2}" \
		<"$work/$1.in" >"$work/$1.out" 3>&- 4<&- &
}
begin with
with=$!
exec 3>"$work/with.in" 4<"$work/with.out"
begin without -in-force=false
without=$!
exec 5>"$work/without.in" 6<"$work/without.out"

turn() { # IN OUT
	echo >&"$1"
	local line
	while read -r line <&"$2"; do
		if [[ $line == */changes/* ]]; then
			echo "$line"
			return
		fi
	done
	return 1
}
turn 3 4 >/dev/null
turn 5 6 >/dev/null
for ((pair = 1; pair <= pairs; pair++)); do
	if ((pair % 2)); then
		turn 3 4
		turn 5 6
	else
		turn 5 6
		turn 3 4
	fi
done >"$work/results"
exec 3>&- 5>&-
wait "$with" # for their checks
wait "$without"
cat "$work/results"
# The median of the pairs, and what it is at least and at most, with 95 %: a turn in which something else happens counts as
# any other.
awk '
	{
		for (i = 2; i <= NF; i++) if ($i == "CPU-ns/change") cpu[/impl=without/] = $(i - 1)
		if (NR % 2 == 0) print cpu[0] / cpu[1]
	}' "$work/results" | sort -n | awk '
	{ ratio[NR] = $1 }
	END {
		middle = (NR + 1) / 2; reach = 0.98 * sqrt(NR)
		least = ratio[int(middle - reach > 1 ? middle - reach : 1)]
		most = ratio[int(middle + reach + 1 < NR ? middle + reach + 1 : NR)]
		printf "In-force times add to the CPU of a change: %+.2f %%, %+.2f to %+.2f %% (95 %%, %d pairs)\n", \
			100 * ((ratio[int(middle)] + ratio[int(middle + 0.5)]) / 2 - 1), 100 * (least - 1), 100 * (most - 1), NR
		exit least > 1.02
	}'
