/* The network of `yoke train --arch mlp`, for tests that write or read its checkpoints. */
#ifndef YK_TEST_MLP_H
#define YK_TEST_MLP_H

#include "harness.h"

static inline yk_model *test_mlp(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(yk_mlp(images, 10), labels, NULL), NULL));
    return model;
}

#endif
