/* Files of weights that say little of their network, or what is not so, in the commands that use
 * them. */
#define _GNU_SOURCE
#include "yoke_line.h"

#include <yoke/networks.h>

/* A network for pictures with this side, saved as PATH with a description, which may be NULL. */
static void save(const char *path, const char *arch, int64_t side, const yk_model_info *info)
{
    yk_model *model;
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, side, side});
    options.logits = yk_arch_find(arch)(images, 10);
    assert_ok(yk_model_create(&model, NULL, &options));
    assert_ok(yk_model_set_info(model, info));
    assert_ok(yk_model_save(model, path));
    yk_model_destroy(model);
}

YK_TEST(a_named_network_needs_no_description)
{
    save(yk_test_path("a.pth"), "mlp", 16, NULL);
    assert_int_equal(yoke("export --arch mlp --image-size 16 a.pth a.onnx"), 0);
    assert_contains(output, "a.onnx: mlp for 3x16x16 pictures and 10 classes");
    assert_int_equal(yoke("export --arch resnet9 a.pth a.onnx"), 1);
    assert_int_equal(yoke("evaluate --arch mlp --data synthetic --image-size 16 a.pth"), 0);
    assert_int_equal(yoke("evaluate --data synthetic --image-size 16 a.pth"), 1);
    assert_contains(output, "its tensors fit none: name it with --arch; a program's own network "
                            "needs that program");
}

YK_TEST(networks_for_small_images_get_small_pictures)
{
    save(yk_test_path("a.pth"), "airbench94", 32, NULL);
    yoke_ends(0, "export a.pth a.onnx");
    assert_contains(output, "a.onnx: airbench94 for 3x32x32 pictures and 10 classes");
    save(yk_test_path("v.pth"), "vit-tiny-patch4-32", 32, NULL);
    yoke_ends(0, "export v.pth v.onnx");
    assert_contains(output, "v.onnx: vit-tiny-patch4-32 for 3x32x32 pictures and 10 classes");
}

/* A network of these sizes would take up to a terabyte. */
YK_TEST(sizes_that_the_weights_do_not_have_take_no_memory)
{
    yk_model_info info = YK_MODEL_INFO_INIT;
    info.arch = "mlp";
    info.classes = 10;
    memcpy(info.image_size, (int64_t[]){3, 1 << 14, 1 << 14}, sizeof info.image_size);
    save(yk_test_path("a.pth"), "mlp", 32, &info);
    assert_int_equal(yoke("export a.pth a.onnx"), 1);
    assert_contains(output, "a.pth: does not fit the model: differently shaped");
    memcpy(info.image_size, (int64_t[]){3, 32, 32}, sizeof info.image_size);
    info.classes = 1 << 24;
    save(yk_test_path("a.pth"), "mlp", 32, &info);
    assert_int_equal(yoke("export a.pth a.onnx"), 1);
    assert_contains(output, "(10, 256) in the file but (16777216, 256) in the model");
    assert_int_equal(yoke("evaluate --data synthetic --confusion a.pth"), 1);
    assert_contains(output, "(10, 256) in the file but (16777216, 256) in the model");
}

YK_TEST(a_report_compares_the_records_of_a_run_with_its_weights)
{
    assert_int_equal(yoke("train --data synthetic --arch mlp --classes 12 --max-steps 1 "
                          "--threads 1 --output run"),
                     0);
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "sed -i s/classes=12/classes=16777216/ %s/run/metrics.jsonl",
                                     yk_test_directory()),
                     0);
    assert_int_equal(yoke("report run -o page.html && grep -o 'No pictures: .*' page.html"), 0);
    assert_contains(output, "(12, 256) in the file but (16777216, 256) in the model");
}

/* The folder of the data and that of a class have names that are not UTF-8. */
YK_TEST(names_of_data_and_classes_need_not_be_utf8)
{
    static const char *const make =
        "cd %s && for half in train val; do for class in a \"$(printf 'b\\344')\"; do "
        "folder=\"$(printf 'd\\344ta')/$half/$class\" && mkdir -p \"$folder\" && "
        "cp %s/tests/fuzz/corpus/png/grey_16 \"$folder/1.png\" || exit 1; done; done";
    assert_int_equal(
        yk_test_command(output, sizeof output, make, yk_test_directory(), getenv("YOKE_SOURCE")),
        0);
    if (yoke("train --data folder:\"$(printf 'd\\344ta')\" --arch mlp --image-size 8 "
             "--batch-size 2 --max-steps 1 --threads 1 --output run") != 0 &&
        strstr(output, "install"))
        skip(); /* built without decoders */
    assert_int_equal(yoke("evaluate --per-class run"), 0);
    assert_contains(output, "\n  b\344 ");
    assert_int_equal(yoke("predict --json --top 2 run \"$(printf 'd\\344ta')\"/val/a/1.png"), 0);
    assert_contains(output, "\"name\": \"b\\udce4\"");
    assert_int_equal(yoke("export run a.onnx && grep -c '\"a\",\"b.udce4\"' a.onnx"), 0);
    assert_int_equal(yoke("report run -o page.html && grep -c 'test images wrongly' page.html"), 0);
}
