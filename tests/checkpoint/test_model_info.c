/* What a file says about its network: classes, sizes, transforms, means. */
#define _GNU_SOURCE
#include "tensor_files.h"

/* The last one need not be UTF-8: a folder may have it. */
static const char *const class_names[] = {"cat", "gr\xc3\xb6\xc3\x9f"
                                                 "er \"dog\" \xff\\udcff"};
static const float means[] = {0.4914f, 0.4822f, 0.4465f}, stds[] = {0.2023f, 1.0f / 3, 0.2010f};

static yk_model *make_described_model(void)
{
    yk_model *model = make_model(1);
    yk_model_info info = YK_MODEL_INFO_INIT;
    info.arch = "small";
    info.classes = 2;
    info.class_names = class_names;
    info.transforms = "Resize(256),CenterCrop(224)";
    memcpy(info.image_size, (int64_t[]){3, 224, 200}, sizeof info.image_size);
    info.channels = 3;
    info.mean = means;
    info.std = stds;
    assert_ok(yk_model_set_info(model, &info));
    return model;
}

static void assert_described(const char *path)
{
    yk_tensor_file *file;
    const yk_model_info *info, *again;
    assert_ok(yk_tensor_file_open(&file, path));
    assert_ok(yk_tensor_file_info(file, &info));
    assert_non_null(info);
    assert_string_equal(info->arch, "small");
    assert_int_equal(info->classes, 2);
    for (int i = 0; i < 2; i++)
        assert_string_equal(info->class_names[i], class_names[i]);
    assert_string_equal(info->transforms, "Resize(256),CenterCrop(224)");
    assert_int_equal(info->image_size[0], 3);
    assert_int_equal(info->image_size[2], 200);
    assert_int_equal(info->channels, 3);
    assert_memory_equal(info->mean, means, sizeof means);
    assert_memory_equal(info->std, stds, sizeof stds);
    assert_ok(yk_tensor_file_info(file, &again));
    assert_ptr_equal(info, again);
    yk_tensor_file_close(file);
}

YK_TEST(files_describe_their_network)
{
    yk_model *model = make_described_model(), *copy = make_model(2);
    static const char *const names[] = {"a.pth", "a.safetensors"};
    for (int i = 0; i < 2; i++) {
        assert_ok(yk_model_save(model, yk_test_path(names[i])));
        assert_described(yk_test_path(names[i]));
        assert_ok(yk_model_load(copy, yk_test_path(names[i])));
        for (int k = 0; k < 2; k++) {
            char converted[16];
            snprintf(converted, sizeof converted, "b%s", names[k] + 1);
            assert_ok(
                yk_tensor_file_convert(yk_test_path(names[i]), yk_test_path(converted), NULL));
            assert_described(yk_test_path(converted));
        }
    }
    assert_ok(yk_checkpoint_save(yk_test_path("c.pth"), model, NULL, NULL));
    assert_described(yk_test_path("c.pth"));
    assert_string_equal(yk_model_get_info(model)->arch, "small");
    assert_ok(yk_model_set_info(model, NULL));
    assert_null(yk_model_get_info(model));
    yk_model_destroy(model);
    yk_model_destroy(copy);
}

YK_TEST(files_without_a_description_have_none)
{
    yk_model *model = make_model(1);
    yk_tensor_file *file;
    const yk_model_info *info;
    static const char *const names[] = {"a.pth", "a.safetensors"};
    for (int i = 0; i < 2; i++) {
        assert_ok(yk_model_save(model, yk_test_path(names[i])));
        assert_ok(yk_tensor_file_open(&file, yk_test_path(names[i])));
        assert_ok(yk_tensor_file_info(file, &info));
        assert_null(info);
        yk_tensor_file_close(file);
    }
    yk_model_destroy(model);
}

YK_TEST(a_description_that_is_wrong_is_refused)
{
    static const char *const missing[] = {"ok", NULL};
    yk_model *model = make_model(1);
    yk_model_info info = YK_MODEL_INFO_INIT;
    info.arch = "\xff";
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_set_info(model, &info));
    assert_contains(yk_last_error(), "model info: arch is not valid UTF-8");
    info.arch = "small";
    info.classes = 2;
    info.class_names = missing;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_set_info(model, &info));
    info.classes = -1;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_set_info(model, &info));
    assert_null(yk_model_get_info(model));
    yk_model_destroy(model);

    static const char *const texts[] = {
        "x",
        "[]",
        "{\\\"arch\\\":1}",
        "{\\\"classes\\\":-1}",
        "{\\\"classes\\\":1.5}",
        "{\\\"classes\\\":1e300}",
        "{\\\"classes\\\":2,\\\"class_names\\\":[\\\"a\\\"]}",
        "{\\\"classes\\\":1,\\\"class_names\\\":[1]}",
        "{\\\"image_size\\\":[3,224]}",
        "{\\\"transforms\\\":3}",
        "{\\\"mean\\\":[1,2],\\\"std\\\":[1]}",
        "{\\\"mean\\\":[\\\"a\\\"]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char header[256];
        yk_tensor_file *file;
        const yk_model_info *found;
        snprintf(header, sizeof header, "{\"__metadata__\":{\"yoke\":\"%s\"}}", texts[i]);
        write_header(yk_test_path("a.safetensors"), header, 0, 0);
        assert_ok(yk_tensor_file_open(&file, yk_test_path("a.safetensors")));
        assert_status(YK_ERROR_FORMAT, yk_tensor_file_info(file, &found));
        assert_contains(yk_last_error(), "a.safetensors: the model's description");
        assert_null(found);
        yk_tensor_file_close(file);
    }
}
