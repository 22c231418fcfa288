#!/usr/bin/env bash
# tests/tidy.sh CHECK: what the compiler does not see. Prints every place that breaks a rule, and
# fails when there is one. Runs in the root of the tree.
#
#	layering         directories include downwards only; a dependency has one user
#	text             no leftovers, no trailing space, no long line, no banned function
#	sources          every source file stands in CMakeLists.txt
#	exports LIBRARY  the shared library exports what cairn.h declares, and nothing else
set -euo pipefail
export LC_ALL=C.UTF-8

layers=(format wal compaction store tools)

# grep, for which no match is not a failure.
find_lines() {
	grep "$@" || [ $? -eq 1 ]
}

# say RULE: puts the rule before each line of standard input.
say() {
	sed "s|^|$1: |"
}

# Every file that people write, or those that find's words "$@" leave.
files() {
	find . \( -path ./.git -o -path './build*' -o -path ./tests/golden -o \
		-path ./tests/corpus \) -prune -o \
		-type f "$@" -printf '%P\n' | sort
}

# may_include DIRECTORY WHAT: its quoted includes match the regular expression WHAT, whole.
may_include() {
	find_lines -rnE --include='*.[ch]' '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$1" |
		find_lines -vE "\"($2)\"" | say "an include that $1/ may not have"
}

# only_user HEADER FILE: no other file of the layers includes it.
only_user() {
	find_lines -rnE --include='*.[ch]' "include[[:space:]]*[<\"]$1[>\"]" "${layers[@]}" |
		find_lines -v "^$2:" | say "$1 is for $2 only"
}

layering() {
	may_include format 'format/.*'
	may_include wal '(wal|format)/.*'
	may_include compaction '(compaction|format)/.*'
	may_include store '(store|wal|compaction|format)/.*|cairn_status\.h'
	may_include tools '(tools|format)/.*|store/cairn\.h'
	only_user xxhash.h format/checksum.h
	only_user liburing.h store/io_uring.c
}

# Lines over 100 columns, where a tab goes to the next multiple of 8 and a character of several
# bytes (whose later ones are dropped here) takes one.
columns() {
	LC_ALL=C awk '{
		line = $0
		gsub(/[\200-\277]/, "", line)
		while (i = index(line, "\t"))
			line = substr(line, 1, i - 1) substr("        ", 1 + (i - 1) % 8) \
				substr(line, i + 1)
		if (length(line) > 100)
			print FILENAME ":" FNR ":" $0
	}' "$@"
}

text() {
	local all code
	mapfile -t all < <(files)
	mapfile -t code < <(files \( -name '*.[ch]' -o -name '*.sh' -o -name 'CMake*' -o \
		-path './.ci/*' -o -path './tools/*' ! -name '*.1' ! -name '*.md' \))
	find_lines -nIwE 'FIX[M]E|TO[D]O|X[X]X' "${all[@]}" | say "a leftover"
	find_lines -nIE '[[:space:]]+$' "${all[@]}" | say "trailing space"
	find_lines -nIwE '(strcpy|strcat|v?sprintf|gets|strtok|alloca)[[:space:]]*\(' \
		"${all[@]}" | find_lines '\.[ch]:' | say "a banned function"
	columns "${code[@]}" | say "over 100 columns"
}

# A test program stands in CMakeLists.txt by its name, any other source by its path.
sources() {
	local file name
	files -name '*.c' ! -path './tests/consumer/*' | while read -r file; do
		name=$file
		if [[ $file == tests/*_test.c ]]; then
			name=${file%.c}
			name="cairn_test(${name#tests/}"
		fi
		if ! grep -qwF "$name" CMakeLists.txt; then
			echo "not built: $file"
		fi
	done
}

exports() {
	local declared exported
	declared=$(find_lines '^CAIRN_API ' store/cairn.h |
		grep -oE '\bcairn_[a-z_]+\(' | tr -d '(')
	exported=$(nm --dynamic --defined-only "$1" | awk '{ print $3 }')
	comm -23 <(sort <<<"$declared") <(sort <<<"$exported") | say "declared, not exported"
	comm -13 <(sort <<<"$declared") <(sort <<<"$exported") | say "exported, not declared"
}

broken=$("$@")
if [ -n "$broken" ]; then
	printf '%s\n' "$broken"
	exit 1
fi
