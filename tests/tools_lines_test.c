/*
 * Lines from files and pipes: short and long ones, with reads that end anywhere.
 */
#include "tests/test.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "tools/lines.h"

static uint64_t seed_state;

/* What a thread puts into a pipe, in pieces of uneven size. */
struct feed {
	int descriptor;
	const char *data;
	size_t size;
	uint64_t random;
	bool whole;
};

static void *feed_run(void *argument)
{
	struct feed *feed = argument;
	size_t done = 0;
	while (done < feed->size) {
		size_t piece = feed->whole ? feed->size : 1 + test_random(&feed->random) % 5000;
		if (piece > feed->size - done)
			piece = feed->size - done;
		ssize_t n = write(feed->descriptor, feed->data + done, piece);
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	close(feed->descriptor);
	return NULL;
}

/* Reads `data` through a pipe and compares with the lines that a plain loop over its bytes finds.
 */
static void check_through_pipe(const char *data, size_t size, bool whole)
{
	int ends[2];
	pthread_t thread;
	assert_int_equal(pipe(ends), 0);
	struct feed feed = {ends[1], data, size, test_random(&seed_state), whole};
	assert_int_equal(pthread_create(&thread, NULL, feed_run, &feed), 0);

	struct cairn_lines lines;
	cairn_lines_init(&lines, ends[0], SIZE_MAX / 2);
	size_t start = 0;
	uint64_t number = 0;
	char *line;
	size_t line_size;
	while (start < size) {
		size_t end = start;
		while (end < size && data[end] != '\n')
			end++;
		assert_int_equal(cairn_lines_next(&lines, &line, &line_size), 1);
		assert_int_equal(lines.number, ++number);
		assert_int_equal(line_size, end - start);
		assert_memory_equal(line, data + start, line_size);
		memset(line, '\n', line_size); /* it is ours to change */
		start = end + 1;
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(cairn_lines_next(&lines, &line, &line_size), 0);
	assert_int_equal(lines.number, number);
	cairn_lines_release(&lines);
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(ends[0]);
}

static void check_text(const char *text)
{
	check_through_pipe(text, strlen(text), true);
}

static void the_last_newline_is_optional_and_empty_lines_count(void **state)
{
	(void)state;
	check_text("");
	check_text("\n");
	check_text("\n\n\n");
	check_text("one");
	check_text("one\n");
	check_text("one\n\ntwo");
	check_through_pipe("\0\n\0", 3, true);
}

static void lines_of_all_sizes_arrive_whole(void **state)
{
	(void)state;
	size_t capacity = (size_t)8 << 20, size = 0;
	char *data = malloc(capacity);
	assert_non_null(data);
	/* From empty to longer than the first two sizes of the buffer. */
	static const size_t sizes[] = {0, 1, 100, 5000, 70000, 1 << 20, 3000000};
	while (size < capacity - 3000001) {
		size_t pick = test_random(&seed_state) % 40;
		size_t line = pick < 7 ? sizes[pick] : pick * 50;
		memset(data + size, 'a' + (int)(pick % 26), line);
		size += line;
		data[size++] = '\n';
	}
	check_through_pipe(data, size, true);
	check_through_pipe(data, size, false);
	check_through_pipe(data, size - 1, false);
	free(data);
}

static void a_line_may_fill_the_buffer_to_the_last_byte(void **state)
{
	(void)state;
	for (size_t around = ((size_t)1 << 20) - 2; around <= ((size_t)1 << 20) + 2; around++) {
		char *data = malloc(2 * around + 2);
		assert_non_null(data);
		memset(data, 'x', 2 * around + 2);
		data[around] = '\n';
		check_through_pipe(data, around + 1, true);
		check_through_pipe(data, 2 * around + 2, true);
		free(data);
	}
}

static void a_line_beyond_the_limit_is_refused_by_number(void **state)
{
	(void)state;
	int ends[2];
	struct cairn_lines lines;
	char *line;
	size_t size;
	static const char *const texts[] = {"12345678\n123456789\nx\n", "12345678\n123456789"};
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(pipe(ends), 0);
		assert_int_equal(write(ends[1], texts[i], strlen(texts[i])), strlen(texts[i]));
		close(ends[1]);
		cairn_lines_init(&lines, ends[0], 8);
		assert_int_equal(cairn_lines_next(&lines, &line, &size), 1);
		assert_int_equal(size, 8);
		assert_int_equal(cairn_lines_next(&lines, &line, &size), -EFBIG);
		assert_null(line);
		assert_int_equal(lines.number, 2);
		cairn_lines_release(&lines);
		close(ends[0]);
	}
}

/* An endless line takes memory in proportion to the limit, not to what comes. */
static void an_endless_line_ends(void **state)
{
	(void)state;
	struct cairn_lines lines;
	char *line;
	size_t size;
	FILE *zeros = fopen("/dev/zero", "r");
	if (!zeros)
		skip();
	cairn_lines_init(&lines, fileno(zeros), 1 << 16);
	assert_int_equal(cairn_lines_next(&lines, &line, &size), -EFBIG);
	assert_true(lines.capacity <= (size_t)4 << 20);
	cairn_lines_release(&lines);
	fclose(zeros);
}

static void a_failed_read_is_passed_up(void **state)
{
	(void)state;
	struct cairn_lines lines;
	char *line;
	size_t size;
	cairn_lines_init(&lines, -1, 8);
	assert_int_equal(cairn_lines_next(&lines, &line, &size), -EBADF);
	assert_int_equal(lines.number, 1);
	cairn_lines_release(&lines);
}

int main(void)
{
	seed_state = test_seed(20260103);
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_last_newline_is_optional_and_empty_lines_count),
	    cmocka_unit_test(lines_of_all_sizes_arrive_whole),
	    cmocka_unit_test(a_line_may_fill_the_buffer_to_the_last_byte),
	    cmocka_unit_test(a_line_beyond_the_limit_is_refused_by_number),
	    cmocka_unit_test(an_endless_line_ends),
	    cmocka_unit_test(a_failed_read_is_passed_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
