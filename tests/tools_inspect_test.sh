#!/usr/bin/env bash
# tests/tools_inspect_test.sh: cairn inspect on the golden store, whole and damaged, and on a store
# made here. CAIRN_TOOL is the program to test.
set -u
export LC_ALL=C

tool=${CAIRN_TOOL:?set CAIRN_TOOL to the path of the program}
golden=$(cd "$(dirname "$0")/golden/store" && pwd) || exit 1
place=$(mktemp -d "${TMPDIR:-/tmp}/cairn-inspect-XXXXXX") || exit 1
trap 'rm -rf -- "$place"' EXIT
cd "$place" || exit 1

failures=0
count=0

result() { # result 0|1 CLAIM
	count=$((count + 1))
	if [ "$1" = 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		printf 'status %s\noutput: %s\ncomplaint: %s\n' "$status" \
			"$(head -c 4000 out)" "$(head -c 2000 err)" | sed 's/^/# /'
		failures=$((failures + 1))
	fi
}

# run ARGUMENT...: inspects; the status, output and complaints into $status, out and err.
run() {
	"$tool" inspect "$@" >out 2>err
	status=$?
}

# shows CLAIM STATUS LINE...: the last run gave this status, no complaint, and all of these lines.
shows() {
	local claim=$1 wrong=0 line
	[ "$status" = "$2" ] && [ ! -s err ] || wrong=1
	shift 2
	for line in "$@"; do
		grep -qxF -- "$line" out || wrong=1
	done
	result $wrong "$claim"
}

# damage FILE OFFSET: a copy of it in the directory damaged/, with one bit of that byte the other
# way; its path in $damaged.
damage() {
	local byte
	mkdir -p damaged
	damaged=damaged/${1##*/}
	cp "$1" "$damaged"
	byte=$(od -An -tu1 -j "$2" -N 1 "$1")
	printf "\\x$(printf %02x $((byte ^ 0x10)))" |
		dd of="$damaged" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

usage() {
	run
	[ $status = 2 ] && grep -qF 'an operand is missing' err
	result $? "inspect needs a file"
	run none
	[ $status = 3 ] && grep -qF 'cairn inspect: none: No such file' err
	result $? "a file that is not there is a failure"
	run .
	[ $status = 3 ] && grep -qF 'not a regular file' err
	result $? "a directory is a failure"
	echo 'something else' >other
	run other
	shows "what is not a store's is a problem" 1 "1 problem found"
	: >LOCK
	run LOCK
	shows "an empty lock has no owner" 0 "  last owner       none"
	: >000009.tmp
	run 000009.tmp
	shows "an unfinished temporary file is ordinary" 0 "no problems found"
	cp "$golden/000003.kv" 000004.wal
	run 000004.wal
	shows "a run with the name of a log segment is a problem" 1 \
		"BAD at offset 0: this is a run with the name of a log segment"
	cp "$golden/000003.kv" 000007.kv
	run 000007.kv
	shows "a file that was renamed is a problem" 1 \
		"BAD at offset 48: the file says that its number is 3, but its name 7"
	cp "$golden/000003.kv" copy
	run copy
	shows "a file is known by its magic" 0 "copy: run, 1152 bytes" "no problems found"
}

golden_run() {
	run "$golden/000003.kv"
	shows "a run is shown" 0 \
		"  store id         6578616d706c652073746f7265206964" \
		"  hash seed        0x1122334455667788" \
		"footer at 640, 512 bytes, checksum 0x97ab3452 ok" \
		"  sequences        4 to 6" \
		"  2 seek    at 256, 256 bytes, checksum 0x8a79d38d ok" \
		"  first key        banana" \
		"no problems found"
	! grep -qE '^(block|  record) ' out
	result $? "blocks and records are left out"
	run "$golden/000003.kv" --blocks
	shows "--blocks shows blocks" 0 \
		"block 0 at 128, 64 bytes, 3 records, key area 33, prefix 1, checksum 0x9bb3c8b9 ok"
	! grep -q '^  record ' out
	result $? "--blocks leaves records out"
	run "$golden/000003.kv" --records
	shows "--records shows records" 0 \
		"  record 0, DELETE, value at 165, 0 bytes, checksum 0xe4422c51 ok, key banana" \
		"  record 2, PUT, value at 178, 4 bytes, checksum 0x35e6b5de ok, key blueberry"
	run "$golden/../kv02.kv" --records --hex
	shows "--hex shows keys as digits" 0 \
		"  first key        " \
		"  last key         766567657461626c652f3239392d30"
	[ "$(grep -c '^  record ' out)" = 300 ] && [ "$(grep -c '^block ' out)" = 20 ]
	result $? "every block and record is there"
}

golden_log() {
	run "$golden/000001.wal" --records
	shows "a log segment is shown" 0 \
		"  salt             0x0102030405060702" \
		"  predecessor      none" \
		"record at 4096, LINK, 40 bytes, D none, behind sequence 0, ok" \
		"record at 4336, WRITE, 48 bytes, D 1:4336, sequences 8 to 9, 2 operations, ok" \
		"  DELETE, value 0 bytes, checksum 0x522c0e94 ok, key apple" \
		"record at 4384, MARK, 24 bytes, D 1:4384, ok" \
		"the records end at 4408: there are 6, the last sequence is 9" \
		"no problems found"
}

golden_manifest() {
	run "$golden/MANIFEST"
	shows "a manifest is shown" 0 \
		"checksum at 284, 0xffc03a78 ok" \
		"  generation       5" \
		"  log              000001.wal" \
		"  replay from      1:4288" \
		"run 1: 1 file, rent 0, dead bytes 0" \
		"  000002.kv, 1152 bytes, footer checksum 0x110f77dd" \
		"no problems found"
}

golden_store() {
	"$tool" verify "$golden" >out 2>err
	status=$?
	shows "the golden store is whole" 0 "no problems found"
	"$tool" scan "$golden" >out 2>err
	status=$?
	printf 'blackberry\tblack\nblueberry\tblue\ncherry\tdark red\ndate\t\n' | cmp -s - out
	result $? "the golden store is read"
}

damaged_run() {
	damage "$golden/000003.kv" 48
	run "$damaged"
	shows "a damaged header is told, and shown" 1 \
		"header at 0, 128 bytes, checksum 0xfb134454 BAD" \
		"  number           19" \
		"footer at 640, 512 bytes, checksum 0x97ab3452 ok"
	damage "$golden/000003.kv" 140
	run "$damaged" --blocks
	shows "damaged keys are told" 1 \
		"BAD at offset 128: the keys or the padding of the block here are damaged" \
		"1 problem found"
	damage "$golden/000003.kv" 170
	run "$damaged" --records
	shows "a damaged value is told" 1 \
		"  record 1, PUT, value at 169, 5 bytes, checksum 0xaf40c51a BAD, key blackberry" \
		"BAD at offset 169: record 1 of the block at 128 fails its checksum" \
		"1 problem found"
	damage "$golden/000003.kv" 300
	run "$damaged"
	shows "a damaged seek section is told" 1 \
		"  2 seek    at 256, 256 bytes, checksum 0x8a79d38d BAD"
	damage "$golden/../kv02.kv" 544
	run "$damaged" --records
	[ $status = 1 ] && [ "$(grep -c '^  record ' out)" = 285 ]
	result $? "behind a damaged block the others are shown"
	head -c 600 "$golden/000003.kv" >cut
	run cut --records
	shows "of a run that was cut, what is left is shown" 1 \
		"  record 2, PUT, value at 178, 4 bytes, checksum 0x35e6b5de ok, key blueberry" \
		"1 blocks with 3 records were found; at 192 there is no block"
}

damaged_log() {
	damage "$golden/000001.wal" 4300
	run "$damaged"
	shows "damage with a witness behind it is told from a torn tail" 1 \
		"the records end at 4288: there are 3, the last sequence is 6" \
		"1 problem found"
	grep -q '^BAD at offset 4288: no record here, but the one at 4336 says ' out
	result $? "the witness is named"
	damage "$golden/000001.wal" 4390
	run "$damaged"
	shows "without a witness it is a torn tail" 0 \
		"the records end at 4384: there are 5, the last sequence is 9" "no problems found"
	damage "$golden/000001.wal" 60
	run "$damaged"
	shows "with a damaged header records are shown where its salt is whole" 1 \
		"record at 4096, LINK, 40 bytes, D none, behind sequence 0, ok"
	head -c 4100 "$golden/000001.wal" >000001.wal
	run 000001.wal
	shows "a segment without a record is ordinary" 0 "the records end at 4096: there are 0"
	head -c 100 "$golden/000001.wal" >000001.wal
	run 000001.wal
	shows "a segment that ends in its header is a problem" 1 \
		"BAD at offset 100: the file ends in its header"
}

damaged_manifest() {
	damage "$golden/MANIFEST" 48
	run "$damaged"
	shows "a damaged manifest is told, and shown" 1 \
		"checksum at 284, 0xffc03a78 BAD" "  generation       21" "1 problem found"
	head -c 20 "$golden/MANIFEST" >MANIFEST
	run MANIFEST
	shows "a cut manifest is a problem" 1 "1 problem found"
	: >MANIFEST
	run MANIFEST
	shows "an empty manifest is a problem" 1 "1 problem found"
}

# Wherever a bit is wrong or a file is cut, there is an answer: all is well or problems found.
survives() { # survives FILE STEP
	local size at
	size=$(stat -c %s "$1")
	for ((at = 0; at < size; at += $2)); do
		damage "$1" $at
		run "$damaged" --records
		[ $status -le 1 ] && [ ! -s err ] || break
		head -c $at "$1" >"$damaged"
		run "$damaged" --records
		[ $status -le 1 ] && [ ! -s err ] || break
	done
	[ $at -ge "$size" ]
	result $? "${1##*/} damaged anywhere is survived"
}

# A seek section with two levels above the words, and records by the thousand.
larger_store() {
	seq -f 'key-%06.0f	value' 9000 >records
	"$tool" load store records >out 2>err
	status=$?
	[ $status = 0 ]
	result $? "a larger store is made"
	for file in store/*; do
		run "$file" --records
		shows "${file#store/} of it is whole" 0 "no problems found"
	done
	run "$(echo store/*.kv)" --records
	[ "$(grep -c '^  record ' out)" = 9000 ] && grep -q ' 2 levels' out
	result $? "every record of it is shown"
}

usage
golden_run
golden_log
golden_manifest
golden_store
damaged_run
damaged_log
damaged_manifest
survives "$golden/MANIFEST" 29
survives "$golden/000003.kv" 127
survives "$golden/000001.wal" 499
larger_store

echo "1..$count"
[ $failures = 0 ]
