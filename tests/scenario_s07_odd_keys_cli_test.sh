#!/usr/bin/env bash
# tests/scenario_s07_odd_keys_cli_test.sh: S07 through the command line. The keys are every length
# from 0 to 65 of NUL, 0x7f, 0x80, 0xff and a letter; every second value is empty. The oracle is
# sort: the order of keys is that of their hexadecimal digits. CAIRN_TOOL is the program to test.
set -eu
export LC_ALL=C

tool=${CAIRN_TOOL:?set CAIRN_TOOL to the path of the program}
place=$(mktemp -d "${TMPDIR:-/tmp}/cairn-s07-XXXXXX")
trap 'rm -rf -- "$place"' EXIT
cd "$place"

count=0

ok() { # ok CLAIM: what came before it held, or the script would have ended
	count=$((count + 1))
	echo "ok $count - $1"
}

fail() {
	echo "not ok - $1"
	exit 1
}

# status_of WANTED ARGUMENT...: the tool ends with that status; its output goes into the file out.
status_of() {
	local wanted=$1 status=0
	shift
	"$tool" "$@" >out || status=$?
	[ "$status" = "$wanted" ] || fail "cairn $*: status $status, not $wanted"
}

# scans FILE: the store holds the records of the file, which is in order.
scans() {
	status_of 0 scan --hex store
	cmp "$1" out || fail "scan differs from $1"
	status_of 0 scan --hex --reverse store
	tac "$1" | cmp - out || fail "scan --reverse differs from $1"
}

# gets FILE: get finds every record of it.
gets() {
	local line
	while IFS= read -r line; do
		status_of 0 get --hex store "${line%%$'\t'*}"
		[ "$(cat out)" = "${line#*$'\t'}" ] || fail "get ${line%%$'\t'*}: $(cat out)"
	done <"$1"
}

for byte in 00 61 7f 80 ff; do
	key=
	for length in $(seq 0 65); do
		value=
		[ $((length % 2)) = 0 ] || value=$byte$(printf %02x "$length")
		printf '%s\t%s\n' "$key" "$value"
		key+=$byte
	done
done | sort -u >records

# Some by themselves, the others, which are their neighbours, at once.
awk 'NR % 10 == 1' records >some
while IFS= read -r line; do
	status_of 0 put --hex store "${line%%$'\t'*}" "${line#*$'\t'}"
done <some
scans some
gets some
awk 'NR % 10 != 1' records | "$tool" load store --hex --no-wait
scans records
ok "every key that was put is found, with its value, in order"

status_of 0 compact store
scans records
gets records
ok "in one run as well"

status_of 0 dump store text.dump
status_of 0 dump --hex store hex.dump
status_of 0 load other text.dump --format dump
status_of 0 dump --hex other
cmp hex.dump out || fail "the copy differs"
ok "a dump as text brings all of them to another store"

for key in '' 00 0000 61 ffff; do
	status_of 0 del --hex store "$key"
	status_of 1 get --hex store "$key"
	grep -v "^$key	" records >without
	scans without
	line=$(grep "^$key	" records)
	status_of 0 put --hex store "$key" "${line#*$'\t'}"
done
scans records
ok "deleting one deletes one, and it is absent, not empty"

for key in 0061 6100 61ff ff00 fe; do
	status_of 1 get --hex store "$key"
done
ok "what lies between the keys is absent"

status_of 0 verify store
ok "verify finds nothing"
