/* The same bits, on whichever devices tensors and models are. */
#ifndef YK_TEST_SAME_H
#define YK_TEST_SAME_H

#include <stdlib.h>
#include <string.h>

#include "harness.h"

static inline void assert_same_tensor(const char *name, yk_tensor a, yk_tensor b)
{
    size_t bytes = yk_tensor_bytes(&a);
    assert_int_equal(yk_tensor_bytes(&b), bytes);
    void *here = malloc(bytes + 1), *there = malloc(bytes + 1);
    assert_ok(yk_tensor_read(&a, here));
    assert_ok(yk_tensor_read(&b, there));
    if (memcmp(here, there, bytes) != 0)
        fail_msg("%s differs", name);
    free(here);
    free(there);
}

/* Parameters and buffers. */
static inline void assert_same_values(const yk_model *a, const yk_model *b)
{
    for (size_t i = 0; i < yk_model_parameter_count(a); i++) {
        yk_parameter_view here = yk_model_parameter(a, i), there = yk_model_parameter(b, i);
        assert_same_tensor(here.name, here.value, there.value);
    }
    for (size_t i = 0; i < yk_model_buffer_count(a); i++) {
        yk_parameter_view here = yk_model_buffer(a, i), there = yk_model_buffer(b, i);
        assert_same_tensor(here.name, here.value, there.value);
    }
}

static inline void assert_same_grads(const yk_model *a, const yk_model *b)
{
    for (size_t i = 0; i < yk_model_parameter_count(a); i++) {
        yk_parameter_view here = yk_model_parameter(a, i), there = yk_model_parameter(b, i);
        assert_same_tensor(here.name, here.grad, there.grad);
    }
}

#endif
