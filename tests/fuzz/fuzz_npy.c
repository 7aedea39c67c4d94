/* NumPy arrays. */
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *folder = fuzz_folder("train_images.npy");
    fuzz_file(data, size);
    fuzz_reader(yk_npy_open, folder, size);
    return 0;
}
