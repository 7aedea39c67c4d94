/* Whitening filters: the eigen-solver, and that what they see is white. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "nn/whitening.h"

static double draw(int64_t i)
{
    return (double)(yki_mix64((uint64_t)i) >> 11) * 0x1p-52 - 1;
}

/* a v = lambda v, the vectors are orthonormal, the values fall. */
YK_TEST(eigenvectors_of_random_matrices)
{
    enum { MOST = 27 };
    for (int64_t n = 1; n <= MOST; n += 2) {
        double a[MOST * MOST] = {0}, work[MOST * MOST], values[MOST], vectors[MOST * MOST];
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++)
                a[i * n + j] = a[j * n + i] = draw(100 * n + i * MOST + j);
        memcpy(work, a, sizeof work);
        yki_eigen_symmetric(work, n, values, vectors);
        for (int64_t v = 0; v < n; v++) {
            const double *vector = vectors + v * n;
            assert_true(v == 0 || values[v] <= values[v - 1]);
            for (int64_t i = 0; i < n; i++) {
                double image = 0, product = 0;
                for (int64_t j = 0; j < n; j++) {
                    image += a[i * n + j] * vector[j];
                    product += vectors[i * n + j] * vector[j];
                }
                assert_true(fabs(image - values[v] * vector[i]) < 1e-12);
                assert_true(fabs(product - (i == v)) < 1e-12);
            }
        }
    }
}

YK_TEST(a_singular_matrix_has_an_eigenvalue_of_zero)
{
    double a[] = {1, 1, 1, 1}, values[2], vectors[4];
    yki_eigen_symmetric(a, 2, values, vectors);
    assert_true(fabs(values[0] - 2) < 1e-15 && fabs(values[1]) < 1e-15);
    assert_true(fabs(vectors[0] - sqrt(0.5)) < 1e-15 && vectors[0] == vectors[1]);
}

enum { IMAGES = 40, SIDE = 6, CHANNELS = 3, PATCH = CHANNELS * 4 };

static yk_status read_image(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    uint8_t *pixels = yk_field_buffer_reserve(&buffers[0], CHANNELS * SIDE * SIDE);
    (void)data;
    (void)worker;
    for (int i = 0; i < CHANNELS * SIDE * SIDE; i++)
        pixels[i] = (uint8_t)(128 + 60 * draw(index) +
                              30 * draw(1000 + index * 9 + i % (SIDE * SIDE) / 12) +
                              20 * draw(9999 + index * CHANNELS * SIDE * SIDE + i));
    buffers[0].bytes = CHANNELS * SIDE * SIDE;
    *(int32_t *)buffers[1].data = 0;
    return YK_OK;
}

static yk_dataset *correlated_images(void)
{
    const yk_field fields[] = {
        {"images", YK_FIELD_IMAGE, YK_U8, 3, {CHANNELS, SIDE, SIDE}},
        {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}},
    };
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    yk_dataset *data;
    ops.name = "correlated";
    ops.count = IMAGES;
    ops.field_count = 2;
    ops.fields = fields;
    ops.classes = 2;
    ops.read = read_image;
    assert_ok(yk_dataset_create(&data, &ops, NULL));
    return data;
}

/* The convolution's outputs over all patches have E[y y^T] = D / (D + eps), nearly the identity. */
YK_TEST(filters_make_patches_white)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, CHANNELS, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *weight = yk_parameter(graph, "whiten.weight", YK_F32, 4,
                                    (int64_t[]){2 * PATCH, CHANNELS, 2, 2}, YK_INIT_DIRAC, 0);
    yk_value *y = yk_flatten(yk_conv2d(x, weight, NULL, NULL));
    yk_model *model;
    yk_dataset *data = correlated_images();
    yk_loader *loader;
    yk_tensor out;
    assert_ok(yk_model_create(&model, yk_cross_entropy(y, labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = y)));
    assert_ok(
        yk_loader_create(&loader, data,
                         YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = IMAGES,
                                 o.transforms = "Normalize(0.5,0.25)")));
    assert_ok(yk_whiten_conv2d(
        model, "whiten.weight", loader,
        YK_WITH(yk_whiten_options, YK_WHITEN_OPTIONS_INIT, o.count = IMAGES, o.eps = 1e-9)));
    assert_ok(yk_loader_seek(loader, 0, 0));
    assert_ok(yk_model_forward(model, yk_loader_next(loader)));
    assert_ok(yk_model_output(model, &out));
    enum { PLACES = (SIDE - 1) * (SIDE - 1) };
    const float *values = out.data; /* (N, 2 PATCH, PLACES) */
    for (int a = 0; a < 2 * PATCH; a++)
        for (int b = 0; b < 2 * PATCH; b++) {
            double sum = 0;
            for (int n = 0; n < IMAGES; n++)
                for (int p = 0; p < PLACES; p++)
                    sum += (double)values[(n * 2 * PATCH + a) * PLACES + p] *
                           (double)values[(n * 2 * PATCH + b) * PLACES + p];
            double expected = a == b ? 1 : a % PATCH == b % PATCH ? -1 : 0;
            assert_true(fabs(sum / (IMAGES * PLACES) - expected) < 1e-3);
        }
    assert_status(YK_ERROR_NOT_FOUND, yk_whiten_conv2d(model, "conv.weight", loader, NULL));
    yk_loader_destroy(loader);
    yk_dataset_destroy(data);
    yk_model_destroy(model);
}
