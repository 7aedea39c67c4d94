/* Shards of WebDataset. */
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_reader(yk_shards_open, fuzz_file(data, size), size);
    return 0;
}
