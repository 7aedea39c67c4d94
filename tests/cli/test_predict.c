/* `yoke predict` as a user runs it. */
#define _GNU_SOURCE
#include "train_job.h"

#include "harness.h"

static char said[8192];

/* Predicts with the network of run "a"; the pictures are those of the decoders' tests. */
static int predict(const char *options)
{
    return yk_test_command(said, sizeof said, "cd %s/tests/fuzz/corpus && %s predict %s",
                           getenv("YOKE_SOURCE"), test_program(), options);
}

static const char *with_run(const char *before, const char *pictures)
{
    static char text[1024];
    snprintf(text, sizeof text, "%s %s/a %s", before, yk_test_directory(), pictures);
    return text;
}

static void make_run(void)
{
    assert_int_equal(train("a", "--max-steps 1"), 0);
    if (predict(with_run("", "png/grey_16")) != 0 && strstr(said, "install"))
        skip(); /* built without decoders */
}

YK_TEST(pictures_get_classes_and_probabilities)
{
    make_run();
    assert_int_equal(predict(with_run("--top 2", "jpeg/rgb_444 png/grey_16")), 0);
    assert_contains(said, "jpeg/rgb_444: ");
    assert_contains(said, "\npng/grey_16: ");
    assert_int_equal(count(said, " %"), 4);
    assert_int_equal(predict(with_run("--json --top 10", "jpeg/rgb_444")), 0);
    assert_contains(said, "{\"file\": \"jpeg/rgb_444\", \"predictions\": [{\"class\": ");
    assert_int_equal(count(said, "\"probability\": "), 10);
    assert_contains(said, "\"name\": \"disc\"");
}

YK_TEST(what_cannot_be_predicted_is_said)
{
    make_run();
    assert_int_equal(predict(with_run("", "")), 2);
    assert_contains(said, "expected CHECKPOINT and one IMAGE or more");
    assert_int_equal(predict(with_run("", "png/absent")), 2);
    assert_contains(said, "png/absent: No such file or directory");
    assert_int_equal(predict(with_run("", "png/bomb")), 1);
    assert_contains(said, "png/bomb: a picture of 60000 x 60000 pixels");
    assert_int_equal(predict("png/grey_16 png/grey_16"), 1);
}
