/* Lists of transforms: their texts, their defaults and bounds, and the sizes that come out. */
#include "harness.h"

#include <string.h>

#include <yoke/transforms.h>

static void reads_back(const char *text, const char *expected)
{
    yk_transforms *list, *again;
    assert_ok(yk_transforms_parse(&list, text));
    assert_string_equal(yk_transforms_text(list), expected);
    assert_ok(yk_transforms_parse(&again, yk_transforms_text(list)));
    assert_int_equal(yk_transforms_count(list), yk_transforms_count(again));
    for (int i = 0; i < yk_transforms_count(list); i++)
        assert_memory_equal(yk_transforms_step(list, i), yk_transforms_step(again, i),
                            sizeof(yk_transform_step));
    yk_transforms_destroy(list);
    yk_transforms_destroy(again);
}

YK_TEST(texts_are_read_and_written)
{
    reads_back("", "");
    reads_back(" RandomResizedCrop( 224 ) , randomhorizontalflip()",
               "RandomResizedCrop(224),RandomHorizontalFlip");
    reads_back("RandomResizedCrop((128,96), (0.2,1), ratio=[3/4,4/3], interpolation=bicubic)",
               "RandomResizedCrop((128,96),scale=(0.2,1),interpolation=bicubic)");
    reads_back("Resize(256),CenterCrop(224),Normalize(imagenet)",
               "Resize(256),CenterCrop(224),Normalize(imagenet)");
    reads_back("Resize((224,224)),RandomCrop(32,padding=4)",
               "Resize((224,224)),RandomCrop(32,padding=4)");
    reads_back("RandomCrop(32,2,padding_mode=Reflect),AlternatingHorizontalFlip",
               "RandomCrop(32,padding=2,padding_mode=reflect),AlternatingHorizontalFlip");
    reads_back("ColorJitter(0.4, 0.4, saturation=(0.5,2), hue=0.1)",
               "ColorJitter((0.6,1.4),contrast=(0.6,1.4),saturation=(0.5,2),hue=(-0.1,0.1))");
    reads_back("RandAugment,RandAugment(3,7),Grayscale(3),RandomGrayscale",
               "RandAugment,RandAugment(3,magnitude=7),Grayscale(3),RandomGrayscale");
    reads_back("ToTensor,Normalize(0.5,0.25),RandomErasing(0.25,value=random),MixUp(0.2),CutMix",
               "ToTensor,Normalize(0.5,std=0.25),RandomErasing(0.25,value=random),MixUp(0.2),"
               "CutMix");
    reads_back("Normalize((0.5,),(0.25, ))", "Normalize(0.5,std=0.25)");
    reads_back("Normalize(mean=(0.1,0.2,0.3),std=(0.4,0.5,0.6))",
               "Normalize((0.1,0.2,0.3),std=(0.4,0.5,0.6))");
}

static void refused(const char *text, const char *why)
{
    yk_transforms *list = (void *)1;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_transforms_parse(&list, text));
    assert_null(list);
    assert_non_null(strstr(yk_last_error(), why));
}

YK_TEST(mistakes_are_named)
{
    refused("RandmCrop(32)", "there is no \"RandmCrop\"; there are Resize, CenterCrop");
    refused("Resize", "Resize needs its size, as in Resize(224)");
    refused("Normalize()", "Normalize needs its mean");
    refused("CenterCrop(32", "expected \",\" or \")\" at character 14, where the list ends");
    refused("CenterCrop(32) Resize(3)", "expected \",\" at character 16");
    refused("CenterCrop(32),", "the name of a transform");
    refused("CenterCrop(x)", "size is not a whole number");
    refused("CenterCrop(3.5)", "size is not a whole number");
    refused("CenterCrop(0)", "size is 0: expected 1 to 65535");
    refused("CenterCrop(nan)", "size is not");
    refused("CenterCrop(32, 5)", "CenterCrop takes fewer parameters; it has size");
    refused("RandomCrop(32, pading=4)",
            "RandomCrop has no parameter \"pading\"; there are size, padding, padding_mode");
    refused("CenterCrop(32, pad=5)", "no parameter \"pad\"");
    refused("RandomHorizontalFlip(2)", "p is 2: expected 0 to 1");
    refused("RandomResizedCrop(224,scale=(1,0.5))", "must not be the larger");
    refused("RandomCrop(32,2,padding_mode=mirror)", "padding_mode is not constant or reflect");
    refused("AlternatingHorizontalFlip(0.5)", "takes fewer parameters; it has none");
    refused("RandAugment(2,31)", "less than num_magnitude_bins");
    refused("Grayscale(2)", "expected 1 or 3");
    refused("Normalize(imgnet)", "Normalize knows no data \"imgnet\"; it knows imagenet, cifar10, "
                                 "cifar100, mnist, fashion-mnist, and takes numbers, as in "
                                 "Normalize(0.5,0.25)");
    refused("Normalize(mean=imagenet)", "mean is not");
    refused("Normalize((1,2))", "mean is not");
    refused("Normalize((1,2,3,4))", "no more than 3 numbers");
    refused("Normalize((,))", "expected a number");
    refused("Normalize((1,,))", "expected a number");
    refused("Normalize(0,0)", "std is 0");
    refused("Normalize(imagenet),CenterCrop(3)", "CenterCrop must come before Normalize");
    refused("MixUp,RandomErasing", "RandomErasing must come before MixUp");
    refused("Normalize(0.5),Normalize(0.5)", "Normalize is listed twice");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_transforms_parse(NULL, ""));
    yk_transforms *list;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_transforms_parse(&list, NULL));
}

/* A checkpoint may hold texts of any length. */
YK_TEST(numbers_are_divided_once)
{
    enum { DIVISIONS = 1 << 21 };
    static char text[2 * DIVISIONS + 16] = "Normalize(";
    yk_transforms *list;
    reads_back("Normalize(1/4)", "Normalize(0.25)");
    for (int i = 0; i < DIVISIONS; i++)
        strcpy(text + 10 + 2 * i, "1/");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_transforms_parse(&list, text));
    assert_contains(yk_last_error(), "at character 14, before \"/1/1");
}

YK_TEST(lists_are_made_of_structs)
{
    yk_transform_step steps[] = {yk_transform_step_of(YK_TRANSFORM_RANDOM_RESIZED_CROP),
                                 yk_transform_step_of(YK_TRANSFORM_COLOR_JITTER),
                                 yk_transform_step_of(YK_TRANSFORM_RANDOM_ERASING)};
    steps[0].random_resized_crop.height = steps[0].random_resized_crop.width = 64;
    steps[1].color_jitter.hue[1] = 0.25;
    yk_transforms *list;
    assert_ok(yk_transforms_create(&list, steps, 3));
    assert_string_equal(yk_transforms_text(list),
                        "RandomResizedCrop(64),ColorJitter(hue=(0,0.25)),RandomErasing");
    assert_false(yk_transforms_mix(list));
    yk_transforms_destroy(list);
    steps[1].color_jitter.hue[1] = 0.75;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_transforms_create(&list, steps, 3));
    steps[1].kind = (yk_transform_kind)99;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_transforms_create(&list, steps, 3));
    assert_null(list);
    yk_transforms_destroy(NULL);
    assert_null(yk_transforms_text(NULL));
    assert_int_equal(yk_transforms_count(NULL), 0);
    assert_null(yk_transforms_step(NULL, 0));
    assert_false(yk_transforms_mix(NULL));
}

static void comes_out(const char *text, int64_t c, int64_t h, int64_t w, const char *expected)
{
    yk_transforms *list;
    int64_t out[3] = {0};
    char got[64];
    assert_ok(yk_transforms_parse(&list, text));
    if (yk_transforms_output_size(list, (int64_t[]){c, h, w}, out) == YK_OK)
        snprintf(got, sizeof got, "%dx%dx%d", (int)out[0], (int)out[1], (int)out[2]);
    else
        snprintf(got, sizeof got, "refused");
    assert_string_equal(got, expected);
    yk_transforms_destroy(list);
}

YK_TEST(the_size_is_known_in_advance)
{
    comes_out("", 3, 32, 32, "3x32x32");
    comes_out("", 3, -1, -1, "refused");
    comes_out("", 0, 32, 32, "refused");
    comes_out("", 1025, 32, 32, "refused");
    comes_out("RandomCrop(20),RandomHorizontalFlip,Normalize(0.5,0.25)", 13, 32, 32, "13x20x20");
    comes_out("Normalize(imagenet)", 4, 32, 32, "refused");
    assert_contains(yk_last_error(), "give one mean and one deviation");
    comes_out("ColorJitter(0.4)", 4, 32, 32, "refused");
    assert_contains(yk_last_error(), "ColorJitter: pictures of 4 channels, not 1 or 3");
    comes_out("Grayscale", 2, 32, 32, "refused");
    comes_out("RandAugment", 2, 32, 32, "refused");
    comes_out("Resize(256)", 3, 375, 500, "3x256x341");
    comes_out("Resize(256)", 3, 500, 375, "3x341x256");
    comes_out("Resize(256)", 3, -1, -1, "refused");
    comes_out("Resize((64,48))", 3, -1, -1, "3x64x48");
    comes_out("Resize(256),CenterCrop(224)", 3, -1, -1, "3x224x224");
    comes_out("RandomResizedCrop(160),Grayscale", 3, -1, -1, "1x160x160");
    comes_out("RandomCrop(32,padding=4)", 1, 28, 28, "1x32x32");
    comes_out("RandomCrop(32,padding=1)", 1, 28, 28, "refused");
}

static void assert_preset(const int64_t dims[3], yk_preset_options options, const char *train,
                          const char *evaluation)
{
    yk_transforms *lists[2];
    assert_ok(yk_transforms_preset(&lists[0], &lists[1], dims, &options));
    assert_string_equal(yk_transforms_text(lists[0]), train);
    assert_string_equal(yk_transforms_text(lists[1]), evaluation);
    yk_transforms_destroy(lists[0]);
    yk_transforms_destroy(lists[1]);
}

YK_TEST(presets_depend_on_the_pictures)
{
    static const int64_t small[] = {3, 32, 32}, grey[] = {1, 28, 20}, any[] = {3, -1, -1};
    static const int64_t bands[] = {13, 64, 48};
    yk_preset_options options = YK_PRESET_OPTIONS_INIT;
    assert_preset(any, options, "RandomResizedCrop(224),RandomHorizontalFlip,Normalize(imagenet)",
                  "Resize(256),CenterCrop(224),Normalize(imagenet)");
    assert_preset(small, options, YK_CIFAR10_AUGMENT, YK_CIFAR10_NORMALIZE);
    assert_preset(bands, options,
                  "RandomCrop((64,48),padding=4),RandomHorizontalFlip,Normalize(0.5,std=0.25)",
                  "Normalize(0.5,std=0.25)");
    options.data = "MNIST";
    assert_preset(grey, options, "Normalize(mnist)", "Normalize(mnist)");
    options.preset = "cifar";
    assert_preset(grey, options,
                  "RandomCrop((28,20),padding=4),RandomHorizontalFlip,Normalize(mnist)",
                  "Normalize(mnist)");
    options.data = NULL;
    options.image_size = 64;
    assert_preset(any, options,
                  "Resize(64),CenterCrop(64),RandomCrop(64,padding=4),RandomHorizontalFlip,"
                  "Normalize(imagenet)",
                  "Resize(64),CenterCrop(64),Normalize(imagenet)");
    options.preset = "none";
    assert_preset(any, options, "Resize(64),CenterCrop(64),Normalize(imagenet)",
                  "Resize(64),CenterCrop(64),Normalize(imagenet)");
}

YK_TEST(unknown_presets_and_sizes_are_refused)
{
    static const int64_t dims[] = {3, 32, 32};
    yk_transforms *train, *evaluation;
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_transforms_preset(
                      &train, &evaluation, dims,
                      YK_WITH(yk_preset_options, YK_PRESET_OPTIONS_INIT, o.preset = "mnist")));
    assert_contains(yk_last_error(), "expected imagenet, cifar or none");
    assert_true(!train && !evaluation);
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_transforms_preset(&train, &evaluation, dims,
                             YK_WITH(yk_preset_options, YK_PRESET_OPTIONS_INIT, o.image_size = 0)));
    assert_contains(yk_last_error(), "image_size is 0");
}
