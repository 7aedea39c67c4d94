/* The archive writer's alignment, read from its bytes, and what the reader refuses. */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zip.h>

#include "io/zip.h"

static const char *scratch(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", yk_test_directory(), name);
    return path;
}

/* Members of awkward sizes: empty, odd, larger than a page. */
static void write_sample(const char *path)
{
    static char large[100001];
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)(i * 7);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    yki_zip_writer *writer;
    assert_ok(yki_zip_writer_create(&writer, fd, path));
    assert_ok(yki_zip_writer_add(writer, "archive/empty", "", 0));
    assert_ok(yki_zip_writer_add(writer, "archive/one", "x", 1));
    assert_ok(yki_zip_writer_add(writer, "archive/large", large, sizeof large));
    assert_ok(yki_zip_writer_add(writer, "archive/last", "last", 4));
    assert_ok(yki_zip_writer_finish(writer));
    close(fd);
}

static unsigned char *slurp(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(*size);
    assert_int_equal(fread(data, 1, *size, file), *size);
    fclose(file);
    return data;
}

static unsigned little(const unsigned char *bytes, int count)
{
    unsigned value = 0;
    for (int i = count; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

YK_TEST(data_is_stored_and_aligned)
{
    char path[256];
    snprintf(path, sizeof path, "%s", scratch("sample.zip"));
    write_sample(path);
    size_t size, at = 0;
    unsigned char *data = slurp(path, &size);
    int members = 0;
    while (little(data + at, 4) == 0x04034b50) {
        assert_int_equal(little(data + at + 8, 2), 0);     /* stored */
        assert_int_equal(little(data + at + 6, 2) & 8, 0); /* sizes are in the header itself */
        size_t extra = at + 30 + little(data + at + 26, 2);
        size_t begin = extra + little(data + at + 28, 2);
        assert_int_equal(data[extra], 'F');
        assert_int_equal(data[extra + 1], 'B');
        assert_int_equal(begin % YKI_ZIP_ALIGNMENT, 0);
        at = begin + little(data + at + 18, 4);
        members++;
    }
    assert_int_equal(members, 4);
    free(data);
}

YK_TEST(what_was_written_is_read)
{
    char path[256];
    snprintf(path, sizeof path, "%s", scratch("sample.zip"));
    write_sample(path);
    yki_zip *zip;
    void *data;
    size_t size;
    assert_ok(yki_zip_open(&zip, path));
    assert_int_equal(yki_zip_count(zip), 4);
    assert_string_equal(yki_zip_name(zip, 1), "archive/one");
    assert_int_equal(yki_zip_find(zip, "archive/none"), -1);
    assert_ok(yki_zip_read(zip, (size_t)yki_zip_find(zip, "archive/large"), &data, &size));
    assert_int_equal(size, 100001);
    assert_int_equal(((char *)data)[100000], (char)(100000u * 7));
    free(data);
    assert_ok(yki_zip_read(zip, 0, &data, &size));
    assert_int_equal(size, 0);
    free(data);
    yki_zip_close(zip);
}

YK_TEST(a_changed_byte_is_found)
{
    char path[256];
    snprintf(path, sizeof path, "%s", scratch("sample.zip"));
    write_sample(path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "?", 1, 50000), 1);
    close(fd);
    yki_zip *zip;
    void *data;
    size_t size;
    assert_ok(yki_zip_open(&zip, path));
    assert_status(YK_FORMAT, yki_zip_read(zip, 2, &data, &size));
    assert_null(data);
    assert_contains(yk_last_error(), "archive/large");
    yki_zip_close(zip);
}

/* 64 MiB of zeros in some 64 KiB: a legitimate deflate stream, and more than the bound. */
YK_TEST(promise_31_a_zip_bomb_is_refused)
{
    char path[256];
    snprintf(path, sizeof path, "%s", scratch("bomb.zip"));
    size_t bytes = (size_t)64 << 20, size;
    void *zeros = calloc(1, bytes), *data;
    zip_t *archive = zip_open(path, ZIP_CREATE, NULL);
    zip_file_add(archive, "bomb", zip_source_buffer(archive, zeros, bytes, 0), 0);
    assert_int_equal(zip_close(archive), 0);
    free(zeros);
    yki_zip *zip;
    assert_ok(yki_zip_open(&zip, path));
    assert_status(YK_FORMAT, yki_zip_read(zip, 0, &data, &size));
    assert_contains(yk_last_error(), "far more than the file holds");
    yki_zip_close(zip);
}

YK_TEST(what_is_no_archive_is_named)
{
    yki_zip *zip;
    assert_status(YK_NOT_FOUND, yki_zip_open(&zip, scratch("absent")));
    assert_contains(yk_last_error(), "absent");
    assert_status(YK_IO, yki_zip_open(&zip, yk_test_directory()));
    FILE *file = fopen(scratch("text"), "w");
    fputs("no archive", file);
    fclose(file);
    assert_status(YK_FORMAT, yki_zip_open(&zip, scratch("text")));
    assert_contains(yk_last_error(), "zip archive with its directory before offset 10");
}
