/* The manifest of a folder of checkpoints. */
#include "fuzz.h"

#include <stdlib.h>

#include "checkpoint/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    yki_manifest manifest;
    const char *folder = fuzz_folder("manifest.json");
    fuzz_file(data, size);
    fuzz_begin(size);
    fuzz_check(yki_manifest_read(&manifest, folder));
    for (size_t i = 0; i < manifest.count; i++)
        if (!yki_is_checkpoint_name(manifest.entries[i].file) || manifest.entries[i].bytes < 0)
            abort();
    if (manifest.saving.file[0] && !yki_is_checkpoint_name(manifest.saving.file))
        abort();
    yki_manifest_fini(&manifest);
    fuzz_end();
    return 0;
}
