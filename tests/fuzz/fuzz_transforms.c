/* The text of a list of transforms: what is read is printed so that it is read back to the same. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include <yoke/transforms.h>

static void check_list(const yk_transforms *list)
{
    static const int64_t sizes[][3] = {{3, 32, 32}, {1, 28, 28}, {3, -1, -1}, {3, 500, 375}};
    yk_transforms *again;
    int64_t out[3];
    if (yk_transforms_parse(&again, yk_transforms_text(list)) != YK_OK ||
        yk_transforms_count(again) != yk_transforms_count(list) ||
        strcmp(yk_transforms_text(again), yk_transforms_text(list)) != 0)
        abort();
    yk_transforms_destroy(again);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (yk_transforms_output_size(list, sizes[i], out) == YK_OK &&
            (out[0] < 1 || out[1] < 1 || out[2] < 1))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    yk_transforms *list;
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    fuzz_begin(size);
    yk_status status = yk_transforms_parse(&list, text);
    fuzz_check(status);
    if (status == YK_OK)
        check_list(list);
    yk_transforms_destroy(list);
    fuzz_end();
    free(text);
    return 0;
}
