/* Networks recognised by the tensors of a file. */
#include "harness.h"

#include <string.h>

#include <yoke/model_info.h>
#include <yoke/networks.h>

static const char *save(const char *arch, int64_t side, int64_t classes, const char *ending)
{
    static char path[256];
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, side, side});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *loss = yk_cross_entropy(yk_arch_find(arch)(images, classes), labels, NULL);
    assert_ok(yk_model_create(&model, loss, NULL));
    snprintf(path, sizeof path, "%s/%s%s", yk_test_directory(), arch, ending);
    assert_ok(yk_model_save(model, path));
    yk_model_destroy(model);
    return path;
}

static void assert_found(const char *path, const char *arch, int64_t classes)
{
    yk_tensor_file *file;
    const char *name;
    int64_t count = 0;
    assert_ok(yk_tensor_file_open(&file, path));
    assert_ok(yk_tensor_file_find_arch(file, &name, &count));
    assert_string_equal(name, arch);
    assert_int_equal(count, classes);
    yk_tensor_file_close(file);
}

YK_TEST(networks_are_found_by_their_tensors)
{
    assert_found(save("resnet9", 32, 7, ".pth"), "resnet9", 7);
    assert_found(save("mobilenet-v2", 64, 3, ".safetensors"), "mobilenet-v2", 3);
    assert_found(save("mobilenet-v3-small", 32, 4, ".pth"), "mobilenet-v3-small", 4);
    assert_found(save("mnasnet0-5", 32, 2, ".pth"), "mnasnet0-5", 2);
    assert_found(save("shufflenet-v2-x0-5", 32, 2, ".pth"), "shufflenet-v2-x0-5", 2);
    assert_found(save("efficientnet-b0", 32, 2, ".pth"), "efficientnet-b0", 2);
    assert_found(save("regnet-x-400mf", 32, 2, ".pth"), "regnet-x-400mf", 2);
    assert_found(save("densenet121", 32, 2, ".pth"), "densenet121", 2);
    assert_found(save("squeezenet1-0", 32, 3, ".pth"), "squeezenet1-0", 3);
    assert_found(save("squeezenet1-1", 32, 3, ".pth"), "squeezenet1-1", 3);
    assert_found(save("googlenet", 32, 2, ".pth"), "googlenet", 2);
    assert_found(save("mlp", 32, 10, ".pth"), "mlp", 10);
    assert_found(save("resnet18", 64, 5, ".pth"), "resnet18", 5);
    assert_found(save("resnet18-cifar", 32, 5, ".pth"), "resnet18-cifar", 5);
    assert_found(save("vit-tiny-patch4-32", 32, 6, ".pth"), "vit-tiny-patch4-32", 6);
    assert_found(save("swin-t", 96, 3, ".pth"), "swin-t", 3);
    assert_found(save("airbench94", 32, 6, ".pth"), "airbench94", 6); /* its head has no bias */
    assert_found(save("airbench96", 32, 3, ".safetensors"), "airbench96", 3);
}

/* For pictures of other sizes, its tensors have other shapes. */
YK_TEST(classes_are_counted_for_a_network_that_is_named)
{
    yk_tensor_file *file;
    int64_t classes = -1;
    assert_ok(yk_tensor_file_open(&file, save("mlp", 16, 7, ".pth")));
    assert_ok(yk_tensor_file_count_classes(file, "mlp", &classes));
    assert_int_equal(classes, 7);
    assert_status(YK_ERROR_NOT_FOUND, yk_tensor_file_count_classes(file, "airbench94", &classes));
    assert_contains(yk_last_error(), "mlp.pth: lacks the last layer of airbench94");
    assert_int_equal(classes, 0);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_tensor_file_count_classes(file, "b", &classes));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_tensor_file_count_classes(file, NULL, &classes));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_tensor_file_count_classes(file, "mlp", NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_tensor_file_count_classes(NULL, "mlp", &classes));
    yk_tensor_file_close(file);
}

YK_TEST(other_files_fit_none)
{
    yk_tensor_file *file;
    const char *name = "something";
    assert_ok(yk_tensor_file_open(&file, save("mlp", 16, 10, ".pth")));
    assert_status(YK_ERROR_NOT_FOUND, yk_tensor_file_find_arch(file, &name, NULL));
    assert_contains(yk_last_error(), "its tensors are not those of any network of yoke");
    assert_null(name);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_tensor_file_find_arch(file, NULL, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_tensor_file_find_arch(NULL, &name, NULL));
    yk_tensor_file_close(file);
}
