/* Augmentation on the command line: presets, lists, and what evaluation makes of them. */
#define _GNU_SOURCE
#include "yoke_line.h"

#define TRAIN "train --arch mlp --threads 1 --max-steps 2 --output run "

YK_TEST(a_preset_brings_photographs_to_the_size_of_the_network)
{
    yoke_ends(0, TRAIN
              "--data random:3x48x40,5 --augment imagenet --image-size 24 --color-jitter 0.4");
    assert_contains(output, "  images      RandomResizedCrop(24), RandomHorizontalFlip,\n"
                            "              ColorJitter(0.4,0.4,0.4), Normalize(cifar10)\n");
    yoke_ends(0, "evaluate run"); /* at the same size */
    assert_contains(output, "of 1000)");
}

YK_TEST(the_usual_augmentation_depends_on_the_data)
{
    yoke_ends(0, TRAIN "--data random:3x28x20,3");
    assert_contains(output, "RandomCrop((28,20),padding=4), RandomHorizontalFlip,");
    yoke_ends(0, "train --arch mlp --threads 1 --max-steps 2 --data random:1x28x20,3");
    assert_contains(output, "images      Normalize(");
}

YK_TEST(a_list_is_trained_with_and_evaluated_by_its_fixed_form)
{
    yoke_ends(0, TRAIN "--data random:3x48x40,5 --augment \"RandomCrop(32,padding=2),RandAugment,"
                       "Normalize(0.5,0.25),RandomErasing\"");
    yoke_ends(0, "evaluate run");
    char accuracy[256];
    snprintf(accuracy, sizeof accuracy, "%s", strstr(output, " on random: "));
    yoke_ends(0, "evaluate --data random:3x48x40,5 run/model.pth"); /* which says it, too */
    assert_contains(output, accuracy);
    yoke_ends(1, "evaluate --image-size 16 run");
    assert_contains(output, "does not fit the model");
    yoke_ends(1, "train --arch mlp --data random:3x48x40,5 --augment \"CenterCrop(32)\" "
                 "--eval-transforms \"CenterCrop(24)\"");
    assert_contains(output, "training pictures become 3x32x32, but those of evaluation 3x24x24");
}

/* Pictures that are resized in another way are others to the network. */
YK_TEST(evaluation_resizes_as_training_does)
{
    char derived[256];
#define NEAREST                                                                                    \
    "train --arch mlp --threads 1 --max-steps 2 --data random:3x48x40,5 "                          \
    "--augment 'RandomResizedCrop((20,24),interpolation=nearest),Normalize(0.5,0.25)' "
    yoke_ends(0, NEAREST "--output run");
    snprintf(derived, sizeof derived, "%.40s", strstr(output, "validation loss"));
    yoke_ends(0, NEAREST "--output other --eval-transforms 'Resize(27,interpolation=nearest),"
                         "CenterCrop((20,24)),Normalize(0.5,0.25)'");
    assert_contains(output, derived);
}

YK_TEST(mistakes_in_augmentation_are_usage_errors)
{
    yoke_ends(2, "train --augment cfar");
    assert_contains(output, "yoke train: --augment: transforms: there is no \"cfar\"");
    yoke_ends(2, "train --augment \"CenterCrop(32)\" --color-jitter 1");
    assert_contains(output, "--color-jitter applies to the presets");
    yoke_ends(2, "train --data synthetic --color-jitter 100"); /* factors are at most 1 + 99 */
    assert_contains(output, "--color-jitter 100: expected a number from 0 to 99");
    yoke_ends(2, "train --eval-transforms \"Resize\"");
    assert_contains(output, "Resize needs its size");
}

/* This one was cut off before its Normalize. */
YK_TEST(lists_that_are_too_long_are_refused)
{
    char words[4096] =
        "train --arch mlp --data random:3x8x8,2 --max-steps 1 --output run --augment '";
    for (int i = 0; i < 84; i++)
        strcat(words, "RandomVerticalFlip(0.1),");
    strcat(words, "RandomGrayscale,RandomGrayscale,Normalize(imagenet)'");
    yoke_ends(1, words);
    assert_contains(output, "transforms: a list of more than 2046 characters");
}

YK_TEST(pictures_without_a_size_are_one_line)
{
    char pictures[1024];
    const char *source = getenv("YOKE_SOURCE");
    snprintf(pictures, sizeof pictures,
             "cd %s && mkdir -p d/a && cp %s/tests/fuzz/corpus/png/rgb d/a/1.png && "
             "cp d/a/1.png d/a/2.png",
             yk_test_directory(), source);
    assert_int_equal(yk_test_command(output, sizeof output, "%s", pictures), 0);
    yoke_ends(1, "train --data folder:d --val-split 0.5 --augment \"Resize(64)\" --arch mlp");
    assert_contains(output, "yoke: --augment: transforms: the pictures are of different sizes, and "
                            "\"Resize(64)\" leaves them so; add CenterCrop");
    assert_ptr_equal(strchr(output, '\n'), strrchr(output, '\n'));
}

YK_TEST(pictures_that_are_all_too_small_are_not_to_be_left_out)
{
    char pictures[1024];
    const char *folder = yk_test_directory(), *source = getenv("YOKE_SOURCE");
    snprintf(pictures, sizeof pictures,
             "mkdir -p %s/d/a && for i in 1 2 3 4; do cp %s/tests/fuzz/corpus/png/rgb "
             "%s/d/a/$i.png; done",
             folder, source, folder);
    assert_int_equal(yk_test_command(output, sizeof output, "%s", pictures), 0);
    yoke_ends(1, TRAIN "--data folder:d --val-split 0.5 --augment \"RandomCrop(200)\"");
    assert_contains(output, "(use --skip-damaged to leave it out)");
    yoke_ends(1,
              TRAIN "--data folder:d --val-split 0.5 --augment \"RandomCrop(200)\" --skip-damaged");
    assert_contains(output, "2 damaged samples in a row: ");
    assert_null(strstr(output, "use --skip-damaged"));
}

YK_TEST(amounts_keep_all_their_digits)
{
    yoke_ends(0, TRAIN "--data random:3x8x8,5 --color-jitter 0.123456789012 --mixup "
                       "123456.75 --cutmix 0.1 --random-erasing 0.1234567");
    assert_contains(output, "ColorJitter(0.123456789012,0.123456789012,0.123456789012)");
    assert_contains(output, "RandomErasing(0.1234567)");
    assert_contains(output, "MixUp(123456.75)");
    assert_contains(output, "CutMix(0.1)");
}

YK_TEST(numbers_are_augmented_by_mixing_alone)
{
    char file[512];
    snprintf(file, sizeof file,
             "mkdir -p %s && cd %s; npy() { printf '\\223NUMPY\\001\\000v\\000%%-117s\\n' "
             "\"{'descr': '<$2', "
             "'fortran_order': False, 'shape': $3, }\" >$1.npy; head -c $4 /dev/zero >>$1.npy; };"
             "npy train_images f4 '(8, 4, 2, 2)' 512; npy train_labels i4 '(8,)' 32",
             yk_test_directory(), yk_test_directory());
    assert_int_equal(yk_test_command(output, sizeof output, "%s", file), 0);
    yoke_ends(0, TRAIN "--data npy:. --val-split 0.5 --batch-size 2 --mixup 0.2");
    assert_contains(output, "images      MixUp(0.2)");
    yoke_ends(1, "train --arch mlp --data npy:. --val-split 0.5 --augment cifar");
    assert_contains(output, "--augment cifar: the data are numbers, not pictures");
    yoke_ends(1, "train --arch mlp --data npy:. --val-split 0.5 --augment \"CenterCrop(2)\"");
    assert_contains(output, "expected MixUp, CutMix or OneHot alone");
    yoke_ends(1, "train --arch mlp --data npy:. --val-split 0.5 --image-size 8");
    assert_contains(output, "leave out options that change pictures");
}

/* Arrays of 8 grey pictures of 9x9 for training, and others for testing. */
static void write_arrays(const char *test_shape, int test_bytes)
{
    char commands[768];
    snprintf(commands, sizeof commands,
             "mkdir -p %s && cd %s; npy() { printf '\\223NUMPY\\001\\000v\\000%%-117s\\n' "
             "\"{'descr': '$2', 'fortran_order': False, 'shape': $3, }\" >$1.npy; "
             "head -c $4 /dev/zero >>$1.npy; };"
             "npy train_images '|u1' '(8, 9, 9)' 648; npy train_labels '<i4' '(8,)' 32;"
             "npy test_images '|u1' '%s' %d; npy test_labels '<i4' '(8,)' 32",
             yk_test_directory(), yk_test_directory(), test_shape, test_bytes);
    assert_int_equal(yk_test_command(output, sizeof output, "%s", commands), 0);
}

YK_TEST(images_for_validation_have_the_size_of_those_for_training)
{
    write_arrays("(8, 9, 8)", 576);
    yoke_ends(1, "train --arch mlp --data npy:.");
    assert_contains(output, "yoke: NumPy arrays: images for validation are 1x9x8, those for "
                            "training 1x9x9: --image-size brings pictures to one size\n");
    yoke_ends(0, TRAIN "--data npy:. --image-size 9 --batch-size 4");
    write_arrays("(8, 9, 8, 3)", 1728);
    yoke_ends(1, "train --arch mlp --data npy:.");
    assert_contains(output, "are 3x9x8, those for training 1x9x9\n"); /* its size is not all */
}

YK_TEST(images_too_small_for_a_network_are_one_line)
{
    yoke_ends(1, "train --data synthetic --image-size 7 --arch vgg11");
    assert_string_equal(output, "yoke: --arch vgg11 takes images of 32x32 and more, not of 7x7: "
                                "choose a larger --image-size\n");
}

/* Larger ones would not do either. */
YK_TEST(images_that_are_no_whole_patches_are_one_line)
{
    yoke_ends(1, "train --data synthetic --image-size 30 --arch vit-tiny-patch4-32");
    assert_string_equal(output,
                        "yoke: vision transformer: images have shape (N, 3, 30, 30), whose sides "
                        "are not multiples of the patches' 4\n");
}

YK_TEST(mixed_labels_train_and_are_evaluated_as_what_they_are)
{
    yoke_ends(0, TRAIN "--data synthetic --mixup 0.2 --cutmix 1 --label-smoothing 0.1");
    assert_contains(output, "MixUp(0.2), CutMix");
    yoke_ends(0, "evaluate run");
    assert_contains(output, "of 1000)");
}
