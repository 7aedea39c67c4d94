/* A file of tensors, whichever format its bytes say: safetensors, .pth, or what is refused. */
#include "fuzz.h"

#include "files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_tensor_file(fuzz_file(data, size), size);
    return 0;
}
