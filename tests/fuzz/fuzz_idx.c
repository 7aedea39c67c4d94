/* IDX files, plain and compressed: the images; the labels are those of one image. */
#include <stdio.h>
#include <stdlib.h>

#include "reader.h"

static void write_labels(const char *folder)
{
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 7};
    char path[128];
    snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte", folder);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(labels, 1, sizeof labels, file) != sizeof labels || fclose(file) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool written;
    /* gzread() passes through what is not compressed. */
    const char *folder = fuzz_folder("train-images-idx3-ubyte.gz");
    if (!written)
        write_labels(folder);
    written = true;
    fuzz_file(data, size);
    fuzz_reader(yk_mnist_open, folder, size);
    return 0;
}
