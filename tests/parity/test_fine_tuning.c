/* torchvision's ResNet-50 to yoke, fine-tuned with a frozen backbone, and back to PyTorch. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "harness.h"
#include "pytorch.h"
#include "tensor_files.h"

enum { SAMPLES = 2, SIDE = 224, PRETRAINED_CLASSES = 20, CLASSES = 5 };

/* The logits that a file's weights give, at the size of the backbone's training. */
static void write_logits(const char *weights, int64_t classes)
{
    static const char *const names[] = {"images"};
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    assert_ok(yk_model_create(
        &model, NULL,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = yk_resnet50(x, classes))));
    assert_ok(yk_model_load(model, file_of(weights)));
    yk_tensor logits, images = {.dtype = YK_F32, .ndim = 4, .dims = {SAMPLES, 3, SIDE, SIDE}};
    images.data = malloc(yk_tensor_bytes(&images));
    assert_non_null(images.data);
    for (int64_t i = 0; i < yk_tensor_count(&images); i++)
        ((float *)images.data)[i] = (float)sin(0.37 * (double)i + 0.01 * (double)(i % 97));
    yk_batch batch = {.size = SAMPLES, .count = 1, .names = names, .tensors = &images};
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_output(model, &logits));
    write_floats("images", &images);
    write_floats("logits", &logits);
    yk_model_destroy(model);
    free(images.data);
}

YK_TEST(a_resnet50_of_torchvision_is_tuned_and_goes_back)
{
    static char said[16384];
    pytorch_judges("fine_tuning.py", "start %s %d", file_of("start.pth"), PRETRAINED_CLASSES);
    write_logits("start.pth", PRETRAINED_CLASSES);
    pytorch_judges("fine_tuning.py", "logits %s %d %s %s", file_of("start.pth"), PRETRAINED_CLASSES,
                   file_of("images"), file_of("logits"));
    int code = yk_test_command(said, sizeof said,
                               "cd %s && %s train --data random:3x64x64,%d --val-split 0.01 --arch "
                               "resnet50 --checkpoint start.pth --freeze '*,!fc.*' --batch-size 8 "
                               "--lr 1e-5 --nproc 2 --threads 1 --max-steps 2 --output run",
                               yk_test_directory(), getenv("YOKE_PROGRAM"), CLASSES);
    if (code)
        fail_msg("%s", said);
    assert_contains(said, "the last layer starts from new weights");
    write_logits("run/model.pth", CLASSES);
    pytorch_judges("fine_tuning.py", "frozen %s %s", file_of("start.pth"),
                   file_of("run/model.pth"));
    pytorch_judges("fine_tuning.py", "logits %s %d %s %s", file_of("run/model.pth"), CLASSES,
                   file_of("images"), file_of("logits"));
}
