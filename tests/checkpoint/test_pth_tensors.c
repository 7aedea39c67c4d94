/* Tensors of .pth files as PyTorch pickles them: views that a storage does not hold, and kinds of
 * tensors and bits that yoke does not have. */
#define _GNU_SOURCE
#include "tensor_files.h"

/* What a pickle says of storage 0, and of a tensor of one dimension over it. */
typedef struct odd_tensor {
    const char *storage; /* class */
    int64_t count, dim, stride;
} odd_tensor;

/* Storage 0, of this class and so many elements. */
static void pickle_storage(yki_pickle_writer *pickle, const char *class, int64_t count)
{
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "storage");
    yki_pickle_global(pickle, "torch", class);
    yki_pickle_text(pickle, "0");
    yki_pickle_text(pickle, "cpu");
    yki_pickle_int(pickle, count);
    yki_pickle_tuple(pickle);
    yki_pickle_persistent(pickle);
}

/* The first arguments of PyTorch's functions that rebuild tensors, up to the hooks. */
static void pickle_view(yki_pickle_writer *pickle, odd_tensor view)
{
    pickle_storage(pickle, view.storage, view.count);
    yki_pickle_int(pickle, 0);
    const int64_t shape_and_strides[] = {view.dim, view.stride};
    for (int i = 0; i < 2; i++) {
        yki_pickle_mark(pickle);
        yki_pickle_int(pickle, shape_and_strides[i]);
        yki_pickle_tuple(pickle);
    }
    yki_pickle_bool(pickle, false);
    yki_pickle_ordered_dict(pickle);
}

/* ---- views ----------------------------------------------------------------------------------- */

/* A .pth file of a number, whose storage the tensor "odd" shares. */
static void write_odd_pickle(const char *path, odd_tensor odd)
{
    pth_file file = begin_pth(path, yki_pickle_ordered_dict);
    yki_pickle_text(file.pickle, "small");
    assert_ok(yki_pth_scalar(file.writer, 3));
    yki_pickle_text(file.pickle, "odd");
    yki_pickle_global(file.pickle, "torch._utils", "_rebuild_tensor_v2");
    yki_pickle_mark(file.pickle);
    pickle_view(file.pickle, odd);
    yki_pickle_tuple(file.pickle);
    yki_pickle_reduce(file.pickle);
    end_pth(&file);
}

/* The tensor under "odd" is refused with the place in data.pkl, and so is the conversion of the
 * file. */
static void assert_odd_refused(yk_status expected, odd_tensor odd, const char *words)
{
    unsigned offset;
    yk_tensor_file *file;
    yk_tensor_entry entry;
    write_odd_pickle(yk_test_path("odd.pth"), odd);
    assert_ok(yk_tensor_file_open(&file, yk_test_path("odd.pth")));
    assert_ok(yk_tensor_file_entry(file, 0, &entry));
    assert_status(expected, yk_tensor_file_entry(file, 1, &entry));
    const char *line = strstr(yk_last_error(), "odd.pth: data.pkl: ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "odd.pth: data.pkl: offset %u: ", &offset), 1);
    assert_in_range(offset, 100, 400);
    assert_contains(line, words);
    yk_tensor_file_close(file);
    assert_status(expected,
                  yk_tensor_file_convert(yk_test_path("odd.pth"), yk_test_path("b.pth"), NULL));
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

static void pickle_nine_dims(yki_pickle_writer *pickle)
{
    yki_pickle_global(pickle, "torch._utils", "_rebuild_tensor_v2");
    yki_pickle_mark(pickle);
    pickle_storage(pickle, "FloatStorage", 1);
    yki_pickle_int(pickle, 0);
    for (int i = 0; i < 2; i++) { /* shape and strides */
        yki_pickle_mark(pickle);
        for (int d = 0; d < 9; d++)
            yki_pickle_int(pickle, 1);
        yki_pickle_tuple(pickle);
    }
    yki_pickle_tuple(pickle);
    yki_pickle_reduce(pickle);
}

YK_TEST(a_tensor_of_nine_dimensions_is_refused)
{
    const char *path = yk_test_path("odd.pth");
    yk_tensor_file *opened;
    yk_tensor_entry entry;
    pth_file file = begin_pth(path, yki_pickle_ordered_dict);
    yki_pickle_text(file.pickle, "small");
    assert_ok(yki_pth_scalar(file.writer, 3));
    yki_pickle_text(file.pickle, "odd");
    pickle_nine_dims(file.pickle);
    end_pth(&file);
    assert_ok(yk_tensor_file_open(&opened, path));
    assert_status(YK_ERROR_FORMAT, yk_tensor_file_entry(opened, 1, &entry));
    assert_contains(yk_last_error(), "expected a tensor of at most 8 dimensions, not 9, found a");
    yk_tensor_file_close(opened);
}

/* It may be of any type, and come before the first tensor or between two. */
YK_TEST(extra_state_of_modules_is_left_out)
{
    const char *path = yk_test_path("extra.pth");
    yk_tensor_file *opened;
    yk_tensor_entry entry;
    pth_file file = begin_pth(path, yki_pickle_ordered_dict);
    yki_pickle_text(file.pickle, "_extra_state");
    yki_pickle_none(file.pickle);
    yki_pickle_text(file.pickle, "a");
    assert_ok(yki_pth_scalar(file.writer, 3));
    yki_pickle_text(file.pickle, "layer._extra_state");
    yki_pickle_bool(file.pickle, true);
    yki_pickle_text(file.pickle, "b");
    assert_ok(yki_pth_scalar(file.writer, 4));
    end_pth(&file);
    assert_ok(yk_tensor_file_open(&opened, path));
    assert_int_equal(yk_tensor_file_count(opened), 2);
    assert_ok(yk_tensor_file_entry(opened, 0, &entry));
    assert_string_equal(entry.name, "a");
    assert_ok(yk_tensor_file_entry(opened, 1, &entry));
    assert_string_equal(entry.name, "b");
    assert_int_equal(yki_tensor_file_find(opened, "b"), 1);
    yk_tensor_file_close(opened);
    assert_ok(yk_tensor_file_convert(path, yk_test_path("b.safetensors"), NULL));
}

/* A view with stride 0 makes much of little: nothing may make all of it. */
YK_TEST(promise_31_an_expanded_tensor_is_refused)
{
    assert_odd_refused(YK_ERROR_FORMAT, (odd_tensor){"FloatStorage", 1, (int64_t)1 << 40, 0},
                       "odd would expand to far more than the file holds");
}

/* ---- kinds and bits ------------------------------------------------------------------------- */

/* What a tensor's call looks like: a function of torch._utils on storage 0. */
typedef struct call_of_tensor {
    const char *function; /* of torch._utils; NULL: _rebuild_tensor_v2 */
    const char *bit;      /* in its metadata, or NULL */
    bool set;             /* the bit's value */
    const char *dtype;    /* of torch, the 7th argument of _rebuild_tensor_v3, or NULL */
} call_of_tensor;

/* A tensor of three elements, as torch.save writes it. */
static void pickle_call(yki_pickle_writer *pickle, const call_of_tensor *call)
{
    yki_pickle_global(pickle, "torch._utils",
                      call->function ? call->function : "_rebuild_tensor_v2");
    yki_pickle_mark(pickle);
    pickle_view(pickle, (odd_tensor){"FloatStorage", 3, 3, 1});
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
    pth_file file = begin_pth(path, yki_pickle_ordered_dict);
    yki_pickle_writer *pickle = file.pickle;
    for (int i = 0; i < count; i++) {
        char name[8];
        snprintf(name, sizeof name, "a%d", i);
        yki_pickle_text(pickle, name);
        pickle_call(pickle, &calls[i]);
    }
    if (sound) {
        yki_pickle_text(pickle, "w");
        assert_ok(yki_pth_tensor(file.writer, &tensor));
    }
    end_pth(&file);
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
    write_calls(yk_test_path("a.pth"), calls, 3, true);
    for (int i = 0; i < 3; i++) {
        read_floats(yk_test_path("a.pth"), i == 0 ? "a0" : i == 1 ? "a1" : "a2", values);
        assert_memory_equal(values, i == 0 ? negated : plain, sizeof values);
    }
    assert_ok(yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("b.safetensors"), NULL));
    read_floats(yk_test_path("b.safetensors"), "a0", values);
    assert_memory_equal(values, negated, sizeof values);
    yk_convert_options wider = YK_CONVERT_OPTIONS_INIT;
    wider.dtype = "f64";
    assert_ok(yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("b.pth"), &wider));
    read_floats(yk_test_path("b.pth"), "a0", values);
    assert_memory_equal(values, negated, sizeof values);
}

YK_TEST(unknown_bits_of_a_tensor_are_refused)
{
    write_calls(yk_test_path("a.pth"), (call_of_tensor[]){{.bit = "mirror", .set = true}}, 1, true);
    assert_status(YK_ERROR_FORMAT,
                  yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("b.pth"), NULL));
    assert_contains(yk_last_error(), "expected only the bits \"neg\" and \"conj\"");
}

YK_TEST(kinds_of_tensors_that_are_not_read_are_named)
{
    const call_of_tensor calls[] = {
        {.function = "_rebuild_tensor_v3", .dtype = "float8_e4m3fn"},
        {.function = "_rebuild_tensor_v3", .dtype = "complex32"},
        {.function = "_rebuild_sparse_tensor"},
        {.function = "_rebuild_qtensor"},
        {.function = "_rebuild_tensor_v3", .dtype = "complex32"},
    };
    yk_tensor_file *file;
    yk_tensor_entry entry;
    yk_model *model = make_model(1);
    write_calls(yk_test_path("a.pth"), calls, 5, false);
    assert_status(YK_ERROR_UNSUPPORTED, yk_model_load(model, yk_test_path("a.pth")));
    assert_contains(yk_last_error(), "(float8_e4m3fn, complex32, sparse, quantized)");
    assert_status(YK_ERROR_UNSUPPORTED,
                  yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("b.pth"), NULL));
    assert_contains(yk_last_error(), "all its tensors are of kinds that yoke does not read");

    write_calls(yk_test_path("a.pth"), calls, 5, true); /* among others: by name */
    assert_status(YK_ERROR_UNSUPPORTED,
                  yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("b.pth"), NULL));
    assert_contains(yk_last_error(), "tensor a0 is float8_e4m3fn");
    assert_ok(yk_tensor_file_open(&file, yk_test_path("a.pth")));
    assert_int_equal(yk_tensor_file_count(file), 6);
    assert_status(YK_ERROR_UNSUPPORTED, yk_tensor_file_entry(file, 2, &entry));
    assert_string_equal(entry.name, "a2");
    assert_string_equal(entry.dtype, "sparse");
    assert_ok(yk_tensor_file_entry(file, 5, &entry));
    yk_tensor_file_close(file);
    yk_model_destroy(model);
}

/* ---- unsigned integers ----------------------------------------------------------------------- */

/* A safetensors file of one tensor of this dtype and shape, and as few numbers. */
static void write_unsigned(const char *dtype, const void *numbers, size_t bytes)
{
    char header[128], file[256];
    int length =
        snprintf(header, sizeof header,
                 "{\"u\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%zu]}}", dtype, bytes);
    uint64_t size = (uint64_t)length;
    memcpy(file, &size, sizeof size);
    memcpy(file + 8, header, (size_t)length);
    memcpy(file + 8 + length, numbers, bytes);
    yk_test_write_file(yk_test_path("u.safetensors"), file, 8 + (size_t)length + bytes);
}

/* Dtypes for which torch has no class of storages. */
YK_TEST(unsigned_integers_are_kept)
{
    static const uint16_t u16[] = {0, 1, UINT16_MAX};
    static const uint32_t u32[] = {0, 1, UINT32_MAX};
    static const uint64_t u64[] = {0, 1, UINT64_MAX};
    static const struct {
        const char *tag, *name;
        const void *numbers;
        size_t bytes;
        double last;
    } cases[] = {{"U16", "uint16", u16, sizeof u16, 0x1p16 - 1},
                 {"U32", "uint32", u32, sizeof u32, 0x1p32 - 1},
                 {"U64", "uint64", u64, sizeof u64, 0x1p64}};
    for (int i = 0; i < 3; i++) {
        yk_tensor_file *file;
        yki_file_tensor stored;
        float values[3];
        double culprit;
        write_unsigned(cases[i].tag, cases[i].numbers, cases[i].bytes);
        assert_ok(
            yk_tensor_file_convert(yk_test_path("u.safetensors"), yk_test_path("u.pth"), NULL));
        read_floats(yk_test_path("u.pth"), "u", values);
        assert_true(values[0] == 0 && values[1] == 1 && values[2] == (float)cases[i].last);
        assert_ok(yk_tensor_file_open(&file, yk_test_path("u.pth")));
        assert_ok(yki_tensor_file_stored(file, 0, &stored));
        assert_string_equal(stored.dtype->name, cases[i].name);
        assert_ok(yki_tensor_file_fetch(file, &stored));
        const void *storage = yki_tensor_file_storage(file, &stored);
        assert_memory_equal(storage, cases[i].numbers, cases[i].bytes);
        bool fits = yki_file_tensor_fits(&stored, storage, YK_I32, &culprit);
        assert_int_equal(fits, i == 0);
        assert_true(fits || culprit == cases[i].last);
        yk_tensor_file_close(file);
    }
}

/* A double has no room for all digits of 64 bits. */
YK_TEST(large_unsigned_integers_keep_their_digits)
{
    static const uint64_t small[] = {0, (UINT64_C(1) << 53) + 1, INT64_MAX};
    static const uint64_t large[] = {0, 1, (uint64_t)INT64_MAX + 1};
    for (int i = 0; i < 2; i++) {
        yk_tensor_file *file;
        yki_file_tensor stored;
        int64_t values[3];
        double culprit;
        write_unsigned("U64", i == 0 ? small : large, sizeof small);
        assert_ok(yk_tensor_file_open(&file, yk_test_path("u.safetensors")));
        assert_ok(yki_tensor_file_stored(file, 0, &stored));
        assert_ok(yki_tensor_file_fetch(file, &stored));
        const void *storage = yki_tensor_file_storage(file, &stored);
        assert_int_equal(yki_file_tensor_fits(&stored, storage, YK_I64, &culprit), i == 0);
        yki_file_tensor_copy(&stored, storage, YK_I64, values);
        if (i == 0)
            assert_memory_equal(values, small, sizeof small);
        else
            assert_true(culprit == 0x1p63);
        yk_tensor_file_close(file);
    }
}

/* As a conversion in C does. Rounded to a double first, each would end halfway between two floats,
 * and then at the even one. */
YK_TEST(large_integers_are_rounded_to_floats_once)
{
    enum { HALF = 36 }; /* of the distance between two floats at 2^60: a power of 2 */
    static const int64_t even = INT64_C(1) << 60, over = even + (INT64_C(1) << HALF) + 1,
                         under = even + 3 * (INT64_C(1) << HALF) - 1;
    static const int64_t numbers[][3] = {{over, under, even}, {-over, -under, INT64_MIN}};
    static const char *const tags[] = {"I64", "U64"};
    for (int i = 0; i < 4; i++) {
        float values[3];
        const int64_t *stored = numbers[i % 2];
        bool is_signed = i < 2;
        write_unsigned(tags[!is_signed], stored, sizeof numbers[0]);
        assert_ok(
            yk_tensor_file_convert(yk_test_path("u.safetensors"), yk_test_path("u.pth"), NULL));
        read_floats(yk_test_path("u.pth"), "u", values);
        for (int k = 0; k < 3; k++)
            assert_true(values[k] == (is_signed ? (float)stored[k] : (float)(uint64_t)stored[k]));
    }
}

/* The dtype is the call's: a storage that has one of its own contradicts it. */
YK_TEST(unsigned_integers_in_a_storage_of_floats_are_refused)
{
    write_calls(yk_test_path("a.pth"),
                (call_of_tensor[]){{.function = "_rebuild_tensor_v3", .dtype = "uint16"}}, 1, true);
    assert_status(YK_ERROR_FORMAT,
                  yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("b.pth"), NULL));
    assert_contains(yk_last_error(), "expected the persistent id of an untyped storage");
}
