/* NULL where training needs a result, a model or a loader: an error, never a crash. */
#include <string.h>

#include "harness.h"

static void assert_invalid(yk_status status, const char *words)
{
    assert_status(YK_ERROR_INVALID_ARGUMENT, status);
    assert_contains(yk_last_error(), words);
}

YK_TEST(what_training_needs_must_not_be_null)
{
    int64_t correct = 1;
    yk_evaluation evaluation = {.count = 1};
    assert_invalid(yk_count_correct(NULL, NULL, NULL), "correct is NULL");
    assert_invalid(yk_count_correct(&correct, NULL, NULL), "model is NULL");
    assert_int_equal(correct, 0);
    assert_invalid(yk_mean_over_ranks(NULL, NULL, 1, 1), "mean is NULL");
    assert_invalid(yk_model_broadcast_buffers(NULL, NULL), "model is NULL");
    assert_invalid(yk_evaluate(NULL, NULL, NULL, NULL), "result is NULL");
    assert_invalid(yk_evaluate(&evaluation, NULL, NULL, NULL), "model is NULL");
    assert_int_equal(evaluation.count, 0);
}
