/* For tests of files of tensors: a model to save, files written by hand, and what is refused. */
#ifndef YK_TEST_TENSOR_FILES_H
#define YK_TEST_TENSOR_FILES_H

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/tensor_file/pth.h"
#include "checkpoint/tensor_file/tensor_file.h"
#include "harness.h"

static inline yk_model *make_model(uint64_t seed)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 8, 8});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    x = yk_nn_batch_norm(yk_nn_conv2d(x, "conv", 4, 3, NULL), "bn");
    x = yk_nn_linear(yk_flatten(yk_global_avg_pool2d(x)), "fc", 10);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_cross_entropy(x, labels, NULL),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref", o.seed = seed)));
    return model;
}

/* A .pth file that is being written. */
typedef struct pth_file {
    yki_pth_writer *writer;
    yki_pickle_writer *pickle;
    int fd;
} pth_file;

/* Begins a file that holds one dict, whose items follow. */
static inline pth_file begin_pth(const char *path, void (*begin_dict)(yki_pickle_writer *pickle))
{
    pth_file file = {.fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    assert_ok(yki_pth_writer_create(&file.writer, file.fd, path));
    file.pickle = yki_pth_pickle(file.writer);
    begin_dict(file.pickle);
    yki_pickle_mark(file.pickle);
    return file;
}

static inline void end_pth(pth_file *file)
{
    yki_pickle_setitems(file->pickle);
    assert_ok(yki_pth_writer_finish(file->writer));
    close(file->fd);
}

/* A safetensors file of this header, its size said to be `claimed` (0: as it is), and data. */
static inline void write_header(const char *path, const char *header, uint64_t claimed, size_t data)
{
    unsigned char bytes[1024] = {0};
    size_t size = strlen(header);
    if (!claimed)
        claimed = size;
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(claimed >> 8 * i);
    memcpy(bytes + 8, header, size);
    yk_test_write_file(path, bytes, 8 + size + data);
}

static inline void assert_refused(yk_status expected, const char *path, const char *words)
{
    yk_tensor_file *file;
    assert_status(expected, yk_tensor_file_open(&file, path));
    assert_contains(yk_last_error(), path);
    assert_contains(yk_last_error(), words);
    assert_null(strchr(yk_last_error(), '\n'));
    assert_null(file);
}

#endif
