/* Files of named tensors in both formats: there and back, converted, and every way to be wrong. */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/pth.h"
#include "io/tensor_file.h"

static const char *scratch(const char *name)
{
    static char path[4][256];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", yk_test_directory(), name);
    return path[turn];
}

static yk_model *make_model(uint64_t seed)
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

static void assert_same_model(const yk_model *a, const yk_model *b, double bound)
{
    for (size_t i = 0; i < yk_model_parameter_count(a); i++) {
        yk_tensor left = yk_model_parameter(a, i).value, right = yk_model_parameter(b, i).value;
        for (int64_t k = 0; k < yk_tensor_count(&left); k++) {
            double x = (double)((float *)left.data)[k], y = (double)((float *)right.data)[k];
            if (!(fabs(x - y) <= bound * fabs(x)))
                fail_msg("%s: %g is not %g", yk_model_parameter(a, i).name, x, y);
        }
    }
    for (size_t i = 0; i < yk_model_buffer_count(a); i++) {
        yk_tensor left = yk_model_buffer(a, i).value, right = yk_model_buffer(b, i).value;
        assert_memory_equal(left.data, right.data, yk_tensor_bytes(&left));
    }
}

/* ---- there and back ------------------------------------------------------------------------- */

YK_TEST(a_model_as_safetensors)
{
    yk_model *model = make_model(1), *other = make_model(2);
    yk_training_state training;
    *(int64_t *)yk_model_buffer(model, 2).value.data = INT64_MAX - 1; /* no double holds it */
    assert_ok(yk_model_save(model, scratch("a.safetensors")));
    assert_ok(yk_model_load(other, scratch("a.safetensors")));
    assert_same_model(model, other, 0);
    assert_status(YK_ERROR_NOT_FOUND,
                  yk_checkpoint_read_state(scratch("a.safetensors"), &training));
    /* By content, not by name. */
    assert_int_equal(rename(scratch("a.safetensors"), scratch("a.pth")), 0);
    assert_ok(yk_model_load(other, scratch("a.pth")));
    yk_model_destroy(model);
    yk_model_destroy(other);
}

YK_TEST(what_a_file_holds)
{
    yk_model *model = make_model(1);
    yk_tensor_file *file;
    yk_tensor_entry entry;
    double norm;
    const char *names[] = {"a.pth", "a.safetensors"};
    for (int i = 0; i < 2; i++) {
        assert_ok(yk_model_save(model, scratch(names[i])));
        assert_ok(yk_tensor_file_open(&file, scratch(names[i])));
        assert_string_equal(yk_tensor_file_format(file), names[i] + 2);
        assert_int_equal(yk_tensor_file_count(file), 8);
        int64_t index = yki_tensor_file_find(file, "bn.weight");
        assert_true(index >= 0);
        assert_ok(yk_tensor_file_entry(file, (size_t)index, &entry));
        assert_string_equal(entry.name, "bn.weight");
        assert_string_equal(entry.dtype, "float32");
        assert_int_equal(entry.ndim, 1);
        assert_int_equal(entry.dims[0], 4);
        assert_int_equal(entry.bytes, 16);
        assert_ok(yk_tensor_file_norm(file, (size_t)index, &norm));
        assert_true(norm == 2);
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_tensor_file_norm(file, 8, &norm));
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_tensor_file_entry(file, 8, &entry));
        yk_tensor_file_close(file);
    }
    yk_model_destroy(model);
}

YK_TEST(converted_there_and_back)
{
    yk_model *model = make_model(1), *other = make_model(2);
    yk_optimizer *optimizer;
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    assert_ok(yk_checkpoint_save(scratch("a.pth"), model, optimizer,
                                 &(yk_training_state){.arch = "small"}));
    assert_ok(yk_tensor_file_convert(scratch("a.pth"), scratch("a.safetensors"), NULL));
    assert_ok(yk_tensor_file_convert(scratch("a.safetensors"), scratch("b.pth"), NULL));
    assert_ok(yk_model_load(other, scratch("b.pth")));
    assert_same_model(model, other, 0);

    /* Wrapped as DDP's: the wrapper comes off by itself, at loading and at converting. */
    yk_convert_options wrapped = YK_CONVERT_OPTIONS_INIT;
    wrapped.prefix = "module.";
    wrapped.format = "safetensors";
    assert_ok(yk_tensor_file_convert(scratch("a.pth"), scratch("c.bin"), &wrapped));
    yk_tensor_file *file;
    yk_tensor_entry entry;
    assert_ok(yk_tensor_file_open(&file, scratch("c.bin")));
    assert_string_equal(yk_tensor_file_format(file), "safetensors");
    assert_ok(yk_tensor_file_entry(file, 0, &entry));
    assert_int_equal(strncmp(entry.name, "module.", 7), 0);
    yk_tensor_file_close(file);
    assert_ok(yk_model_load(other, scratch("c.bin")));
    assert_ok(yk_tensor_file_convert(scratch("c.bin"), scratch("d.pth"), NULL));
    assert_ok(yk_tensor_file_open(&file, scratch("d.pth")));
    assert_int_equal(yki_tensor_file_wrapper(file), 0);
    yk_tensor_file_close(file);

    char prefix[YK_FILE_NAME]; /* with which no name could be read again */
    memset(prefix, 'a', sizeof prefix - 1);
    prefix[sizeof prefix - 1] = '\0';
    wrapped.prefix = prefix;
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_file_convert(scratch("a.pth"), scratch("e.pth"), &wrapped));
    assert_contains(yk_last_error(), "longer than 255");

    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
    yk_model_destroy(other);
}

/* What torch.save(averaged.state_dict()) writes: a count beside the names in "module." */
YK_TEST(an_averaged_model_converted)
{
    float weight = 2;
    int64_t updates = 5;
    yk_tensor tensors[] = {{.data = &updates, .dtype = YK_I64},
                           {.data = &weight, .dtype = YK_F32, .ndim = 1, .dims = {1}}};
    yki_tensor_source sources[] = {
        {"n_averaged", yki_file_tensor_from(&tensors[0]), &updates, NULL},
        {"module.module.weight", yki_file_tensor_from(&tensors[1]), &weight, NULL}};
    yk_tensor_file *file;
    yk_tensor_entry entry;
    assert_ok(yki_tensor_file_write(scratch("a.pth"), YKI_PTH, sources, 2, NULL));
    assert_ok(yk_tensor_file_convert(scratch("a.pth"), scratch("b.pth"), NULL));
    assert_ok(yk_tensor_file_open(&file, scratch("b.pth")));
    assert_int_equal(yk_tensor_file_count(file), 1);
    assert_ok(yk_tensor_file_entry(file, 0, &entry));
    assert_string_equal(entry.name, "weight");
    yk_tensor_file_close(file);
    /* A model's own of that name, without a wrapper, goes along. */
    sources[1].name = "weight";
    assert_ok(yki_tensor_file_write(scratch("a.pth"), YKI_PTH, sources, 2, NULL));
    assert_ok(yk_tensor_file_convert(scratch("a.pth"), scratch("b.pth"), NULL));
    assert_ok(yk_tensor_file_open(&file, scratch("b.pth")));
    assert_int_equal(yk_tensor_file_count(file), 2);
    yk_tensor_file_close(file);
}

YK_TEST(sixteen_bits_round_to_nearest)
{
    static const struct {
        const char *dtype, *name;
        double bound; /* half of the last place */
    } cases[] = {{"f16", "float16", 0x1p-11}, {"bf16", "bfloat16", 0x1p-8}};
    yk_model *model = make_model(1), *other = make_model(2);
    assert_ok(yk_model_save(model, scratch("a.pth")));
    for (int i = 0; i < 4; i++) {
        const char *ending = i < 2 ? "b.pth" : "b.safetensors";
        yk_convert_options options = YK_CONVERT_OPTIONS_INIT;
        options.dtype = cases[i % 2].dtype;
        yk_tensor_file *file;
        yk_tensor_entry entry;
        assert_ok(yk_tensor_file_convert(scratch("a.pth"), scratch(ending), &options));
        assert_ok(yk_model_load(other, scratch(ending)));
        assert_same_model(model, other, cases[i % 2].bound);
        assert_ok(yk_tensor_file_open(&file, scratch(ending)));
        size_t weight = (size_t)yki_tensor_file_find(file, "fc.weight");
        size_t counter = (size_t)yki_tensor_file_find(file, "bn.num_batches_tracked");
        assert_ok(yk_tensor_file_entry(file, weight, &entry));
        assert_string_equal(entry.dtype, cases[i % 2].name);
        assert_ok(yk_tensor_file_entry(file, counter, &entry));
        assert_string_equal(entry.dtype, "int64"); /* integers stay */
        yk_tensor_file_close(file);
    }
    yk_convert_options wrong = YK_CONVERT_OPTIONS_INIT;
    wrong.dtype = "f8";
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_file_convert(scratch("a.pth"), scratch("c.pth"), &wrong));
    wrong = (yk_convert_options)YK_CONVERT_OPTIONS_INIT;
    wrong.format = "onnx";
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_file_convert(scratch("a.pth"), scratch("c.pth"), &wrong));
    assert_int_not_equal(access(scratch("c.pth"), F_OK), 0);
    yk_model_destroy(model);
    yk_model_destroy(other);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void spit(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

/* A safetensors file of this header, its size said to be `claimed` (0: as it is), and data. */
static void write_header(const char *path, const char *header, uint64_t claimed, size_t data)
{
    unsigned char bytes[1024] = {0};
    size_t size = strlen(header);
    if (!claimed)
        claimed = size;
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(claimed >> 8 * i);
    memcpy(bytes + 8, header, size);
    spit(path, bytes, 8 + size + data);
}

static void assert_refused(yk_status expected, const char *path, const char *words)
{
    yk_tensor_file *file;
    assert_status(expected, yk_tensor_file_open(&file, path));
    assert_contains(yk_last_error(), path);
    assert_contains(yk_last_error(), words);
    assert_null(strchr(yk_last_error(), '\n'));
    assert_null(file);
}

YK_TEST(bad_headers_of_safetensors)
{
    static const struct {
        const char *header;
        size_t data;
        const char *words;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}", 8, "expected JSON"},
        {"{}x", 0, "offset 10: expected the end of the header"},
        {"{}", 4, "expected 0 bytes of tensors, found 4"},
        {"{\"a\":1}", 0, "offset 8: the header's tensor a: expected a \"dtype\""},
        {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "F8_E4M3"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "expected a \"shape\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,1e300]}}", 8, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]}}", 8, "integers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8,
         "expected the 8 bytes of \"data_offsets\" to be a float32 (3)"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
         "expected the 0 bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
         "at most 8 dimensions"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
         4, "tensor a: expected it once"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, "tensor b: expected its bytes to begin at 2, not 1"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
         5, "tensor b: expected its bytes to begin at 2, not 3"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 2,
         "expected 4 bytes of tensors, found 2"},
        {"{\"a\\n\\u001b[2J\":0}", 0, "tensor a??[2J"}, /* stays one line, and off the terminal */
    };
    const char *path = scratch("a.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_header(path, cases[i].header, 0, cases[i].data);
        yk_status expected = strstr(cases[i].header, "F8") ? YK_ERROR_UNSUPPORTED : YK_ERROR_FORMAT;
        assert_refused(expected, path, cases[i].words);
    }
    write_header(path, "{}", 3, 0);
    assert_refused(YK_ERROR_FORMAT, path, "expected a header of 3 bytes, but the file has 10");
    write_header(path, "{}", 100000001, 0);
    assert_refused(YK_ERROR_FORMAT, path, "at most 100000000 bytes");
    write_header(path, "{}", UINT64_MAX, 0);
    assert_refused(YK_ERROR_FORMAT, path, "at most 100000000 bytes");
    /* And what is sound: an empty one, empty tensors, spaces behind the header. */
    yk_tensor_file *file;
    write_header(path, "{\"a\":{\"dtype\":\"U64\",\"shape\":[0,5],\"data_offsets\":[0,0]}}  ", 0,
                 0);
    assert_ok(yk_tensor_file_open(&file, path));
    assert_int_equal(yk_tensor_file_count(file), 1);
    yk_tensor_file_close(file);
}

YK_TEST(other_formats_are_named)
{
    static const char legacy[] =
        "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.";
    char tar[512] = "sys_info";
    memcpy(tar + 257, "ustar", 5);
    yk_model *model = make_model(1);
    spit(scratch("a.pth"), legacy, sizeof legacy - 1);
    assert_refused(YK_ERROR_UNSUPPORTED, scratch("a.pth"),
                   "is in PyTorch's legacy format from before 1.6: load and save it again with");
    assert_status(YK_ERROR_UNSUPPORTED, yk_model_load(model, scratch("a.pth")));
    spit(scratch("a.pth"), tar, sizeof tar);
    assert_refused(YK_ERROR_UNSUPPORTED, scratch("a.pth"), "is a tar archive");
    spit(scratch("a.pth"), "\x80\x04.", 3);
    assert_refused(YK_ERROR_FORMAT, scratch("a.pth"), "found a bare pickle");
    spit(scratch("a.pth"), "", 0);
    assert_refused(YK_ERROR_FORMAT, scratch("a.pth"), "found it empty");
    spit(scratch("a.pth"), "hello", 5);
    assert_refused(YK_ERROR_FORMAT, scratch("a.pth"), "expected a zip archive");
    assert_refused(YK_ERROR_NOT_FOUND, scratch("absent.pth"), "No such file");
    assert_refused(YK_ERROR_IO, yk_test_directory(), "is not a file");
    yk_model_destroy(model);
}

/* A rename would put a file in the place of /dev/null as well: here of a pipe. */
YK_TEST(what_is_no_file_is_not_replaced)
{
    struct stat info;
    const char *pipe = scratch("pipe.pth");
    yk_model *model = make_model(1);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_status(YK_ERROR_IO, yk_model_save(model, pipe));
    assert_contains(yk_last_error(), "pipe.pth: is not a file");
    assert_int_equal(stat(pipe, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    yk_model_destroy(model);
}

/* A .pth file of the model's tensors, one of them replaced. */
static void write_odd(const char *path, const yk_model *model, const char *name,
                      const yk_tensor *odd)
{
    yki_tensor_source sources[16];
    size_t parameters = yk_model_parameter_count(model);
    size_t count = parameters + yk_model_buffer_count(model);
    for (size_t i = 0; i < count; i++) {
        yk_parameter_view view =
            i < parameters ? yk_model_parameter(model, i) : yk_model_buffer(model, i - parameters);
        const yk_tensor *tensor = strcmp(view.name, name) == 0 ? odd : &view.value;
        sources[i] =
            (yki_tensor_source){view.name, yki_file_tensor_from(tensor), tensor->data, NULL};
    }
    assert_ok(yki_tensor_file_write(path, yki_tensor_format_of(path), sources, count, NULL));
}

YK_TEST(numbers_that_no_integer_holds)
{
    yk_model *model = make_model(1), *copy = make_model(1);
    double count = 7;
    yk_tensor odd = {.data = &count, .dtype = YK_F64};
    write_odd(scratch("a.pth"), model, "bn.num_batches_tracked", &odd);
    assert_ok(yk_model_load(model, scratch("a.pth")));
    assert_int_equal(*(int64_t *)yk_model_buffer(model, 2).value.data, 7);
    assert_ok(yk_model_load(copy, scratch("a.pth")));

    static const double wrong[] = {NAN, INFINITY, -1e19, 9223372036854775808.0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        count = wrong[i];
        ((float *)yk_model_parameter(model, 0).value.data)[0] = 1e6f; /* would change the copy */
        write_odd(scratch("a.pth"), model, "bn.num_batches_tracked", &odd);
        assert_status(YK_ERROR_FORMAT, yk_model_load(copy, scratch("a.pth")));
        assert_contains(yk_last_error(), "a.pth: bn.num_batches_tracked (float64) holds ");
        assert_contains(yk_last_error(), "which the model's int64 does not");
        assert_true(((float *)yk_model_parameter(copy, 0).value.data)[0] < 1e6f);
    }
    yk_model_destroy(model);
    yk_model_destroy(copy);
}

/* A .pth file of one number and, under "odd", what a pickle says of that number's storage. */
typedef struct odd_tensor {
    const char *storage; /* class */
    int64_t count, dim, stride;
} odd_tensor;

static void write_odd_pickle(const char *path, odd_tensor odd)
{
    yki_pth_writer *writer;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_ok(yki_pth_writer_create(&writer, fd, path));
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_ordered_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "small");
    assert_ok(yki_pth_scalar(writer, 3));
    yki_pickle_text(pickle, "odd");
    yki_pickle_global(pickle, "torch._utils", "_rebuild_tensor_v2");
    yki_pickle_mark(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "storage");
    yki_pickle_global(pickle, "torch", odd.storage);
    yki_pickle_text(pickle, "0");
    yki_pickle_text(pickle, "cpu");
    yki_pickle_int(pickle, odd.count);
    yki_pickle_tuple(pickle);
    yki_pickle_persistent(pickle);
    yki_pickle_int(pickle, 0);
    for (int i = 0; i < 2; i++) { /* shape, strides */
        yki_pickle_mark(pickle);
        yki_pickle_int(pickle, i ? odd.stride : odd.dim);
        yki_pickle_tuple(pickle);
    }
    yki_pickle_bool(pickle, false);
    yki_pickle_ordered_dict(pickle);
    yki_pickle_tuple(pickle);
    yki_pickle_reduce(pickle);
    yki_pickle_setitems(pickle);
    assert_ok(yki_pth_writer_finish(writer));
    close(fd);
}

/* The tensor under "odd" is refused with the place in data.pkl, and so is the file's conversion. */
static void assert_odd_refused(yk_status expected, odd_tensor odd, const char *words)
{
    unsigned offset;
    yk_tensor_file *file;
    yk_tensor_entry entry;
    write_odd_pickle(scratch("odd.pth"), odd);
    assert_ok(yk_tensor_file_open(&file, scratch("odd.pth")));
    assert_ok(yk_tensor_file_entry(file, 0, &entry));
    assert_status(expected, yk_tensor_file_entry(file, 1, &entry));
    const char *line = strstr(yk_last_error(), "odd.pth: data.pkl: ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "odd.pth: data.pkl: offset %u: ", &offset), 1);
    assert_in_range(offset, 100, 400);
    assert_contains(line, words);
    yk_tensor_file_close(file);
    assert_status(expected, yk_tensor_file_convert(scratch("odd.pth"), scratch("b.pth"), NULL));
}

YK_TEST(promise_31_tensors_that_their_storage_does_not_hold)
{
    assert_odd_refused(YK_ERROR_FORMAT, (odd_tensor){"FloatStorage", 2, 1, 1},
                       "expected a storage of 2 elements of 4 bytes, member archive/data/0 has 4");
    assert_odd_refused(YK_ERROR_FORMAT, (odd_tensor){"FloatStorage", 1, 2, 1},
                       "expected a tensor within the 1 elements of its storage");
    assert_odd_refused(YK_ERROR_UNSUPPORTED, (odd_tensor){"ComplexFloatStorage", 1, 1, 1},
                       "tensor odd is complex64: yoke reads dense tensors of floats");
}

/* ---- kinds of tensors, bits and names that PyTorch has and yoke does not ----------------------
 */

/* What a tensor's call looks like: a function of torch._utils on storage 0. */
typedef struct call_of_tensor {
    const char *function; /* of torch._utils; NULL: _rebuild_tensor_v2 */
    const char *bit;      /* in its metadata, or NULL */
    bool set;             /* the bit's value */
    const char *dtype;    /* of torch, the 7th argument of _rebuild_tensor_v3, or NULL */
} call_of_tensor;

/* A tensor of three elements, as torch.save writes it. */
static void pickle_call(yki_pth_writer *writer, const call_of_tensor *call)
{
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_global(pickle, "torch._utils",
                      call->function ? call->function : "_rebuild_tensor_v2");
    yki_pickle_mark(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "storage");
    yki_pickle_global(pickle, "torch", "FloatStorage");
    yki_pickle_text(pickle, "0");
    yki_pickle_text(pickle, "cpu");
    yki_pickle_int(pickle, 3);
    yki_pickle_tuple(pickle);
    yki_pickle_persistent(pickle);
    yki_pickle_int(pickle, 0);
    for (int i = 0; i < 2; i++) { /* shape, strides */
        yki_pickle_mark(pickle);
        yki_pickle_int(pickle, i ? 1 : 3);
        yki_pickle_tuple(pickle);
    }
    yki_pickle_bool(pickle, false);
    yki_pickle_ordered_dict(pickle);
    if (call->dtype)
        yki_pickle_global(pickle, "torch", call->dtype);
    if (call->bit) {
        yki_pickle_dict(pickle);
        yki_pickle_mark(pickle);
        yki_pickle_text(pickle, call->bit);
        yki_pickle_bool(pickle, call->set);
        yki_pickle_setitems(pickle);
    }
    yki_pickle_tuple(pickle);
    yki_pickle_reduce(pickle);
}

/* A state_dict of one sound tensor "w", whose storage the calls under "a0", "a1", ... share. */
static void write_calls(const char *path, const call_of_tensor *calls, int count, bool sound)
{
    static const float values[3] = {1, -2, 3};
    const yk_tensor tensor = {.data = (void *)(uintptr_t)values, .ndim = 1, .dims = {3}};
    yki_pth_writer *writer;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_ok(yki_pth_writer_create(&writer, fd, path));
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_ordered_dict(pickle);
    yki_pickle_mark(pickle);
    for (int i = 0; i < count; i++) {
        char name[8];
        snprintf(name, sizeof name, "a%d", i);
        yki_pickle_text(pickle, name);
        pickle_call(writer, &calls[i]);
    }
    if (sound) {
        yki_pickle_text(pickle, "w");
        assert_ok(yki_pth_tensor(writer, &tensor));
    }
    yki_pickle_setitems(pickle);
    assert_ok(yki_pth_writer_finish(writer));
    close(fd);
}

/* The three floats of the tensor of this name. */
static void read_floats(const char *path, const char *name, float values[3])
{
    yk_tensor_file *file;
    yki_file_tensor stored;
    assert_ok(yk_tensor_file_open(&file, path));
    size_t index = (size_t)yki_tensor_file_find(file, name);
    assert_ok(yki_tensor_file_stored(file, index, &stored));
    assert_ok(yki_tensor_file_fetch(file, &stored));
    yki_file_tensor_copy(&stored, yki_tensor_file_storage(file, &stored), YK_F32, values);
    yk_tensor_file_close(file);
}

YK_TEST(the_negative_bit_is_applied)
{
    const call_of_tensor calls[] = {
        {.bit = "neg", .set = true}, {.bit = "neg"}, {.bit = "conj", .set = true}};
    static const float negated[] = {-1, 2, -3}, plain[] = {1, -2, 3};
    float values[3];
    write_calls(scratch("a.pth"), calls, 3, true);
    for (int i = 0; i < 3; i++) {
        read_floats(scratch("a.pth"), i == 0 ? "a0" : i == 1 ? "a1" : "a2", values);
        assert_memory_equal(values, i == 0 ? negated : plain, sizeof values);
    }
    assert_ok(yk_tensor_file_convert(scratch("a.pth"), scratch("b.safetensors"), NULL));
    read_floats(scratch("b.safetensors"), "a0", values);
    assert_memory_equal(values, negated, sizeof values);
    yk_convert_options wider = YK_CONVERT_OPTIONS_INIT;
    wider.dtype = "f64";
    assert_ok(yk_tensor_file_convert(scratch("a.pth"), scratch("b.pth"), &wider));
    read_floats(scratch("b.pth"), "a0", values);
    assert_memory_equal(values, negated, sizeof values);
}

YK_TEST(unknown_bits_of_a_tensor_are_refused)
{
    write_calls(scratch("a.pth"), (call_of_tensor[]){{.bit = "mirror", .set = true}}, 1, true);
    assert_status(YK_ERROR_FORMAT,
                  yk_tensor_file_convert(scratch("a.pth"), scratch("b.pth"), NULL));
    assert_contains(yk_last_error(), "expected only the bits \"neg\" and \"conj\"");
}

YK_TEST(kinds_of_tensors_that_are_not_read_are_named)
{
    const call_of_tensor calls[] = {
        {.function = "_rebuild_tensor_v3", .dtype = "float8_e4m3fn"},
        {.function = "_rebuild_tensor_v3", .dtype = "uint16"},
        {.function = "_rebuild_sparse_tensor"},
        {.function = "_rebuild_qtensor"},
        {.function = "_rebuild_tensor_v3", .dtype = "uint16"},
    };
    yk_tensor_file *file;
    yk_tensor_entry entry;
    yk_model *model = make_model(1);
    write_calls(scratch("a.pth"), calls, 5, false);
    assert_status(YK_ERROR_UNSUPPORTED, yk_model_load(model, scratch("a.pth")));
    assert_contains(yk_last_error(), "(float8_e4m3fn, uint16, sparse, quantized)");
    assert_status(YK_ERROR_UNSUPPORTED,
                  yk_tensor_file_convert(scratch("a.pth"), scratch("b.pth"), NULL));
    assert_contains(yk_last_error(), "all its tensors are of kinds that yoke does not read");

    write_calls(scratch("a.pth"), calls, 5, true); /* among others: by name */
    assert_status(YK_ERROR_UNSUPPORTED,
                  yk_tensor_file_convert(scratch("a.pth"), scratch("b.pth"), NULL));
    assert_contains(yk_last_error(), "tensor a0 is float8_e4m3fn");
    assert_ok(yk_tensor_file_open(&file, scratch("a.pth")));
    assert_int_equal(yk_tensor_file_count(file), 6);
    assert_status(YK_ERROR_UNSUPPORTED, yk_tensor_file_entry(file, 2, &entry));
    assert_string_equal(entry.name, "a2");
    assert_string_equal(entry.dtype, "sparse");
    assert_ok(yk_tensor_file_entry(file, 5, &entry));
    yk_tensor_file_close(file);
    yk_model_destroy(model);
}

YK_TEST(names_that_are_integers_are_shown)
{
    yk_model *model = make_model(1);
    yki_pth_writer *writer;
    const char *path = scratch("a.pth");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_ok(yki_pth_writer_create(&writer, fd, path));
    yki_pickle_ordered_dict(yki_pth_pickle(writer));
    yki_pickle_mark(yki_pth_pickle(writer));
    yki_pickle_int(yki_pth_pickle(writer), 42);
    assert_ok(yki_pth_scalar(writer, 3));
    yki_pickle_setitems(yki_pth_pickle(writer));
    assert_ok(yki_pth_writer_finish(writer));
    close(fd);
    assert_status(YK_ERROR_MISMATCH, yk_model_load(model, path));
    assert_contains(yk_last_error(), "unexpected 42 (an integer)");
    assert_status(YK_ERROR_FORMAT, yk_tensor_file_convert(path, scratch("b.pth"), NULL));
    assert_contains(yk_last_error(), "expected a text as its name, found 42 (an integer)");
    yk_model_destroy(model);
}

/* A state_dict of one number under this name. */
static void write_named(const char *path, const char *name)
{
    yki_pth_writer *writer;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_ok(yki_pth_writer_create(&writer, fd, path));
    yki_pickle_ordered_dict(yki_pth_pickle(writer));
    yki_pickle_mark(yki_pth_pickle(writer));
    yki_pickle_text(yki_pth_pickle(writer), name);
    assert_ok(yki_pth_scalar(writer, 3));
    yki_pickle_setitems(yki_pth_pickle(writer));
    assert_ok(yki_pth_writer_finish(writer));
    close(fd);
}

YK_TEST(names_that_are_not_utf8_are_refused)
{
    float value = 1;
    yki_tensor_source source = {"\xff\xfew", {0}, &value, NULL};
    yk_convert_options prefix = YK_CONVERT_OPTIONS_INIT;
    prefix.prefix = "\xff\xfe";
    yk_tensor scalar = {.data = &value, .dtype = YK_F32};
    source.stored = yki_file_tensor_from(&scalar);
    prefix.prefix = "\xff\xfe";
    write_named(scratch("a.pth"), "\xff\xfew");
    assert_status(YK_ERROR_FORMAT,
                  yk_tensor_file_convert(scratch("a.pth"), scratch("b.safetensors"), NULL));
    assert_contains(yk_last_error(), "its name \"\\xff\\xfew\" is not valid UTF-8");
    write_named(scratch("a.pth"), "gr\xc3\xb6\xc3\x9f"
                                  "e");
    assert_ok(yk_tensor_file_convert(scratch("a.pth"), scratch("b.safetensors"), NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_file_convert(scratch("a.pth"), scratch("c.safetensors"), &prefix));
    assert_contains(yk_last_error(), "prefix: the tensor name \"\\xff\\xfe\" is not valid UTF-8");
    for (int format = YKI_PTH; format <= YKI_SAFETENSORS; format++) {
        assert_status(
            YK_ERROR_INVALID_ARGUMENT,
            yki_tensor_file_write(scratch("c"), (yki_tensor_format)format, &source, 1, NULL));
        assert_contains(yk_last_error(), "not valid UTF-8");
        assert_int_not_equal(access(scratch("c"), F_OK), 0);
    }
    write_header(scratch("a.safetensors"),
                 "{\"\xff\xfe\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 0, 2);
    assert_refused(YK_ERROR_FORMAT, scratch("a.safetensors"), "\"\\xff\\xfe\" is not valid UTF-8");
}

YK_TEST(metadata_of_safetensors_is_strings)
{
    static const struct {
        const char *header, *words;
    } cases[] = {
        {"{\"__metadata__\":[\"format\"]}", "expected \"__metadata__\" to be an object"},
        {"{\"__metadata__\":\"pt\"}", "expected \"__metadata__\" to be an object"},
        {"{\"__metadata__\":{\"a\":\"b\",\"n\":1}}", "expected \"n\" in \"__metadata__\""},
        {"{\"__metadata__\":{\"o\":{}}}", "to be a string"},
        {"{\"__metadata__\":{\"a\":\"\xc3(\"}}", "\"\\xc3(\" is not valid UTF-8"},
    };
    const char *path = scratch("a.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_header(path, cases[i].header, 0, 0);
        assert_refused(YK_ERROR_FORMAT, path, cases[i].words);
    }
}

/* {"state": {}, "param_groups": []}, as PyTorch's optimizers have it. */
YK_TEST(an_optimizers_file_is_told_from_a_models)
{
    yk_model *model = make_model(1);
    yki_pth_writer *writer;
    const char *path = scratch("optimizer.pth");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_ok(yki_pth_writer_create(&writer, fd, path));
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "state");
    yki_pickle_dict(pickle);
    yki_pickle_text(pickle, "param_groups");
    yki_pickle_list(pickle);
    yki_pickle_setitems(pickle);
    assert_ok(yki_pth_writer_finish(writer));
    close(fd);
    assert_status(YK_ERROR_FORMAT, yk_model_load(model, path));
    assert_contains(yk_last_error(), "optimizer.pth: holds an optimizer's state_dict: expected");
    assert_status(YK_ERROR_FORMAT, yk_tensor_file_convert(path, scratch("b.pth"), NULL));
    assert_contains(yk_last_error(), "optimizer.pth: holds an optimizer's state_dict: expected");
    yk_model_destroy(model);
}

/* A view with stride 0 makes much of little: nothing may make all of it. */
YK_TEST(promise_31_an_expanded_tensor_is_refused)
{
    assert_odd_refused(YK_ERROR_FORMAT, (odd_tensor){"FloatStorage", 1, (int64_t)1 << 40, 0},
                       "odd would expand to far more than the file holds");
}

/* ---- what a file says about its network -------------------------------------------------------
 */

static const char *const class_names[] = {"cat", "gr\xc3\xb6\xc3\x9f"
                                                 "er \"dog\""};
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
        assert_ok(yk_model_save(model, scratch(names[i])));
        assert_described(scratch(names[i]));
        assert_ok(yk_model_load(copy, scratch(names[i])));
        for (int k = 0; k < 2; k++) {
            char converted[16];
            snprintf(converted, sizeof converted, "b%s", names[k] + 1);
            assert_ok(yk_tensor_file_convert(scratch(names[i]), scratch(converted), NULL));
            assert_described(scratch(converted));
        }
    }
    assert_ok(yk_checkpoint_save(scratch("c.pth"), model, NULL, NULL));
    assert_described(scratch("c.pth"));
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
        assert_ok(yk_model_save(model, scratch(names[i])));
        assert_ok(yk_tensor_file_open(&file, scratch(names[i])));
        assert_ok(yk_tensor_file_info(file, &info));
        assert_null(info);
        yk_tensor_file_close(file);
    }
    yk_model_destroy(model);
}

YK_TEST(a_description_that_is_wrong_is_refused)
{
    static const char *const not_utf8[] = {"ok", "\xff"}, *const missing[] = {"ok", NULL};
    yk_model *model = make_model(1);
    yk_model_info info = YK_MODEL_INFO_INIT;
    info.arch = "\xff";
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_set_info(model, &info));
    assert_contains(yk_last_error(), "model info: arch is not valid UTF-8");
    info.arch = "small";
    info.classes = 2;
    info.class_names = not_utf8;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_set_info(model, &info));
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
        write_header(scratch("a.safetensors"), header, 0, 0);
        assert_ok(yk_tensor_file_open(&file, scratch("a.safetensors")));
        assert_status(YK_ERROR_FORMAT, yk_tensor_file_info(file, &found));
        assert_contains(yk_last_error(), "a.safetensors: the model's description");
        assert_null(found);
        yk_tensor_file_close(file);
    }
}

/* ---- the rest of a file --------------------------------------------------------------------- */

static void collect(void *context, const char *name, const char *value)
{
    char *text = context;
    size_t at = strlen(text);
    snprintf(text + at, 4096 - at, "%s=%s;", name, value);
}

static void count_items(void *context, const char *name, const char *value)
{
    (void)name, (void)value;
    ++*(int *)context;
}

/* A pickle whose dicts hold the state_dict a thousand times, each a thousand times the one below:
 * walking over all of that would not end, and would find nothing. */
YK_TEST(promise_31_shared_values_are_not_walked_for_ever)
{
    enum { WIDTH = 1000, HEIGHT = 5 };
    yki_pth_writer *writer;
    int fd = open(scratch("a.pth"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_ok(yki_pth_writer_create(&writer, fd, "a.pth"));
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    unsigned char *memo = NULL;
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "model");
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "a");
    assert_ok(yki_pth_scalar(writer, 3));
    yki_pickle_setitems(pickle);
    for (int level = 0; level < HEIGHT; level++) {
        yki_pickle_int(pickle, 0);
        memo = pickle->data + pickle->size - 2;
        memcpy(memo, (unsigned char[]){'q', (unsigned char)level}, 2); /* BINPUT */
        yki_pickle_text(pickle, "more");
        yki_pickle_dict(pickle);
        yki_pickle_mark(pickle);
        for (int i = 0; i < WIDTH; i++) {
            yki_pickle_text(pickle, "k");
            yki_pickle_int(pickle, 0);
            memo = pickle->data + pickle->size - 2;
            memcpy(memo, (unsigned char[]){'h', (unsigned char)level}, 2); /* BINGET */
        }
        yki_pickle_setitems(pickle);
    }
    yki_pickle_setitems(pickle);
    assert_ok(yki_pth_writer_finish(writer));
    close(fd);

    yk_tensor_file *file;
    int lines = 0;
    alarm(10);
    assert_ok(yk_tensor_file_open(&file, scratch("a.pth")));
    assert_int_equal(yk_tensor_file_count(file), 1);
    yk_tensor_file_items(file, count_items, &lines);
    yk_tensor_file_close(file);
    assert_int_equal(lines, 0);
}

YK_TEST(much_metadata_is_cut)
{
    enum { ENTRIES = 5000 };
    static char header[64 + 16 * ENTRIES];
    char *at = header + 8 + sprintf(header + 8, "{\"__metadata__\":{");
    for (int i = 0; i < ENTRIES; i++)
        at += sprintf(at, "%s\"%d\":\"\"", i ? "," : "", i);
    at += sprintf(at, "}}");
    for (int i = 0; i < 8; i++)
        header[i] = (char)((uint64_t)(at - header - 8) >> 8 * i);
    spit(scratch("a.safetensors"), header, (size_t)(at - header));
    yk_tensor_file *file;
    int lines = 0;
    assert_ok(yk_tensor_file_open(&file, scratch("a.safetensors")));
    yk_tensor_file_items(file, count_items, &lines);
    yk_tensor_file_close(file);
    assert_int_equal(lines, 1000);
}

YK_TEST(items_of_a_checkpoint)
{
    yk_model *model = make_model(1);
    yk_optimizer *optimizer;
    yk_tensor_file *file;
    char text[4096] = "";
    assert_ok(yk_adam_create(&optimizer, model,
                             YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.lr = 0.25)));
    assert_ok(yk_optimizer_step(optimizer));
    assert_ok(yk_checkpoint_save(scratch("a.pth"), model, optimizer,
                                 &(yk_training_state){.arch = "small", .epoch = 3}));
    assert_ok(yk_tensor_file_open(&file, scratch("a.pth")));
    yk_tensor_file_items(file, collect, text);
    yk_tensor_file_close(file);
    assert_contains(text, "optimizer.state=5 entries;");
    assert_contains(text, "optimizer.param_groups[0].lr=0.25;");
    assert_contains(text, "optimizer.param_groups[0].betas=[0.9, 0.999];");
    assert_contains(text, "yoke.arch=small;");
    assert_contains(text, "yoke.epoch=3;");
    assert_null(strstr(text, "conv.weight"));

    assert_ok(yk_tensor_file_convert(scratch("a.pth"), scratch("a.safetensors"), NULL));
    assert_ok(yk_tensor_file_open(&file, scratch("a.safetensors")));
    text[0] = '\0';
    yk_tensor_file_items(file, collect, text);
    yk_tensor_file_close(file);
    assert_string_equal(text, "format=pt;");
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}
