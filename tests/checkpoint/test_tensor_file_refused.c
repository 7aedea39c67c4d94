/* Files of tensors that are refused: their formats, headers, numbers and names. */
#define _GNU_SOURCE
#include "tensor_files.h"

#include <math.h>

#include "io/zip.h"

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
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1,
         "dtype F4 is not one that yoke knows"},
        {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
         "expected the 4 bytes of \"data_offsets\" to be a float8_e4m3fn (2)"},
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
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0,9007199254740992,9007199254740992],"
         "\"data_offsets\":[0,0]}}",
         0, "expected the 0 bytes"}, /* no element, but strides that no 64 bits hold */
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
        {"{\"a\\u009b2J\\u00a0\":0}", 0, "tensor a?2J\xc2\xa0:"}, /* CSI as one character */
        {"{\"a\\\\u0000\\u0000b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2,
         "offset 18: expected names and texts without zeros"},
    };
    const char *path = yk_test_path("a.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_header(path, cases[i].header, 0, cases[i].data);
        yk_status expected = strstr(cases[i].header, "F4") ? YK_ERROR_UNSUPPORTED : YK_ERROR_FORMAT;
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

YK_TEST(tensors_of_other_kinds_are_refused_one_by_one)
{
    const char *path = yk_test_path("a.safetensors");
    yk_tensor_file *file;
    yk_tensor_entry entry;
    double norm;
    yk_model *model = make_model(1);
    write_header(path,
                 "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[0,2]},"
                 "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]},"
                 "\"c\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[6,14]}}",
                 0, 14);
    assert_ok(yk_tensor_file_open(&file, path));
    assert_int_equal(yk_tensor_file_count(file), 3);
    assert_status(YK_ERROR_UNSUPPORTED, yk_tensor_file_entry(file, 0, &entry));
    assert_string_equal(entry.dtype, "float8_e4m3fn");
    assert_ok(yk_tensor_file_entry(file, 1, &entry));
    assert_status(YK_ERROR_UNSUPPORTED, yk_tensor_file_norm(file, 2, &norm));
    assert_contains(yk_last_error(), "a.safetensors: tensor c is complex64: yoke reads dense");
    yk_tensor_file_close(file);
    assert_status(YK_ERROR_MISMATCH, yk_model_load(model, path)); /* it has other tensors */
    write_header(path, "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[0,2]}}", 0,
                 2);
    assert_status(YK_ERROR_UNSUPPORTED, yk_model_load(model, path));
    assert_contains(yk_last_error(), "kinds that yoke does not read (float8_e4m3fn)");
    yk_model_destroy(model);
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
    const char *path = yk_test_path("a.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_header(path, cases[i].header, 0, 0);
        assert_refused(YK_ERROR_FORMAT, path, cases[i].words);
    }
}

YK_TEST(other_formats_are_named)
{
    static const char legacy[] =
        "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.";
    char tar[512] = "sys_info";
    memcpy(tar + 257, "ustar", 5);
    yk_model *model = make_model(1);
    yk_test_write_file(yk_test_path("a.pth"), legacy, sizeof legacy - 1);
    assert_refused(YK_ERROR_UNSUPPORTED, yk_test_path("a.pth"),
                   "is in PyTorch's legacy format from before 1.6: load and save it again with");
    assert_status(YK_ERROR_UNSUPPORTED, yk_model_load(model, yk_test_path("a.pth")));
    yk_test_write_file(yk_test_path("a.pth"), tar, sizeof tar);
    assert_refused(YK_ERROR_UNSUPPORTED, yk_test_path("a.pth"), "is a tar archive");
    yk_test_write_file(yk_test_path("a.pth"), "\x80\x04.", 3);
    assert_refused(YK_ERROR_FORMAT, yk_test_path("a.pth"), "found a bare pickle");
    yk_test_write_file(yk_test_path("a.pth"), "", 0);
    assert_refused(YK_ERROR_FORMAT, yk_test_path("a.pth"), "found it empty");
    yk_test_write_file(yk_test_path("a.pth"), "hello", 5);
    assert_refused(YK_ERROR_FORMAT, yk_test_path("a.pth"), "found neither");
    yk_test_write_file(yk_test_path("a.pth"), "PK\3\4", 4);
    assert_refused(YK_ERROR_FORMAT, yk_test_path("a.pth"), "expected a zip archive");
    assert_refused(YK_ERROR_NOT_FOUND, yk_test_path("absent.pth"), "No such file");
    assert_refused(YK_ERROR_IO, yk_test_directory(), "is not a file");
    yk_model_destroy(model);
}

YK_TEST(a_pth_file_of_a_big_endian_machine_says_what_to_do)
{
    static const char pickle[] = "\x80\x02}.", order[] = "big";
    const char *path = yk_test_path("a.pth");
    yki_zip_writer *writer;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_ok(yki_zip_writer_create(&writer, fd, path));
    assert_ok(yki_zip_writer_add(writer, "archive/data.pkl", pickle, sizeof pickle - 1));
    assert_ok(yki_zip_writer_add(writer, "archive/byteorder", order, sizeof order - 1));
    assert_ok(yki_zip_writer_finish(writer));
    close(fd);
    assert_refused(YK_ERROR_UNSUPPORTED, path,
                   "member archive/byteorder: expected \"little\": the file is of a big-endian");
}

/* {"state": {}, "param_groups": []}, as PyTorch's optimizers have it. */
YK_TEST(an_optimizers_file_is_told_from_a_models)
{
    yk_model *model = make_model(1);
    const char *path = yk_test_path("optimizer.pth");
    pth_file file = begin_pth(path, yki_pickle_dict);
    yki_pickle_writer *pickle = file.pickle;
    yki_pickle_text(pickle, "state");
    yki_pickle_dict(pickle);
    yki_pickle_text(pickle, "param_groups");
    yki_pickle_list(pickle);
    end_pth(&file);
    assert_status(YK_ERROR_FORMAT, yk_model_load(model, path));
    assert_contains(yk_last_error(), "optimizer.pth: holds an optimizer's state_dict: expected");
    assert_status(YK_ERROR_FORMAT, yk_tensor_file_convert(path, yk_test_path("b.pth"), NULL));
    assert_contains(yk_last_error(), "optimizer.pth: holds an optimizer's state_dict: expected");
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
    write_odd(yk_test_path("a.pth"), model, "bn.num_batches_tracked", &odd);
    assert_ok(yk_model_load(model, yk_test_path("a.pth")));
    assert_int_equal(*(int64_t *)yk_model_buffer(model, 2).value.data, 7);
    assert_ok(yk_model_load(copy, yk_test_path("a.pth")));

    static const double wrong[] = {NAN, INFINITY, -1e19, 9223372036854775808.0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        count = wrong[i];
        ((float *)yk_model_parameter(model, 0).value.data)[0] = 1e6f; /* would change the copy */
        write_odd(yk_test_path("a.pth"), model, "bn.num_batches_tracked", &odd);
        assert_status(YK_ERROR_FORMAT, yk_model_load(copy, yk_test_path("a.pth")));
        assert_contains(yk_last_error(), "a.pth: bn.num_batches_tracked (float64) holds ");
        assert_contains(yk_last_error(), "which the model's int64 does not");
        assert_true(((float *)yk_model_parameter(copy, 0).value.data)[0] < 1e6f);
    }
    yk_model_destroy(model);
    yk_model_destroy(copy);
}

/* ---- names ---------------------------------------------------------------------------------- */

YK_TEST(names_that_are_integers_are_shown)
{
    yk_model *model = make_model(1);
    const char *path = yk_test_path("a.pth");
    pth_file file = begin_pth(path, yki_pickle_ordered_dict);
    yki_pickle_int(file.pickle, 42);
    assert_ok(yki_pth_scalar(file.writer, 3));
    end_pth(&file);
    assert_status(YK_ERROR_MISMATCH, yk_model_load(model, path));
    assert_contains(yk_last_error(), "unexpected 42 (an integer)");
    assert_status(YK_ERROR_FORMAT, yk_tensor_file_convert(path, yk_test_path("b.pth"), NULL));
    assert_contains(yk_last_error(), "expected a text as its name, found 42 (an integer)");
    yk_model_destroy(model);
}

/* A state_dict of one number under this name, which is written byte for byte. */
static void write_named(const char *path, const char *name)
{
    char same_length[64];
    size_t length = strlen(name);
    snprintf(same_length, sizeof same_length, "%0*d", (int)length, 0);
    pth_file file = begin_pth(path, yki_pickle_ordered_dict);
    yki_pickle_text(file.pickle, same_length);
    memcpy(file.pickle->data + file.pickle->size - length, name, length);
    assert_ok(yki_pth_scalar(file.writer, 3));
    end_pth(&file);
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
    write_named(yk_test_path("a.pth"), "\xff\xfew");
    assert_status(YK_ERROR_FORMAT, yk_tensor_file_convert(yk_test_path("a.pth"),
                                                          yk_test_path("b.safetensors"), NULL));
    assert_contains(yk_last_error(), "its name \"\\xff\\xfew\" is not valid UTF-8");
    write_named(yk_test_path("a.pth"), "\xed\xb3\xbfw"); /* as Python writes "\xff" */
    assert_status(YK_ERROR_FORMAT, yk_tensor_file_convert(yk_test_path("a.pth"),
                                                          yk_test_path("b.safetensors"), NULL));
    write_named(yk_test_path("a.pth"), "gr\xc3\xb6\xc3\x9f"
                                       "e");
    assert_ok(yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("b.safetensors"), NULL));
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("c.safetensors"), &prefix));
    assert_contains(yk_last_error(), "prefix: the tensor name \"\\xff\\xfe\" is not valid UTF-8");
    for (int format = YKI_PTH; format <= YKI_SAFETENSORS; format++) {
        assert_status(
            YK_ERROR_INVALID_ARGUMENT,
            yki_tensor_file_write(yk_test_path("c"), (yki_tensor_format)format, &source, 1, NULL));
        assert_contains(yk_last_error(), "not valid UTF-8");
        assert_int_not_equal(access(yk_test_path("c"), F_OK), 0);
    }
    write_header(yk_test_path("a.safetensors"),
                 "{\"\xff\xfe\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 0, 2);
    assert_refused(YK_ERROR_FORMAT, yk_test_path("a.safetensors"),
                   "\"\\xff\\xfe\" is not valid UTF-8");
}

/* Python's strings may have zeros; cut there, two names could be one. */
YK_TEST(names_with_zeros_are_refused)
{
    yk_model *model = make_model(1);
    yk_tensor_file *file;
    yk_tensor_entry entry;
    pth_file made = begin_pth(yk_test_path("a.pth"), yki_pickle_ordered_dict);
    yki_pickle_text(made.pickle, "fc.bias+w");
    made.pickle->data[made.pickle->size - 2] = '\0';
    assert_ok(yki_pth_scalar(made.writer, 3));
    end_pth(&made);
    assert_ok(yk_tensor_file_open(&file, yk_test_path("a.pth")));
    assert_status(YK_ERROR_FORMAT, yk_tensor_file_entry(file, 0, &entry));
    assert_contains(yk_last_error(), "a.pth: tensor 0: its name \"fc.bias\\x00w\" has a zero");
    yk_tensor_file_close(file);
    assert_status(YK_ERROR_FORMAT,
                  yk_tensor_file_convert(yk_test_path("a.pth"), yk_test_path("b.pth"), NULL));
    assert_status(YK_ERROR_MISMATCH, yk_model_load(model, yk_test_path("a.pth")));
    assert_contains(yk_last_error(), "unexpected fc.bias\\x00w");
    yk_model_destroy(model);
}
