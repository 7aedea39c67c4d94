/* Packed files. */
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_reader(yk_pack_open, fuzz_file(data, size), size);
    return 0;
}
