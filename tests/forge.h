/*
 * tests/forge.h -- runs with right checksums and wrong contents: what damage never makes, but bugs
 * and attackers do. Shares no code with the writer; format/README.md says where everything is.
 */
#ifndef CAIRN_TESTS_FORGE_H
#define CAIRN_TESTS_FORGE_H

#include <stddef.h>
#include <stdint.h>

/* Makes the checksums of the sections behind the blocks right, as far as they lie within the file,
 * then those of footer and header. At least a header and a footer long. */
void forge_run(uint8_t *data, size_t size);

#endif
