/* Which gradients travel together: PyTorch's rule, and its sizes for networks it was seen on. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/model_hooks.h"
#include "parallel/bucket.h"

static const double mebibyte = 1048576;

enum { MAX_BUCKETS = 8 };

/* The buckets of gradients of one dtype that come in the order in which they are listed. */
static size_t plan(yki_bucket *buckets, const size_t *bytes, size_t count, size_t first_cap,
                   size_t cap)
{
    size_t order[MAX_BUCKETS];
    yk_dtype dtypes[MAX_BUCKETS];
    for (size_t i = 0; i < count; i++) {
        order[i] = i;
        dtypes[i] = YK_F32;
    }
    return yki_bucket_plan(buckets, order, bytes, dtypes, count, first_cap, cap);
}

static void assert_bucket(const yki_bucket *bucket, size_t first, size_t count, size_t bytes)
{
    assert_int_equal(bucket->first, first);
    assert_int_equal(bucket->count, count);
    assert_int_equal(bucket->bytes, bytes);
}

YK_TEST(bucket_overshoots_and_never_splits)
{
    yki_bucket buckets[MAX_BUCKETS];
    size_t made = plan(buckets, (size_t[]){60, 60, 500, 10}, 4, 100, 100);
    assert_int_equal(made, 3);
    assert_bucket(&buckets[0], 0, 2, 120);
    assert_bucket(&buckets[1], 2, 1, 500);
    assert_bucket(&buckets[2], 3, 1, 10);
}

YK_TEST(bucket_closes_when_it_reaches_the_cap)
{
    yki_bucket buckets[MAX_BUCKETS];
    assert_int_equal(plan(buckets, (size_t[]){50, 50, 1}, 3, 100, 100), 2);
    assert_bucket(&buckets[0], 0, 2, 100);
    assert_bucket(&buckets[1], 2, 1, 1);
    assert_int_equal(plan(buckets, (size_t[]){50, 49, 1}, 3, 100, 100), 1);
    assert_bucket(&buckets[0], 0, 3, 100);
}

YK_TEST(first_cap_is_the_first_buckets_alone)
{
    yki_bucket buckets[MAX_BUCKETS];
    size_t made = plan(buckets, (size_t[]){10, 10, 10, 10, 10, 10}, 6, 20, 30);
    assert_int_equal(made, 3);
    assert_bucket(&buckets[0], 0, 2, 20);
    assert_bucket(&buckets[1], 2, 3, 30);
    assert_bucket(&buckets[2], 5, 1, 10);
}

YK_TEST(what_is_finished_last_has_a_small_bucket)
{
    yki_bucket buckets[MAX_BUCKETS];
    const size_t bytes[] = {10, 500, 60, 30, 20}, order[] = {0, 1, 2, 3, 4};
    size_t made = plan(buckets, bytes, 5, 10, 1000);
    assert_int_equal(yki_bucket_split_last(buckets, made, order, bytes, 50), 3);
    assert_bucket(&buckets[0], 0, 1, 10);
    assert_bucket(&buckets[1], 1, 2, 560);
    assert_bucket(&buckets[2], 3, 2, 50);
}

YK_TEST(the_very_last_have_a_smaller_one)
{
    yki_bucket buckets[MAX_BUCKETS];
    const size_t bytes[] = {10, 500, 60, 30, 8, 2}, order[] = {0, 1, 2, 3, 4, 5};
    size_t made = plan(buckets, bytes, 6, 10, 1000);
    assert_int_equal(yki_bucket_split_last(buckets, made, order, bytes, 50), 4);
    assert_bucket(&buckets[1], 1, 2, 560);
    assert_bucket(&buckets[2], 3, 1, 30);
    assert_bucket(&buckets[3], 4, 2, 10);
    made = plan(buckets, bytes, 6, 10, 1000);
    assert_int_equal(yki_bucket_split_last(buckets, made, order, bytes, 610), 2); /* it is small */
    assert_bucket(&buckets[1], 1, 5, 600);
}

YK_TEST(a_last_bucket_stays_whole_if_it_is_small_or_ends_with_a_large_gradient)
{
    yki_bucket buckets[MAX_BUCKETS];
    const size_t bytes[] = {10, 20, 30}, order[] = {0, 1, 2};
    assert_int_equal(plan(buckets, bytes, 3, 1000, 1000), 1);
    assert_int_equal(yki_bucket_split_last(buckets, 1, order, bytes, 60), 1);
    assert_int_equal(yki_bucket_split_last(buckets, 1, order, bytes, 29), 1);
    assert_bucket(&buckets[0], 0, 3, 60);
    assert_int_equal(yki_bucket_split_last(buckets, 0, order, bytes, 1), 0);
}

/* Then there are as many buckets as gradients, and no room for another. */
YK_TEST(a_split_that_moves_nothing_needs_no_room)
{
    yki_bucket buckets[4] = {[3] = {.first = 77}};
    const size_t bytes[] = {300, 200, 30}, order[] = {0, 1, 2};
    assert_int_equal(plan(buckets, bytes, 3, 100, 1000), 2);
    assert_int_equal(yki_bucket_split_last(buckets, 2, order, bytes, 100), 3);
    assert_bucket(&buckets[2], 2, 1, 30);
    assert_int_equal(plan(buckets, bytes, 3, 0, 0), 3);
    assert_int_equal(yki_bucket_split_last(buckets, 3, order, bytes, 10), 3);
    assert_int_equal(buckets[3].first, 77);
}

YK_TEST(bucket_holds_one_dtype)
{
    yki_bucket buckets[MAX_BUCKETS];
    const size_t order[] = {3, 2, 1, 0}, bytes[] = {4, 8, 16, 32};
    const yk_dtype dtypes[] = {YK_F32, YK_F64, YK_F64, YK_F32};
    assert_int_equal(yki_bucket_plan(buckets, order, bytes, dtypes, 4, 1000, 1000), 3);
    assert_bucket(&buckets[0], 0, 1, 32);
    assert_bucket(&buckets[1], 1, 2, 24);
    assert_bucket(&buckets[2], 3, 1, 4);
    assert_int_equal(buckets[0].dtype, YK_F32);
    assert_int_equal(buckets[1].dtype, YK_F64);
    assert_int_equal(buckets[2].dtype, YK_F32);
}

YK_TEST(no_gradients_make_no_buckets)
{
    yki_bucket bucket;
    assert_int_equal(yki_bucket_plan(&bucket, NULL, NULL, NULL, 0, 1, 1), 0);
}

/* ---- whole networks, in the order in which their gradients are finished ---------------------- */

static yk_model *make_network(const char *arch)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *loss = yk_cross_entropy(yk_arch_find(arch)(images, 10), labels, NULL);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, loss,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = yk_test_device("ref"))));
    return model;
}

/* The network's bucket sizes under PyTorch's default caps, in MiB with two decimals as it logs
 * them; stem_bytes is the size of the first convolution's gradient. */
static void assert_buckets(const char *arch, size_t stem_bytes, const double *expected,
                           size_t expected_count)
{
    yk_model *model = make_network(arch);
    size_t count = yk_model_parameter_count(model);
    size_t *bytes = calloc(count, sizeof *bytes);
    yk_dtype *dtypes = calloc(count, sizeof *dtypes);
    yki_bucket *buckets = calloc(count, sizeof *buckets);
    assert_true(bytes && dtypes && buckets);
    for (size_t i = 0; i < count; i++) {
        yk_parameter_view parameter = yk_model_parameter(model, i);
        bool stem = strcmp(parameter.name, "conv1.weight") == 0;
        bytes[i] = stem ? stem_bytes : yk_tensor_bytes(&parameter.grad);
        dtypes[i] = parameter.grad.dtype;
    }
    size_t made = yki_bucket_plan(buckets, yki_model_grad_order(model), bytes, dtypes, count,
                                  (size_t)mebibyte, (size_t)(25 * mebibyte));
    assert_int_equal(made, expected_count);
    for (size_t b = 0; b < made; b++)
        if (fabs((double)buckets[b].bytes / mebibyte - expected[b]) > 0.00501)
            fail_msg("%s: bucket %zu has %.4f MiB, expected %.2f", arch, b,
                     (double)buckets[b].bytes / mebibyte, expected[b]);
    free(bytes);
    free(dtypes);
    free(buckets);
    yk_model_destroy(model);
}

YK_TEST(resnet18_has_pytorchs_buckets)
{
    assert_buckets("resnet18-cifar", 64 * 3 * 3 * 3 * 4, (double[]){9.02, 25.27, 8.33}, 3);
}

/* PyTorch was observed with the CIFAR stem, whose first convolution is 3x3 instead of 7x7. */
YK_TEST(resnet50_has_pytorchs_buckets)
{
    assert_buckets("resnet50", 64 * 3 * 3 * 3 * 4, (double[]){4.09, 26.03, 25.04, 25.32, 9.24}, 5);
}

/* Every parameter's gradient comes once, the last layer's first. */
YK_TEST(order_of_gradients_is_a_permutation)
{
    yk_model *model = make_network("resnet18-cifar");
    size_t count = yk_model_parameter_count(model);
    const size_t *order = yki_model_grad_order(model);
    bool seen[64] = {false};
    assert_in_range(count, 1, 64);
    for (size_t i = 0; i < count; i++) {
        assert_in_range(order[i], 0, count - 1);
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
    }
    assert_contains(yk_model_parameter(model, order[0]).name, "fc.");
    assert_contains(yk_model_parameter(model, order[1]).name, "fc.");
    assert_string_equal(yk_model_parameter(model, order[count - 1]).name, "conv1.weight");
    yk_model_destroy(model);
}
