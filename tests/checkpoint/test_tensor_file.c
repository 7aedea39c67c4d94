/* Files of named tensors in both formats: saved and loaded, converted, and their other items. */
#define _GNU_SOURCE
#include "tensor_files.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "io/zip.h"

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
    assert_ok(yk_model_save(model, yk_test_path("a.safetensors")));
    assert_ok(yk_model_load(other, yk_test_path("a.safetensors")));
    assert_same_model(model, other, 0);
    assert_status(YK_ERROR_NOT_FOUND,
                  yk_checkpoint_read_state(yk_test_path("a.safetensors"), &training));
    /* By content, not by name. */
    assert_int_equal(rename(yk_test_path("a.safetensors"), yk_test_path("a.pth")), 0);
    assert_ok(yk_model_load(other, yk_test_path("a.pth")));
    yk_model_destroy(model);
    yk_model_destroy(other);
}

/* Writes the members of the .pth file `from` to `to`, in another folder. */
static void move_to_folder(const char *from, const char *to, const char *folder)
{
    enum { MEMBERS = 16 };
    void *data[MEMBERS];
    yki_zip *zip;
    yki_zip_writer *writer;
    int fd = open(to, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_ok(yki_zip_open(&zip, from));
    assert_ok(yki_zip_writer_create(&writer, fd, to));
    size_t size, count = yki_zip_count(zip);
    assert_in_range(count, 1, MEMBERS);
    for (size_t i = 0; i < count; i++) {
        char name[512];
        snprintf(name, sizeof name, "%s%s", folder, strchr(yki_zip_name(zip, i), '/'));
        assert_ok(yki_zip_read(zip, i, &data[i], &size));
        assert_ok(yki_zip_writer_add(writer, name, data[i], size));
    }
    assert_ok(yki_zip_writer_finish(writer));
    for (size_t i = 0; i < count; i++)
        free(data[i]);
    yki_zip_close(zip);
    close(fd);
}

/* torch.save names the folder after the file. */
YK_TEST(a_pth_files_folder_is_as_long_as_a_files_name_may_be)
{
    char folder[256];
    yk_model *model = make_model(1), *other = make_model(2);
    memset(folder, 'n', sizeof folder - 1);
    folder[sizeof folder - 1] = '\0';
    assert_ok(yk_model_save(model, yk_test_path("a.pth")));
    move_to_folder(yk_test_path("a.pth"), yk_test_path("b.pth"), folder);
    assert_ok(yk_model_load(other, yk_test_path("b.pth")));
    assert_same_model(model, other, 0);
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
        assert_ok(yk_model_save(model, yk_test_path(names[i])));
        assert_ok(yk_tensor_file_open(&file, yk_test_path(names[i])));
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

/* A rename would put a file in the place of /dev/null as well: here of a pipe. */
YK_TEST(what_is_no_file_is_not_replaced)
{
    struct stat info;
    const char *pipe = yk_test_path("pipe.pth");
    yk_model *model = make_model(1);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_status(YK_ERROR_IO, yk_model_save(model, pipe));
    assert_contains(yk_last_error(), "pipe.pth: is not a file");
    assert_int_equal(stat(pipe, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    yk_model_destroy(model);
}

/* ---- converted ------------------------------------------------------------------------------ */

YK_TEST(converted_there_and_back)
{
    yk_model *model = make_model(1), *other = make_model(2);
    yk_optimizer *optimizer;
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, optimizer,
                                 &(yk_training_state){.arch = "small"}));
    assert_ok(yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("a.safetensors"), NULL));
    assert_ok(yk_tensor_file_convert(yk_test_path("a.safetensors"), yk_test_path("b.pth"), NULL));
    assert_ok(yk_model_load(other, yk_test_path("b.pth")));
    assert_same_model(model, other, 0);

    /* Wrapped as DDP's: the wrapper comes off by itself, at loading and at converting. */
    yk_convert_options wrapped = YK_CONVERT_OPTIONS_INIT;
    wrapped.prefix = "module.";
    wrapped.format = "safetensors";
    assert_ok(yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("c.bin"), &wrapped));
    yk_tensor_file *file;
    yk_tensor_entry entry;
    assert_ok(yk_tensor_file_open(&file, yk_test_path("c.bin")));
    assert_string_equal(yk_tensor_file_format(file), "safetensors");
    assert_ok(yk_tensor_file_entry(file, 0, &entry));
    assert_int_equal(strncmp(entry.name, "module.", 7), 0);
    yk_tensor_file_close(file);
    assert_ok(yk_model_load(other, yk_test_path("c.bin")));
    assert_ok(yk_tensor_file_convert(yk_test_path("c.bin"), yk_test_path("d.pth"), NULL));
    assert_ok(yk_tensor_file_open(&file, yk_test_path("d.pth")));
    assert_int_equal(yki_tensor_file_wrapper(file), 0);
    yk_tensor_file_close(file);

    char prefix[YK_FILE_NAME]; /* with which no name could be read again */
    memset(prefix, 'a', sizeof prefix - 1);
    prefix[sizeof prefix - 1] = '\0';
    wrapped.prefix = prefix;
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("e.pth"), &wrapped));
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
    assert_ok(yki_tensor_file_write(yk_test_path("a.pth"), YKI_PTH, sources, 2, NULL));
    assert_ok(yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("b.pth"), NULL));
    assert_ok(yk_tensor_file_open(&file, yk_test_path("b.pth")));
    assert_int_equal(yk_tensor_file_count(file), 1);
    assert_ok(yk_tensor_file_entry(file, 0, &entry));
    assert_string_equal(entry.name, "weight");
    yk_tensor_file_close(file);
    /* A model's own of that name, without a wrapper, goes along. */
    sources[1].name = "weight";
    assert_ok(yki_tensor_file_write(yk_test_path("a.pth"), YKI_PTH, sources, 2, NULL));
    assert_ok(yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("b.pth"), NULL));
    assert_ok(yk_tensor_file_open(&file, yk_test_path("b.pth")));
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
    assert_ok(yk_model_save(model, yk_test_path("a.pth")));
    for (int i = 0; i < 4; i++) {
        const char *ending = i < 2 ? "b.pth" : "b.safetensors";
        yk_convert_options options = YK_CONVERT_OPTIONS_INIT;
        options.dtype = cases[i % 2].dtype;
        yk_tensor_file *file;
        yk_tensor_entry entry;
        assert_ok(yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path(ending), &options));
        assert_ok(yk_model_load(other, yk_test_path(ending)));
        assert_same_model(model, other, cases[i % 2].bound);
        assert_ok(yk_tensor_file_open(&file, yk_test_path(ending)));
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
                  yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("c.pth"), &wrong));
    wrong = (yk_convert_options)YK_CONVERT_OPTIONS_INIT;
    wrong.format = "onnx";
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("c.pth"), &wrong));
    assert_int_not_equal(access(yk_test_path("c.pth"), F_OK), 0);
    yk_model_destroy(model);
    yk_model_destroy(other);
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

/* BINPUT ('q') or BINGET ('h'), in place of a number. */
static void put_memo(yki_pickle_writer *pickle, char opcode, int index)
{
    yki_pickle_int(pickle, 0);
    memcpy(pickle->data + pickle->size - 2,
           (unsigned char[]){(unsigned char)opcode, (unsigned char)index}, 2);
}

/* A pickle whose dicts hold the state_dict a thousand times, each a thousand times the one below:
 * walking over all of that would not end, and would find nothing. */
YK_TEST(promise_31_shared_values_are_not_walked_for_ever)
{
    enum { WIDTH = 1000, HEIGHT = 5 };
    pth_file written = begin_pth(yk_test_path("a.pth"), yki_pickle_dict);
    yki_pickle_writer *pickle = written.pickle;
    yki_pickle_text(pickle, "model");
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "a");
    assert_ok(yki_pth_scalar(written.writer, 3));
    yki_pickle_setitems(pickle);
    for (int level = 0; level < HEIGHT; level++) {
        put_memo(pickle, 'q', level);
        yki_pickle_text(pickle, "more");
        yki_pickle_dict(pickle);
        yki_pickle_mark(pickle);
        for (int i = 0; i < WIDTH; i++) {
            yki_pickle_text(pickle, "k");
            put_memo(pickle, 'h', level);
        }
        yki_pickle_setitems(pickle);
    }
    end_pth(&written);

    yk_tensor_file *file;
    int lines = 0;
    alarm(10);
    assert_ok(yk_tensor_file_open(&file, yk_test_path("a.pth")));
    assert_int_equal(yk_tensor_file_count(file), 1);
    yk_tensor_file_items(file, count_items, &lines);
    yk_tensor_file_close(file);
    assert_int_equal(lines, 0);
}

/* Tensors that share a name of many wrappers: looking at all of it for each would not end. */
static void write_wrapped(const char *wrapper)
{
    enum { WRAPPERS = 100000, TENSORS = 100000 };
    static char name[32 * WRAPPERS];
    size_t length = strlen(wrapper);
    for (size_t i = 0; i < WRAPPERS; i++)
        memcpy(name + i * length, wrapper, length + 1);
    pth_file written = begin_pth(yk_test_path("a.pth"), yki_pickle_dict);
    yki_pickle_text(written.pickle, name);
    put_memo(written.pickle, 'q', 0);
    assert_ok(yki_pth_scalar(written.writer, 3));
    put_memo(written.pickle, 'q', 1);
    for (int i = 1; i < TENSORS; i++) {
        put_memo(written.pickle, 'h', 0);
        put_memo(written.pickle, 'h', 1);
    }
    end_pth(&written);
}

YK_TEST(promise_31_names_of_many_wrappers_are_not_walked_for_ever)
{
    static const char *const wrappers[] = {"module.", "_orig_mod.", "_checkpoint_wrapped_module."};
    yk_model *model = make_model(1);
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
        write_wrapped(wrappers[i]);
        assert_status(YK_ERROR_MISMATCH, yk_model_load(model, yk_test_path("a.pth")));
        assert_contains(yk_last_error(), "unexpected");
    }
    yk_model_destroy(model);
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
    yk_test_write_file(yk_test_path("a.safetensors"), header, (size_t)(at - header));
    yk_tensor_file *file;
    int lines = 0;
    assert_ok(yk_tensor_file_open(&file, yk_test_path("a.safetensors")));
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
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, optimizer,
                                 &(yk_training_state){.arch = "small", .epoch = 3}));
    assert_ok(yk_tensor_file_open(&file, yk_test_path("a.pth")));
    yk_tensor_file_items(file, collect, text);
    yk_tensor_file_close(file);
    assert_contains(text, "optimizer.state=5 entries;");
    assert_contains(text, "optimizer.param_groups[0].lr=0.25;");
    assert_contains(text, "optimizer.param_groups[0].betas=[0.9, 0.999];");
    assert_contains(text, "yoke.arch=small;");
    assert_contains(text, "yoke.epoch=3;");
    assert_null(strstr(text, "conv.weight"));

    assert_ok(yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("a.safetensors"), NULL));
    assert_ok(yk_tensor_file_open(&file, yk_test_path("a.safetensors")));
    text[0] = '\0';
    yk_tensor_file_items(file, collect, text);
    yk_tensor_file_close(file);
    assert_string_equal(text, "format=pt;");
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}
