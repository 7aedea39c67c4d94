/* The data for validation and for training: what does not fit is said before the first step. */
#define _GNU_SOURCE
#include "yoke_line.h"

#define TRAIN                                                                                      \
    "train --arch mlp --threads 1 --batch-size 2 --image-size 8 --augment none --epochs 1 "

static void shell(const char *commands)
{
    const char *source = getenv("YOKE_SOURCE");
    int code = yk_test_command(output, sizeof output,
                               "set -e; PNG=%s/tests/fuzz/corpus/png/rgb; "
                               "cd %s; %s",
                               source ? source : ".", yk_test_directory(), commands);
    if (code != 0)
        fail_msg("%s", output);
}

/* NAME.tar with a picture of each class from 0 on, for as many as each name says. */
static void write_shards(void)
{
    shell("for n in 2 3 4; do for i in $(seq 0 $((n - 1))); do cp $PNG $i.png; echo $i > $i.cls; "
          "tar rf $n.tar $i.png $i.cls; done; done");
}

YK_TEST(labels_for_validation_are_checked_before_the_first_step)
{
    write_shards();
    yoke_ends(1, TRAIN "--data shards:3.tar::4.tar --output run");
    assert_contains(output, "4.tar: labels for validation go up to 3, but the network tells 3 "
                            "classes apart, as there are for training: --classes 4 adds others");
    assert_null(strstr(output, "epoch 1/1"));
    yoke_ends(0, TRAIN "--data shards:3.tar::4.tar --classes 4 --output run");
    yoke_ends(0, TRAIN "--data shards:3.tar::2.tar --output other");
}

YK_TEST(data_for_validation_may_have_fewer_classes_than_probabilities)
{
    write_shards();
    yoke_ends(0, TRAIN "--data shards:3.tar::2.tar --mixup 0.2 --output run");
    yoke_ends(0, "evaluate run");
    assert_contains(output, "of 2)");
    yoke_ends(0, TRAIN "--data shards:2.tar::3.tar --mixup 0.2 --classes 3 --output other");
}

YK_TEST(classes_have_the_same_names_for_validation)
{
    shell(
        "for c in ant/bee ant/cat ant/dog bat/bee bat/dog; do mkdir -p $c; cp $PNG $c/a.png; done");
    shell("mkdir ab ba");
    yoke_ends(0, "data pack folder:ant -o ab/train.pack && cp ab/train.pack ba/val.pack");
    yoke_ends(0, "data pack folder:bat -o ab/val.pack && cp ab/val.pack ba/train.pack");
    yoke_ends(1, TRAIN "--data pack:ab --output run");
    assert_contains(output,
                    "ab/val.pack: class 1 is \"dog\" for validation and \"cat\" for training: "
                    "expected the same classes");
    yoke_ends(1, TRAIN "--data pack:ba --output run");
    assert_contains(output, "labels for validation go up to 2");
}

YK_TEST(missing_files_for_validation_are_named)
{
    write_shards();
    yoke_ends(1, TRAIN "--data 'shards:2.tar::{2,5}.tar' --output run");
    assert_contains(output, "/5.tar: cannot open it: No such file or directory");
    assert_null(strstr(output, "--val-split"));
    yoke_ends(1, TRAIN "--data shards:2.tar --output run");
    assert_contains(output, "2.tar: no shards for validation");
    assert_contains(output, "--val-split");
    yoke_ends(1, "data info shards:2.tar --split val");
    assert_contains(output, "2.tar: no shards for validation");
    assert_null(strstr(output, "--val-split")); /* that command has no such option */
    shell("mkdir -p d/bee; cp $PNG d/bee/a.png");
    yoke_ends(1, TRAIN "--data d --output run");
    assert_contains(output, "/d: no images for validation (--val-split keeps part of the training "
                            "images for validation)");
    yoke_ends(1, "data info d --split val");
    assert_contains(output, "d: no images for validation");
    assert_null(strstr(output, "--val-split"));
    shell("mkdir nothing");
    yoke_ends(1, "data info nothing --split val");
    assert_contains(output, "nothing: no data that yoke knows: expected CIFAR-10, ");
}

YK_TEST(there_are_images_for_validation)
{
    shell("npy() { printf '\\223NUMPY\\001\\000v\\000%-117s\\n' \"{'descr': '$2', 'fortran_order': "
          "False, 'shape': $3, }\" >$1.npy; head -c $4 /dev/zero >>$1.npy; }; "
          "npy train_images '|u1' '(4, 8, 8)' 256; npy train_labels '|u1' '(4,)' 4; "
          "npy test_images '|u1' '(0, 8, 8)' 0; npy test_labels '|u1' '(0,)' 0");
    yoke_ends(1, TRAIN "--data npy:. --output run");
    assert_contains(output, ": there are 0 images for validation");
}
