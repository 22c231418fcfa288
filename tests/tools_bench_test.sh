#!/usr/bin/env bash
# tests/tools_bench_test.sh CAIRN_BENCH: every command of cairn-bench runs at a tiny size, every
# workload on every engine of the build, and answers are right.
set -euo pipefail

bench=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/cairn-bench-test.XXXXXX")
trap 'rm -rf -- "$work"' EXIT
export TMPDIR=$work

fail() {
	echo "FAILED: $1" >&2
	[ ! -e "$work/errors" ] || tail -n 20 "$work/errors" >&2
	exit 1
}

# status_of COMMAND...: prints the exit status.
status_of() {
	local status=0
	"$@" >"$work/output" 2>"$work/errors" || status=$?
	echo "$status"
}

# succeeds WHAT ARGUMENT...: cairn-bench does, and leaves nothing behind.
succeeds() {
	local what=$1 status
	shift
	status=$(status_of "$bench" "$@")
	[ "$status" -eq 0 ] || fail "$what: exit status $status"
	[ "$(find "$work" -mindepth 1 ! -name output ! -name errors | wc -l)" -eq 0 ] ||
		fail "$what: something is left in \$TMPDIR"
}

fills=fillseq,fillbatch,fillsync,fillrandom
reads=readrandom,readheld,readmissing,multireadrandom,seekrandom,seekheld,readseq,readreverse
others=wait,reopen,overwrite,readwhilewriting,compact,stat

"$bench" engines >"$work/output"
mapfile -t engines < <(cut -d ' ' -f 1 "$work/output")
case " ${engines[*]} " in
*" cairn "*"memory "*) ;;
*) fail "the engines are ${engines[*]}" ;;
esac

# Deletes, then reads, so that these meet what is not there any more.
workloads=$fills,$reads,$others,$reads,deleterandom,$reads
succeeds "all workloads on all engines" compare --num 600 --passes 1 --cap 0.1 \
	--workloads "$workloads"
for word in $(tr , ' ' <<<"$workloads"); do
	[ "$word" = stat ] || grep -q "^| $word" "$work/output" || fail "$word is not in the table"
done

succeeds "the default" --num 1000 --passes 2 --cap 1
grep -q '^readreverse .*[1-9]' "$work/output" || fail "the report has no rate of readreverse"
succeeds "several threads" --num 1000 --passes 1 --cap 0.1 --threads 3 --workloads "$workloads"
succeeds "odd sizes" --num 500 --passes 1 --key-size 8 --value-size 0
succeeds "large values" --num 50 --passes 1 --key-size 1000 --value-size 65536 --sync full
succeeds "JSON" --num 500 --passes 1 --json
grep -q '"workload": "seekrandom"' "$work/output" || fail "the JSON has no seekrandom"
succeeds "a directory that is named" --num 500 --passes 1 --dir "$work/named"

succeeds "kill" kill --num 2000 --passes 1
grep -q '^| cairn | off | [1-9][0-9]* | 0 |' "$work/output" || fail "kill: no row of cairn"
succeeds "seeds" seeds --engines cairn,table,memory --num 8192 --passes 1
grep -q '^| cairn KV02' "$work/output" || fail "seeds: no row of cairn"
succeeds "cascade" cascade --num 5000 --passes 2 --value-size 32
[ "$(grep -cE '^[|] 5000 [|] (structured|random) ' "$work/output")" -eq 2 ] ||
	fail "cascade: not two rows"

[ "$(status_of "$bench" --workloads none)" -eq 2 ] || fail "a workload that is none: status 2"
[ "$(status_of "$bench" --engine none)" -eq 2 ] || fail "an engine that is none: status 2"
[ "$(status_of "$bench" --num 0)" -eq 2 ] || fail "no records: status 2"
mkdir "$work/there" && touch "$work/there/precious"
[ "$(status_of "$bench" --num 10 --dir "$work/there")" -eq 3 ] || fail "it used what was there"
[ -e "$work/there/precious" ] || fail "it removed what was there"
