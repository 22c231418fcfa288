/*
 * tests/sample.c -- see sample.h.
 */
#include "tests/test.h"

#include "tests/sample.h"

static size_t below(uint64_t *random, size_t n)
{
	return (size_t)(test_random(random) % n);
}

cairn_slice sample_bytes(uint64_t *random, uint8_t *buffer, size_t size)
{
	for (size_t i = 0; i < size; i += 8) {
		uint64_t bits = test_random(random);
		memcpy(buffer + i, &bits, size - i < 8 ? size - i : 8);
	}
	return (cairn_slice){buffer, size};
}

static size_t number_key(uint64_t *random, uint8_t *buffer, size_t most)
{
	return (size_t)snprintf((char *)buffer, 16, "%zu", below(random, most));
}

/* Each is a prefix of the next. */
static size_t nested_key(uint64_t *random, uint8_t *buffer)
{
	size_t size = 1 + below(random, 70);
	memset(buffer, 'n', size);
	return size;
}

/* Short, of bytes from the ends of the alphabet; the empty key is one of them. */
static size_t edge_key(uint64_t *random, uint8_t *buffer)
{
	static const uint8_t bytes[] = {0x00, 0x01, 0xfe, 0xff};
	size_t size = below(random, 5);
	for (size_t i = 0; i < size; i++)
		buffer[i] = bytes[below(random, sizeof bytes)];
	return size;
}

static size_t ff_key(uint64_t *random, uint8_t *buffer)
{
	size_t size = 1 + below(random, 64);
	memset(buffer, 0xff, size);
	return size;
}

/* Equal but for the last byte or the first. */
static size_t long_key(uint64_t *random, uint8_t *buffer, size_t size, size_t most)
{
	memset(buffer, 'p', size);
	size_t n = below(random, most);
	buffer[n % 8 == 7 ? 0 : size - 1] = (uint8_t)n;
	return size;
}

/* Eight bytes, most significant first. */
static size_t binary_key(uint64_t *random, uint8_t *buffer)
{
	uint64_t n = below(random, 400) * UINT64_C(0x0123456789abcd);
	for (size_t i = 0; i < 8; i++)
		buffer[i] = (uint8_t)(n >> (56 - 8 * i));
	return 8;
}

cairn_slice sample_key(uint64_t *random, uint8_t *buffer)
{
	size_t size, shape = below(random, 4000);
	if (shape < 1920)
		size = number_key(random, buffer, 1000);
	else if (shape < 2320)
		size = nested_key(random, buffer);
	else if (shape < 2800)
		size = edge_key(random, buffer);
	else if (shape < 2960)
		size = ff_key(random, buffer);
	else if (shape < 3400)
		size = long_key(random, buffer, 300, 200);
	else if (shape < 3999)
		size = binary_key(random, buffer);
	else
		size = long_key(random, buffer, SAMPLE_KEY_SIZE, 4);
	return (cairn_slice){buffer, size};
}

cairn_slice sample_bound(uint64_t *random, uint8_t *buffer)
{
	cairn_slice key = sample_key(random, buffer);
	switch (below(random, 5)) {
	case 0:
		key.size -= key.size > 0;
		break;
	case 1:
		if (key.size < SAMPLE_KEY_SIZE)
			buffer[key.size++] = below(random, 2) ? 0 : 0xff;
		break;
	case 2:
		if (key.size)
			buffer[below(random, key.size)] ^= (uint8_t)test_random(random);
		break;
	default:
		break;
	}
	return key;
}

cairn_slice sample_value(uint64_t *random, uint8_t *buffer)
{
	size_t size, shape = below(random, 10000);
	if (shape < 4700)
		size = below(random, 17);
	else if (shape < 9400)
		size = below(random, 201);
	else if (shape < 9900)
		size = below(random, 2001);
	else if (shape < 9990)
		size = below(random, 8193);
	else if (shape < 9999)
		size = below(random, 65537);
	else
		size = below(random, SAMPLE_VALUE_SIZE + 1);
	return sample_bytes(random, buffer, size);
}
