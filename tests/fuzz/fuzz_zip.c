/* The archive reader: every member of it, by name and by number. */
#include "fuzz.h"

#include <stdlib.h>

#include "io/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    yki_zip *zip;
    const char *path = fuzz_file(data, size);
    fuzz_begin(size);
    yk_status status = yki_zip_open(&zip, path);
    fuzz_check(status);
    for (size_t i = 0; status == YK_OK && i < yki_zip_count(zip); i++) {
        void *member;
        size_t bytes;
        const char *name = yki_zip_name(zip, i);
        if (name)
            yki_zip_find(zip, name);
        yk_status read = yki_zip_read(zip, i, &member, &bytes);
        fuzz_check(read);
        free(member);
    }
    if (status == YK_OK)
        yki_zip_close(zip);
    fuzz_end();
    return 0;
}
