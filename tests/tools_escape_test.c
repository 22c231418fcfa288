/*
 * Bytes as text and back. The oracle looks at one character at a time and knows nothing of runs of
 * plain bytes.
 */
#include "tests/test.h"

#include "tools/escape.h"

static uint64_t seed_state;

static char *printed(enum cairn_escape escape, const void *bytes, size_t size, size_t *text_size)
{
	char *text = NULL;
	FILE *stream = open_memstream(&text, text_size);
	assert_non_null(stream);
	assert_true(cairn_escape_print(stream, escape, (cairn_slice){bytes, size}));
	assert_int_equal(fclose(stream), 0);
	return text;
}

static int expected_one(enum cairn_escape escape, unsigned char byte, char one[8])
{
	if (escape == CAIRN_ESCAPE_HEX)
		return snprintf(one, 8, "%02x", byte);
	if (byte == '\\')
		return snprintf(one, 8, "\\\\");
	if (byte >= ' ' && byte <= '~')
		return snprintf(one, 8, "%c", byte);
	return snprintf(one, 8, "\\x%02x", byte);
}

static size_t expected_text(
    enum cairn_escape escape, const unsigned char *bytes, size_t size, char *text)
{
	size_t used = 0;
	for (size_t i = 0; i < size; i++) {
		char one[8];
		size_t n = (size_t)expected_one(escape, bytes[i], one);
		memcpy(text + used, one, n);
		used += n;
	}
	return used;
}

static size_t random_bytes(unsigned char *bytes, size_t most)
{
	size_t size = test_random(&seed_state) % (most + 1);
	bool plain = test_random(&seed_state) % 2;
	for (size_t i = 0; i < size; i++) {
		unsigned char byte = (unsigned char)test_random(&seed_state);
		if (plain && test_random(&seed_state) % 8)
			byte = (unsigned char)('a' + byte % 26);
		bytes[i] = test_random(&seed_state) % 16 ? byte : '\\';
	}
	return size;
}

static void every_byte_has_its_one_form(void **state)
{
	(void)state;
	for (unsigned value = 0; value < 256; value++) {
		unsigned char byte = (unsigned char)value;
		for (int escape = CAIRN_ESCAPE_TEXT; escape <= CAIRN_ESCAPE_HEX; escape++) {
			char expected[8];
			size_t size;
			char *text = printed((enum cairn_escape)escape, &byte, 1, &size);
			assert_int_equal(
			    size, expected_text((enum cairn_escape)escape, &byte, 1, expected));
			assert_memory_equal(text, expected, size);
			free(text);
		}
	}
}

static void what_is_printed_is_read_back(void **state)
{
	(void)state;
	for (int i = 0; i < 20000; i++) {
		unsigned char bytes[64], back[256];
		char expected[256];
		enum cairn_escape escape = i % 2 ? CAIRN_ESCAPE_HEX : CAIRN_ESCAPE_TEXT;
		size_t size = random_bytes(bytes, sizeof bytes), text_size, back_size;
		char *text = printed(escape, bytes, size, &text_size);
		assert_int_equal(text_size, expected_text(escape, bytes, size, expected));
		assert_memory_equal(text, expected, text_size);
		for (size_t j = 0; j < text_size; j++)
			assert_in_range((unsigned char)text[j], 0x20, 0x7e);

		assert_true(cairn_escape_decode(escape, text, text_size, back, &back_size));
		assert_int_equal(back_size, size);
		assert_memory_equal(back, bytes, size);
		assert_true(cairn_escape_decode(escape, text, text_size, text, &back_size));
		assert_int_equal(back_size, size);
		assert_memory_equal(text, bytes, size);
		free(text);
	}
}

struct sample {
	const char *text;
	const char *bytes; /* NULL: not valid */
	size_t size;       /* of bytes, or the offset of what is wrong */
};

static void check_samples(enum cairn_escape escape, const struct sample *samples, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		/* A copy of just that size: reading beyond it is seen. */
		size_t size = strlen(samples[i].text), out_size = 999;
		char *text = malloc(size + 1), *out = malloc(size + 1);
		assert_non_null(text);
		assert_non_null(out);
		char *exact = text + 1;
		memcpy(exact, samples[i].text, size);
		bool valid = cairn_escape_decode(escape, exact, size, out, &out_size);
		if (valid != (samples[i].bytes != NULL) || out_size != samples[i].size)
			fail_msg("'%s': %s, %zu", samples[i].text, valid ? "valid" : "not valid",
			    out_size);
		if (valid)
			assert_memory_equal(out, samples[i].bytes, out_size);
		free(text);
		free(out);
	}
}

static void text_is_read_generously_and_escapes_strictly(void **state)
{
	(void)state;
	static const struct sample samples[] = {
	    {"", "", 0},
	    {"plain", "plain", 5},
	    {"\t\n\r\"'", "\t\n\r\"'", 5},
	    {"\xc3\xa9\xff", "\xc3\xa9\xff", 3},
	    {"\\\\", "\\", 1},
	    {"\\\\x41", "\\x41", 4},
	    {"\\x00", "\0", 1},
	    {"\\xfF\\x5c", "\xff\\", 2},
	    {"a\\x09b\\\\c", "a\tb\\c", 5},
	    {"\\x414", "A4", 2},
	    {"\\", NULL, 0},
	    {"ab\\", NULL, 2},
	    {"\\n", NULL, 0},
	    {"\\x", NULL, 0},
	    {"\\x4", NULL, 0},
	    {"\\X41", NULL, 0},
	    {"\\x4g", NULL, 0},
	    {"\\\\\\", NULL, 2},
	    {"\\x41\\xg0", NULL, 4},
	};
	check_samples(CAIRN_ESCAPE_TEXT, samples, sizeof samples / sizeof *samples);
}

static void hex_is_pairs_of_digits(void **state)
{
	(void)state;
	static const struct sample samples[] = {
	    {"", "", 0},
	    {"00", "\0", 1},
	    {"fFa0", "\xff\xa0", 2},
	    {"f", NULL, 0},
	    {"0011f", NULL, 4},
	    {"0g", NULL, 0},
	    {"00 1", NULL, 2},
	    {"0x41", NULL, 0},
	};
	check_samples(CAIRN_ESCAPE_HEX, samples, sizeof samples / sizeof *samples);
}

static void a_failed_stream_is_noticed(void **state)
{
	(void)state;
	FILE *full = fopen("/dev/full", "w");
	if (!full)
		skip();
	setvbuf(full, NULL, _IONBF, 0);
	assert_false(cairn_escape_print(full, CAIRN_ESCAPE_TEXT, (cairn_slice){"record", 6}));
	fclose(full);
}

int main(void)
{
	seed_state = test_seed(20260102);
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_byte_has_its_one_form),
	    cmocka_unit_test(what_is_printed_is_read_back),
	    cmocka_unit_test(text_is_read_generously_and_escapes_strictly),
	    cmocka_unit_test(hex_is_pairs_of_digits),
	    cmocka_unit_test(a_failed_stream_is_noticed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
