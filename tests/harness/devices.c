/* Tests on devices whose memory the host cannot touch. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

const char *yk_test_device(const char *device)
{
    const char *instead = getenv("YK_TEST_DEVICE");
    return instead ? instead : device;
}

/* Keeps the memory reachable, so that it is no leak. */
typedef struct kept {
    struct kept *next;
    max_align_t memory[];
} kept;

static void *keep(size_t bytes)
{
    static kept *list;
    kept *made = calloc(1, sizeof *made + bytes);
    if (!made)
        abort();
    made->next = list;
    list = made;
    return made->memory;
}

yk_tensor yk_test_on_host(yk_tensor tensor)
{
    if (!tensor.device || !tensor.data)
        return tensor;
    yk_tensor copy = tensor;
    copy.data = keep(yk_tensor_bytes(&tensor));
    copy.device = NULL;
    assert_ok(yk_tensor_read(&tensor, copy.data));
    return copy;
}

void yk_test_write_back(yk_tensor tensor, yk_tensor on_host)
{
    if (on_host.data != tensor.data)
        assert_ok(yk_tensor_write(&tensor, on_host.data));
}
