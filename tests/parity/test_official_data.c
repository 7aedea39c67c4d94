/* CIFAR-100 and Fashion-MNIST in the files that are published: downloaded, trained on and
 * evaluated. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/data.h>

#include "pytorch.h"

static char output[16384];

static void yoke_succeeds(const char *words)
{
    const char *program = getenv("YOKE_PROGRAM");
    if (!program || access(program, X_OK) != 0)
        skip_because("the program is not built");
    if (yk_test_command(output, sizeof output, "cd %s && . ./settings && %s %s",
                        yk_test_directory(), program, words) != 0)
        fail_msg("%s", output);
}

/* The accuracy that the last line of `yoke evaluate` gives, in percent. */
static double accuracy(void)
{
    const char *found = strstr(output, "accuracy ");
    assert_non_null(found);
    return strtod(found + strlen("accuracy "), NULL);
}

YK_TEST(published_files_are_downloaded_trained_on_and_evaluated)
{
    if (!yk_download_supported())
        skip_because("this build cannot download (it needs libcurl and libarchive)");
    pytorch_judges("official_data.py", "%s", yk_test_directory());
    yoke_succeeds("train --data cifar100 --augment none --arch mlp --threads 1 --batch-size 50 "
                  "--epochs 3 --lr 0.02 --output cifar");
    assert_contains(output, "mlp on CIFAR-100: 1000 images, 200 for validation");
    yoke_succeeds("evaluate cifar");
    assert_true(accuracy() > 95);
    yoke_succeeds("train --data fashion-mnist --arch mlp --threads 1 --batch-size 50 --epochs 3 "
                  "--lr 0.02 --output fashion");
    assert_contains(output, "mlp on Fashion-MNIST: 1000 images, 200 for validation");
    yoke_succeeds("evaluate fashion");
    assert_true(accuracy() > 95);
    yoke_succeeds("data download");
    assert_contains(output, "cifar10        not downloaded\n");
    assert_contains(output, "/cache/yoke/cifar-100-python\n");
    assert_contains(output, "/cache/yoke/fashion-mnist\n");
    yoke_succeeds("data info fashion-mnist --split test");
    assert_contains(output, "Fashion-MNIST, test: 200 images of 1x28x28 in 10 classes");
    assert_contains(output, "Ankle boot");
}
