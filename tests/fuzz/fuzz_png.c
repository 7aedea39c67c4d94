/* PNG pictures. */
#include "picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_picture(data, size);
    return 0;
}
