/* The program on data of any size and number of classes, and on parts of it. */
#define _GNU_SOURCE
#include "yoke_line.h"

YK_TEST(trains_on_images_of_any_size_and_evaluates_them)
{
    yoke_ends(0, "train --data random:1x28x20,3 --arch mlp --threads 1 --max-steps 2 --output run");
    assert_contains(output, "Training mlp on random: 5000 images, 1000 for validation");
    yoke_ends(0, "evaluate run");
    assert_contains(output, "mlp on random: loss ");
    assert_contains(output, "of 1000)");
}

YK_TEST(trains_on_images_of_any_number_of_channels)
{
    yoke_ends(0, "train --data random:13x16x24,7 --arch mlp --threads 1 --max-steps 2 "
                 "--batch-size 16 --mixup 0.2 --random-erasing 0.5 --output run");
    assert_contains(output, "RandomCrop((16,24),padding=4), RandomHorizontalFlip,\n"
                            "              Normalize(0.5,std=0.25)");
    yoke_ends(0, "evaluate run");
    assert_contains(output, "mlp on random: loss ");
    char accuracy[256];
    snprintf(accuracy, sizeof accuracy, "%s", strstr(output, " on random: "));
    yoke_ends(0, "evaluate --data random:13x16x24,7 run/model.pth"); /* they are not resized */
    assert_contains(output, accuracy);
    yoke_ends(0, "export run model.onnx");
    assert_contains(output, "mlp for 13x16x24 pictures and 7 classes");
    yoke_ends(0, "report run");
    yoke_ends(0, "data info random:5x8x8,2");
    assert_contains(output, "       0       1       2       3       4\n");
    yoke_ends(0, "data preview random:5x8x8,2 --augment 'RandomResizedCrop(8),RandomVerticalFlip'");
    yk_test_write_file(yk_test_path("any.png"), "x", 1);
    yoke_ends(1, "predict run any.png");
    assert_contains(output, "a network for images of 13 channels; pictures have 1 or 3");
    yoke_ends(
        1, "train --data random:2x32x32,2 --augment 'ColorJitter(0.4)' --arch mlp --output other");
    assert_contains(output, "ColorJitter: pictures of 2 channels, not 1 or 3");
}

/* What reads or writes networks of pictures says so, and the report why it shows none. */
#define VIT                                                                                        \
    "train --arch vit-tiny-patch4-32 --threads 1 --optimizer adamw --lr 1e-3 --max-steps 2 "       \
    "--batch-size 16 "

/* And what is made of a run by other commands, and by runs that begin with its weights. */
YK_TEST(vision_transformers_train_with_all_that_other_networks_do)
{
    yoke_ends(0, VIT "--data random:3x16x16,3 --nproc 2 --amp bf16 --recompute --output run");
    yoke_ends(0, "evaluate run");
    assert_contains(output, "vit-tiny-patch4-32 on random: loss ");
    yoke_ends(0, "export run model.onnx");
    yoke_ends(0, VIT "--data random:3x16x16,5 --checkpoint run --freeze '*,!heads.*' --output b");
    assert_contains(output, "the last layer starts from new weights");
    yoke_ends(1, VIT "--data random:3x20x20,3 --checkpoint run --output c");
    assert_contains(output, "encoder.pos_embedding: (1, 17, 192)");
}

#define EFFICIENTNET                                                                               \
    "train --arch efficientnet-b0 --lr 1e-3 --data random:3x32x32,3 --threads 1 --max-steps 2 "    \
    "--batch-size 8 "

/* Batch norm, dropout and stochastic depth in one network. */
YK_TEST(efficientnet_trains_with_all_that_other_networks_do)
{
    yoke_ends(0, EFFICIENTNET "--nproc 2 --sync-bn --amp bf16 --recompute --output run");
    yoke_ends(0, "evaluate run");
    assert_contains(output, "efficientnet-b0 on random: loss ");
    yoke_ends(0, "export run model.onnx");
    yoke_ends(0, EFFICIENTNET "--checkpoint run --freeze '*,!classifier.*' --output b");
}

YK_TEST(networks_of_numbers_are_not_taken_for_those_of_pictures)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s", yk_test_directory());
    int code =
        yk_test_command(output, sizeof output,
                        "cd %s; npy() { printf '\\223NUMPY\\001\\000v\\000%%-117s\\n' "
                        "\"{'descr': '<$2', 'fortran_order': False, 'shape': $3, }\" >$1.npy; "
                        "head -c $4 /dev/zero >>$1.npy; }; npy train_images f4 '(8, 4, 6)' 768; "
                        "npy train_labels i4 '(8,)' 32; echo >any.png",
                        folder);
    assert_int_equal(code, 0);
    yoke_ends(
        0, "train --data npy:. --val-split 0.5 --arch mlp --max-steps 1 --batch-size 4 --threads 1 "
           "--output run");
    yoke_ends(1, "predict run any.png");
    assert_contains(output, ".pth: its network was trained on numbers, not on pictures\n");
    yoke_ends(1, "export run model.onnx");
    assert_contains(output, ".pth: its network was trained on numbers, not on pictures\n");
    yoke_ends(0, "report run && grep -o 'No pictures: [^\"]*' run/report.html");
    assert_contains(output, "No pictures: its data are not pictures of 1 or 3 channels.\n");
}

YK_TEST(a_validation_split_is_held_out_of_training_and_evaluated_again)
{
    yoke_ends(0, "train --data synthetic --val-split 0.3 --arch mlp --threads 1 --max-steps 2 "
                 "--output run");
    assert_contains(output, "3500 images, 1500 for validation");
    yoke_ends(0, "evaluate run");
    assert_contains(output, "of 1500)");
    yoke_ends(2, "train --val-split 1 --data synthetic");
    assert_contains(output, "--val-split 1");
    yoke_ends(1, "train --val-split 0.00001 --data synthetic");
    assert_contains(output, "--val-split 1e-05: of 5000 images in synthetic none would be left for "
                            "validation");
}
