/* CIFAR-10's binary version. */
#include "cifar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_cifar("test_batch.bin", data, size);
    return 0;
}
