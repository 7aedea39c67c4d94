/*
 * A .pth file whose pickle is the input, in an archive that is sound: its checksums would keep the
 * fuzzer out otherwise. Storages "0" and "1" have 4 and 24 bytes.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files.h"
#include "io/zip.h"

static yk_status write_archive(int fd, const uint8_t *pickle, size_t size)
{
    static const float storages[] = {1, 2, 3, 4, 5, 6};
    yki_zip_writer *writer;
    yk_status status = yki_zip_writer_create(&writer, fd, "fuzzed");
    if (status != YK_OK)
        return status;
    if (yki_zip_writer_add(writer, "archive/data.pkl", pickle, size) != YK_OK ||
        yki_zip_writer_add(writer, "archive/data/0", storages, sizeof *storages) != YK_OK ||
        yki_zip_writer_add(writer, "archive/data/1", storages, sizeof storages) != YK_OK)
        abort();
    return yki_zip_writer_finish(writer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0 ||
        write_archive(fd, data, size) != YK_OK)
        abort();
    fuzz_tensor_file(path, size + 1024);
    return 0;
}
