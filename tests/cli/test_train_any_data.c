/* The program on data of any size and number of classes, and on parts of it. */
#define _GNU_SOURCE
#include "yoke_line.h"

YK_TEST(trains_on_images_of_any_size_and_evaluates_them)
{
    yoke(0, "train --data random:1x28x20,3 --arch mlp --threads 1 --max-steps 2 --output run");
    assert_contains(output, "Training mlp on random: 5000 images, 1000 for validation");
    yoke(0, "evaluate run");
    assert_contains(output, "mlp on random: loss ");
    assert_contains(output, "of 1000)");
}

YK_TEST(a_validation_split_is_held_out_of_training_and_evaluated_again)
{
    yoke(0, "train --data synthetic --val-split 0.3 --arch mlp --threads 1 --max-steps 2 "
            "--output run");
    assert_contains(output, "3500 images, 1500 for validation");
    yoke(0, "evaluate run");
    assert_contains(output, "of 1500)");
    yoke(2, "train --val-split 1 --data synthetic");
    assert_contains(output, "--val-split 1");
}
