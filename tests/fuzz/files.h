/* Everything that is ever done with a file of tensors, done with the fuzzed one. */
#ifndef FILES_H
#define FILES_H

#include <stddef.h>

/* Looks at all of it, loads it into a model with its optimizer and into a comm hook, and converts
 * it; size is what its memory is measured by. */
void fuzz_tensor_file(const char *path, size_t size);

#endif
