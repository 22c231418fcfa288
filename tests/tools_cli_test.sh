#!/usr/bin/env bash
# tests/tools_cli_test.sh: the command line tool from outside. CAIRN_TOOL is the program to test.
set -u
export LC_ALL=C

tool=${CAIRN_TOOL:?set CAIRN_TOOL to the path of the program}
place=$(mktemp -d "${TMPDIR:-/tmp}/cairn-cli-XXXXXX") || exit 1
trap 'rm -rf -- "$place"' EXIT
cd "$place" || exit 1

commands=(put get del scan dump load "table build" "table get" "table scan" stat verify repair
	compact wait checkpoint)
failures=0
count=0

result() { # result 0|1 CLAIM [DETAIL]
	count=$((count + 1))
	if [ "$1" = 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		printf '%s\n' "${3:-}" | sed 's/^/# /'
		failures=$((failures + 1))
	fi
}

# run ARGUMENT...: the tool's status, output and complaints into $status, out and err.
run() {
	"$tool" "$@" >out 2>err
	status=$?
}

# is CLAIM STATUS [OUTPUT]: what the last run gave; OUTPUT as printf's %b would print it.
is() {
	local wanted=0
	printf '%b' "${3-}" >wanted
	[ "$status" = "$2" ] || wanted=1
	[ $# -lt 3 ] || cmp -s wanted out || wanted=1
	result $wanted "$1" "status $status, wanted $2
output: $(head -c 2000 out | od -c | head -20)
complaint: $(head -c 2000 err)"
}

# complains CLAIM STATUS WORDS...: nothing on standard output, all of WORDS on standard error.
complains() {
	local claim=$1 wanted=0 words
	[ "$status" = "$2" ] || wanted=1
	[ ! -s out ] || wanted=1
	shift 2
	for words in "$@"; do
		grep -qF -- "$words" err || wanted=1
	done
	result $wanted "$claim" "status $status, output $(head -c 500 out)
complaint: $(head -c 2000 err)"
}

same() { # same CLAIM FILE FILE
	if cmp "$2" "$3" >difference 2>&1; then
		result 0 "$1"
	else
		result 1 "$1" "$(cat difference)"
	fi
}

usage_and_help() {
	run
	complains "no command at all is wrong usage" 2 "usage: cairn COMMAND"
	run nonsense store
	complains "an unknown command is wrong usage" 2 "cairn: there is no command 'nonsense'"
	run version
	result "$((status != 0))" "version succeeds"
	grep -qxE 'cairn [0-9]+\.[0-9]+\.[0-9]+' out
	result $? "version prints name and number" "$(cat out)"
	cp out version
	run --version
	same "--version is version" version out
	run --help
	is "--help succeeds" 0
	grep -q '^  checkpoint ' out
	result $? "--help lists the commands"
	local command
	for command in "${commands[@]}" version help; do
		# shellcheck disable=SC2086 # two words are two arguments
		run $command --help
		grep -q "^usage: cairn $command" out && [ $status = 0 ] && [ ! -s err ]
		result $? "$command --help prints its manual"
		cp out manual
		# shellcheck disable=SC2086
		run help $command
		same "help $command is the same manual" manual out
		# shellcheck disable=SC2086
		run $command --bad
		complains "$command refuses an unknown option" 2 \
			"cairn $command: there is no option '--bad'"
		# shellcheck disable=SC2086
		run $command a b c d e
		complains "$command refuses too many operands" 2 \
			"cairn $command: " "is one operand too many"
	done
}

too_few_operands() {
	local command
	for command in "${commands[@]}"; do
		# shellcheck disable=SC2086
		run $command
		complains "$command needs operands" 2 "cairn $command: an operand is missing"
	done
	run help nonsense
	complains "help of nothing is wrong usage" 2 "no command 'nonsense'"
	run help put get
	complains "so is help of two commands" 2 "'get' is one operand too many"
	run table
	complains "table alone is no command" 2 "no command 'table'"
	run scan store --limit
	complains "an option without its argument is wrong usage" 2 "--limit takes an argument"
	run scan store --limit 1x
	complains "a number is all digits" 2 "--limit takes a number" "'1x'"
	run scan store --limit 18446744073709551616
	complains "a number fits in 64 bits" 2 "--limit takes a number"
	run scan store --keys=1
	complains "a flag takes no argument" 2 "--keys takes no argument"
	run load store --format=csv
	complains "a choice names what there is" 2 \
		"--format takes one of tsv, lines, dump, not 'csv'"
	run load store --batch 0 /dev/null
	complains "an empty batch is wrong usage" 2 "--batch"
	[ ! -e store ]
	result $? "wrong usage makes no store"
}

stores_that_are_not_there() {
	local command
	for command in "get none k" "del none k" "scan none" "dump none" "stat none" "verify none" \
		"compact none" "wait none" "checkpoint none copy"; do
		# shellcheck disable=SC2086
		run $command
		complains "${command%% *} of no store fails" 3 "cairn ${command%% *}: "
		[ ! -e none ]
		result $? "${command%% *} makes no store"
	done
}

one_record() {
	run put store apple red
	is "put makes the store" 0 ''
	run get store apple
	is "get prints value and newline" 0 'red\n'
	run get store apple --raw
	is "get --raw prints the value alone" 0 'red'
	run get --hex store 6170706c65
	is "get --hex reads and prints digits" 0 '726564\n'
	run get --hex --raw store 6170706c65
	is "get --hex --raw prints bytes" 0 'red'
	run get store pear
	is "get of a missing key is 1 and silent" 1 ''
	[ ! -s err ]
	result $? "get of a missing key complains about nothing" "$(cat err)"
	run put store apple green
	is "put overwrites" 0 ''
	run get store apple
	is "get finds the newer value" 0 'green\n'
	run del store apple
	is "del succeeds" 0 ''
	run get store apple
	is "a deleted key is not found" 1 ''
	run del store apple
	is "del of a missing key is no failure" 0 ''
	run put store -- -k -v
	is "operands behind -- may begin with -" 0 ''
	run get store -- -k
	is "and are found again" 0 '-v\n'
	run del -- store -k
	is "-- may come first" 0 ''
	run put store -k
	complains "without -- they are options" 2 "no option '-k'"
}

odd_keys() {
	run put odd '' empty
	is "the empty key is a key" 0 ''
	run put odd 'a\x00b' 'v\x00w'
	is "NUL in key and value" 0 ''
	run put odd '\xff\xff' '\xff'
	is "0xff in key and value" 0 ''
	run put odd $'t\tt' $'v\tv'
	is "TAB in key and value" 0 ''
	run put odd 'n\x0an' 'v\x0av'
	is "newline in key and value" 0 ''
	run put odd '\x5c' 'v\\v'
	is "backslash in key and value" 0 ''
	run put --hex odd C3A9 ''
	is "hexadecimal key, empty value" 0 ''
	run get odd ''
	is "get of the empty key" 0 'empty\n'
	run get odd 'a\x00b'
	is "get prints NUL as it is" 0 'v\00w\n'
	run get odd $'n\nn'
	is "a raw newline on the command line is a newline" 0 'v\nv\n'
	run get --hex odd c3a9
	is "an empty value is not a missing one" 0 '\n'
	run scan odd
	local text='\tempty\n\\\\\tv\\\\v\na\\x00b\tv\\x00w\nn\\x0an\tv\\x0av\n'
	text+='t\\x09t\tv\\x09v\n\\xc3\\xa9\t\n\\xff\\xff\t\\xff\n'
	is "scan escapes, in the order of unsigned bytes" 0 "$text"
	run scan odd --hex
	text='\t656d707479\n5c\t765c76\n610062\t760077\n6e0a6e\t760a76\n'
	text+='740974\t760976\nc3a9\t\nffff\tff\n'
	is "scan --hex prints digits" 0 "$text"
	run dump odd
	cp out odd.dump
	run load copy odd.dump --format dump
	is "a dump loads" 0 ''
	run dump copy -
	same "and dumps to the same bytes" odd.dump out
	run dump odd odd.hex --hex
	is "dump --hex into a file" 0 ''
	run load hexcopy odd.hex --format dump --hex
	is "loads with --hex" 0 ''
	run dump hexcopy
	same "to the same store" odd.dump out
	run put odd 'a\n' v
	complains "a bad escape is wrong usage" 2 "KEY: at character 2:"
	run put odd a 'ab\x1'
	complains "so is one in the value" 2 "VALUE: at character 3:"
	run put odd --hex abc 00
	complains "half a byte is wrong usage" 2 \
		"KEY: at character 3: expected two hexadecimal digits"
	run scan odd --from '\z'
	complains "and in an option" 2 "--from: at character 1:"
	head -c 65536 /dev/zero | tr '\0' k | sed 's/$/\tv/' >key.tsv
	run load odd key.tsv
	complains "a key of 65536 bytes is too large" 3 "line 1: " "stopped; the first 0 records"
	head -c 65535 /dev/zero | tr '\0' k | sed 's/$/\tv/' >key.tsv
	run load odd key.tsv
	is "one of 65535 bytes is not" 0 ''
}

scans() {
	printf 'a\t1\nb\t2\nba\t3\nbb\t4\nc\t5\nd\t6\n' >six
	run load range six
	is "load a tsv file" 0 ''
	run scan range
	same "scan gives it back" six out
	run scan range --keys
	is "scan --keys" 0 'a\nb\nba\nbb\nc\nd\n'
	run scan range --reverse --keys
	is "scan --reverse" 0 'd\nc\nbb\nba\nb\na\n'
	run scan range --from b --to c --keys
	is "from inclusive, to exclusive" 0 'b\nba\nbb\n'
	run scan range --from b --to c --keys --reverse
	is "also backwards" 0 'bb\nba\nb\n'
	run scan range --prefix b --keys
	is "scan --prefix" 0 'b\nba\nbb\n'
	run scan range --prefix=b --from=ba --limit=1
	is "all at once, with =" 0 'ba\t3\n'
	run scan range --prefix b --reverse --limit 2
	is "prefix backwards with a limit" 0 'bb\t4\nba\t3\n'
	run scan range --limit 0
	is "a limit of nothing" 0 ''
	run scan range --from x
	is "nothing in the range is no failure" 0 ''
	run scan range --hex --from 6262 --keys
	is "ends of a range in hex" 0 '6262\n63\n64\n'
	run scan range --from ''
	same "the empty start is the start" six out
	run scan range --to ''
	is "nothing is below the empty key" 0 ''
	"$tool" scan range >/dev/full 2>err
	status=$?
	: >out
	complains "a full disk under standard output is a failure" 3 "cairn scan: standard output:"
	"$tool" get range a >/dev/full 2>err
	status=$?
	complains "for get as well" 3 "cairn get: standard output:"
	run dump range /dev/full
	complains "and for dump into a file" 3 "cairn dump: /dev/full:"
	run dump range no/such/file
	complains "dump names the file that it cannot make" 3 "no/such/file: No such file"
}

loads() {
	printf 'one\n\\x74wo\n\nfour' >words
	run load lines words --format lines
	is "load lines" 0 ''
	run scan lines
	is "values are line numbers, the last newline is optional" 0 \
		'\t3\nfour\t4\none\t1\ntwo\t2\n'
	"$tool" load piped - <six >out 2>err && run dump piped
	same "load from standard input, named" six out
	"$tool" load piped2 <six >out 2>err && run dump piped2
	same "load from standard input, by default" six out
	printf 'k\tv\twith TAB\\x09\r\n' >tabs.tsv
	run load tabs tabs.tsv
	run scan tabs
	is "the first TAB separates, the rest is value" 0 'k\tv\\x09with TAB\\x09\\x0d\n'
	printf '\t\n' >empty_record
	run load tabs empty_record && run get tabs ''
	is "an empty record is a record" 0 '\n'
	run load tabs /dev/null
	is "an empty input is no failure" 0 ''
	seq 1 2500 | awk '{ printf "key%07d\tvalue%d\n", $1, $1 }' >many.tsv
	run load progress many.tsv --progress
	is "load --progress counts batches of 1000" 0 \
		'acknowledged 1000\nacknowledged 2000\nacknowledged 2500\n'
	run load small many.tsv --progress --batch 1250 --no-wait
	is "of any size" 0 'acknowledged 1250\nacknowledged 2500\n'
	run dump small
	same "nothing is lost without --wait" many.tsv out
	{
		cat many.tsv
		echo 'no tab here'
		echo "late	v"
	} >bad.tsv
	run load bad bad.tsv
	complains "a line without TAB is named" 3 \
		"line 2501: there is no TAB" "the first 2000 records"
	run scan bad --keys
	cut -f1 many.tsv | head -2000 >kept
	same "the batches before it are kept" kept out
	printf 'a\\qb\tv\n' >bad_escape
	run load bad2 bad_escape
	complains "a bad escape is named" 3 "line 1: at byte 2:"
	printf 'k\tv\n00\t0g\n' >bad_hex
	run load bad2 bad_hex --hex
	complains "a bad digit is named" 3 "line 1: at byte 1: expected two hexadecimal digits"
	run load nothing no-such-file
	complains "a missing input file is a failure" 3 "no-such-file: No such file"
	[ ! -e nothing ]
	result $? "and makes no store"
	run load nothing .
	complains "so is a directory" 3 "Is a directory"
	"$tool" load piped2 --progress <six >/dev/full 2>err
	status=$?
	: >out
	complains "lost progress lines end the load" 3 "cairn load: standard output:"
	"$tool" load closed six --progress >&- 2>err
	status=$?
	complains "so does a closed standard output" 3 "cairn load: standard output:"
	run verify closed
	is "and nothing is printed into the store's files" 0 'no problems found\n'
	"$tool" load closed <&- >out 2>err
	status=$?
	complains "a closed standard input is a failure" 3 "line 1: Bad file descriptor"
}

tables() {
	run table build six.kv six
	is "table build" 0 ''
	run table scan six.kv
	same "table scan gives it back" six out
	run table scan six.kv --from b --to c --keys --reverse
	is "with the options of scan" 0 'bb\nba\nb\n'
	run table get six.kv ba
	is "table get prints the value" 0 "$(grep '^ba' six | cut -f2)\n"
	run get range 6261 --hex
	cp out digits
	run table get six.kv 6261 --hex
	same "table get --hex is get --hex" digits out
	run table get six.kv none
	is "no such key is status 1" 1 ''
	sort -R --random-source=many.tsv many.tsv >shuffled
	"$tool" table build many.kv - <shuffled >out 2>err && run table scan many.kv
	same "table build from standard input, in any order" many.tsv out
	run table build words.kv words --format lines --no-point-index
	run table scan words.kv
	is "--format lines" 0 '\t3\nfour\t4\none\t1\ntwo\t2\n'
	printf 'k\t1\nk\t2\n' >twice
	run table build six.kv twice
	complains "a key that comes twice is a failure" 3 "line 2: the key k comes twice"
	run table scan six.kv
	same "and leaves the table that was there" six out
	run table build six.kv twice --last-wins
	run table scan six.kv
	is "the last wins when asked to, and the table is replaced" 0 'k\t2\n'
	run table build none.kv bad.tsv
	complains "a bad line is named" 3 "cairn table build: line 2501: there is no TAB"
	run table build none.kv no-such-file
	complains "and a file that is not there" 3 "no-such-file: No such file"
	run table build none.kv six --compression lz4
	complains "an option that is not built" 3 "options.compression"
	run table build no/such.kv six
	complains "a directory that is not there" 3 "No such file"
	if ls none.kv* ./*.tmp >difference 2>&1; then
		result 1 "failures leave no file" "$(cat difference)"
	else
		result 0 "failures leave no file"
	fi
	run table build empty.kv /dev/null
	run table scan empty.kv
	is "an empty table is a table" 0 ''
	run table scan none.kv
	complains "a table that is not there" 3 "cairn table scan: none.kv: "
	run table get six k
	complains "a file that is no table" 3 "cairn table get: six: "
	run load run_store six
	run table scan run_store/*.kv
	complains "a run of a store is none" 3 "of a store"
	"$tool" table scan many.kv >/dev/full 2>err
	status=$?
	: >out
	complains "a full disk under standard output" 3 "cairn table scan: standard output:"
}

long_lines() {
	{
		printf 'short\tv\nlong\t'
		head -c 20000000 /dev/zero | tr '\0' x
		printf '\nmiddle\t'
		head -c 3000000 /dev/zero | tr '\0' y
		printf '\nzshort\tv\n'
	} >long.tsv
	run load long long.tsv --progress
	is "a record beyond 16 MiB goes by itself" 0 \
		'acknowledged 1\nacknowledged 2\nacknowledged 4\n'
	run dump long
	sort long.tsv >sorted
	same "long lines arrive whole" sorted out
	run get long long --raw
	[ "$(wc -c <out)" = 20000000 ]
	result $? "get prints a long value"
	local i
	for i in 1 2 3 4 5 6; do
		printf 'k%s\t' $i
		head -c 4000000 /dev/zero | tr '\0' z
		echo
	done >closes.tsv
	run load closes closes.tsv --progress
	is "a batch closes before 16 MiB" 0 'acknowledged 4\nacknowledged 6\n'
}

whole_store() {
	run load whole many.tsv
	run del whole key0000007
	run put whole key0000008 new
	run stat whole
	is "stat succeeds" 0
	grep -q '^ run .*x older.*records' out && grep -q '^io  *[a-z_]*$' out
	result $? "stat prints a table" "$(cat out)"
	run stat whole --json
	is "stat --json succeeds" 0
	if command -v python3 >tmp 2>&1; then
		python3 -c 'import json, sys
s = json.load(open("out"))
assert isinstance(s["runs"], list) and s["runs"]
for k in ("bytes", "records", "tombstones", "dead_bytes", "format", "compression", "segments"):
    assert k in s["runs"][0], k
for k in ("memtable_bytes", "log_bytes", "index_bytes", "memory_bytes", "io", "sync_mode", "views",
          "seeks_indexed", "seeks_fallback", "bytes_written", "last_error"):
    assert k in s, k' 2>err
		result $? "and is JSON with all its fields" "$(cat err out)"
	fi
	run dump whole
	cp out before
	run wait whole
	is "wait succeeds" 0 ''
	run compact whole
	is "compact succeeds" 0 ''
	run stat whole
	grep -q '^runs  *1,' out
	result $? "and leaves one run" "$(cat out)"
	run dump whole
	same "and every record" before out
	run verify whole
	is "verify finds nothing" 0 'no problems found\n'
	run checkpoint whole point
	is "checkpoint succeeds" 0 ''
	run put whole later v
	run dump point
	same "a checkpoint is the store at that moment" before out
	run verify point
	is "and sound" 0 'no problems found\n'
	run checkpoint whole point
	complains "checkpoint needs a new directory" 3 "cairn checkpoint: "
	damage
}

damage() {
	local run_file
	run repair point whole2
	is "repair of a sound store finds nothing" 0 'whole2 has everything\n'
	run dump whole2
	same "and makes an equal one" before out
	run_file=$(find whole -name '*.kv' | head -1)
	cp "$run_file" intact
	printf '\377\377\377\377' | dd of="$run_file" bs=1 seek=5000 conv=notrunc 2>/dev/null
	cmp -s intact "$run_file" && result 1 "the damage changed something"
	run verify whole
	is "verify finds damage" 1
	grep -qE "^$run_file: offset [0-9]+: ." out
	result $? "and says where" "$(cat out)"
	tail -1 out | grep -qE '^[0-9]+ problems? found$'
	result $? "and how much" "$(cat out)"
	run dump whole
	[ $status = 3 ] && grep -q "cairn dump: .*$run_file" err
	result $? "dump does not print what is damaged" "status $status, $(cat err)"
	run repair whole mended
	is "repair finds what is lost" 1
	grep -qE "^$run_file: offset [0-9]+: ." out
	result $? "and says where" "$(cat out)"
	run verify mended
	is "and makes a sound store" 0 'no problems found\n'
	run dump mended
	[ $status = 0 ] && ! diff before out | grep '^>' | grep -qv later
	result $? "with no record that was not there" "$(diff before out)"
	run repair whole mended
	complains "repair needs a new directory" 3 "cairn repair: "
	# The file may be a hard link of the checkpoint's: a new one, not the old one changed back.
	cp intact "$run_file.new" && mv "$run_file.new" "$run_file"
}

beside_a_writer() {
	mkfifo pipe
	"$tool" load busy pipe --progress --batch 1 >busy_out 2>busy_err &
	local writer=$!
	exec 9>pipe
	echo "k	v" >&9
	# The store is there when the first record was acknowledged.
	local line=
	while [ "$line" != "acknowledged 1" ] && kill -0 $writer 2>/dev/null; do
		line=$(head -1 busy_out)
	done
	run put busy k2 v2
	complains "a second writer is refused" 3 "cairn put: "
	run get busy k
	is "a reader beside the writer sees what was acknowledged" 0 'v\n'
	run verify busy
	is "verify works beside a writer" 0 'no problems found\n'
	kill -9 $writer
	wait $writer 2>/dev/null
	exec 9>&-
	run dump busy
	is "what a killed load acknowledged is there" 0 'k\tv\n'
	run put busy k2 v2
	is "and the store goes on" 0 ''
	run verify busy
	is "sound" 0 'no problems found\n'
}

usage_and_help
too_few_operands
stores_that_are_not_there
one_record
odd_keys
scans
loads
tables
long_lines
whole_store
beside_a_writer

echo "1..$count"
[ $failures = 0 ]
