/* The archive writer's alignment, read from its bytes, and what the reader refuses. */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zip.h>

#include "io/zip.h"

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

/* Where a local header's data begin. */
static size_t data_of(const unsigned char *archive, size_t header)
{
    return header + 30 + little(archive + header + 26, 2) + little(archive + header + 28, 2);
}

/* The local header of the sample's member `index`. */
static size_t header_of(const unsigned char *archive, int index)
{
    size_t at = 0;
    while (index-- > 0)
        at = data_of(archive, at) + little(archive + at + 18, 4);
    return at;
}

YK_TEST(data_is_stored_and_aligned)
{
    const char *path = yk_test_path("sample.zip");
    write_sample(path);
    size_t size;
    unsigned char *data = slurp(path, &size);
    for (int i = 0; i < 4; i++) {
        size_t at = header_of(data, i);
        assert_int_equal(little(data + at, 4), 0x04034b50);
        assert_int_equal(little(data + at + 8, 2), 0);     /* stored */
        assert_int_equal(little(data + at + 6, 2) & 8, 0); /* sizes are in the header itself */
        size_t extra = at + 30 + little(data + at + 26, 2);
        assert_int_equal(data[extra], 'F');
        assert_int_equal(data[extra + 1], 'B');
        assert_int_equal(data_of(data, at) % YKI_ZIP_ALIGNMENT, 0);
    }
    assert_int_not_equal(little(data + header_of(data, 4), 4), 0x04034b50);
    free(data);
}

YK_TEST(what_was_written_is_read)
{
    const char *path = yk_test_path("sample.zip");
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

/* Reading the member must fail with these words, at a place of the file from `first` to `last`. */
static void refused_at(const char *path, size_t index, size_t first, size_t last, const char *words)
{
    yki_zip *zip;
    void *data;
    size_t size, offset;
    char member[300];
    assert_ok(yki_zip_open(&zip, path));
    assert_status(YK_ERROR_FORMAT, yki_zip_read(zip, index, &data, &size));
    assert_null(data);
    const char *line = strstr(yk_last_error(), path);
    assert_non_null(line);
    assert_int_equal(sscanf(line + strlen(path), ": offset %zu: ", &offset), 1);
    assert_in_range(offset, first, last);
    snprintf(member, sizeof member, ": member %s: ", yki_zip_name(zip, index));
    assert_contains(line, member);
    assert_contains(line, words);
    yki_zip_close(zip);
}

YK_TEST(promise_31_a_changed_byte_is_found_and_placed)
{
    const char *path = yk_test_path("sample.zip");
    write_sample(path);
    size_t size;
    unsigned char *data = slurp(path, &size);
    size_t begin = data_of(data, header_of(data, 2));
    data[50000]++;
    yk_test_write_file(path, data, size);
    refused_at(path, 2, begin, begin, "CRC");
    free(data);
}

/* libzip does not look at it without a password; where it lies is told all the same. */
YK_TEST(promise_31_an_encrypted_member_is_placed)
{
    const char *path = yk_test_path("sample.zip");
    write_sample(path);
    size_t size;
    unsigned char *data = slurp(path, &size);
    size_t header = header_of(data, 3);
    unsigned char *entry = memmem(data + header, size - header, "PK\1\2", 4);
    for (int i = 0; i < 3; i++)
        entry = memmem(entry + 4, size - (size_t)(entry + 4 - data), "PK\1\2", 4);
    data[header + 6] |= 1;
    entry[8] |= 1;
    yk_test_write_file(path, data, size);
    refused_at(path, 3, header, data_of(data, header), "");
    free(data);
}

/* A deflated member of bytes that are none, and the place of the block that held the damage. */
YK_TEST(promise_31_a_damaged_deflate_stream_is_placed)
{
    const char *path = yk_test_path("deflated.zip");
    static char text[40000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * i / 7);
    zip_t *archive = zip_open(path, ZIP_CREATE, NULL);
    zip_file_add(archive, "first", zip_source_buffer(archive, text, 100, 0), 0);
    zip_file_add(archive, "second", zip_source_buffer(archive, text, sizeof text, 0), 0);
    assert_int_equal(zip_close(archive), 0);
    size_t size;
    unsigned char *data = slurp(path, &size);
    size_t header = header_of(data, 1);
    memset(data + data_of(data, header) + 2, 0xff, 64);
    yk_test_write_file(path, data, size);
    refused_at(path, 1, data_of(data, header), size, "");
    free(data);
}

/* 64 MiB of zeros in some 64 KiB: a legitimate deflate stream, and more than the bound. */
YK_TEST(promise_31_a_zip_bomb_is_refused)
{
    const char *path = yk_test_path("bomb.zip");
    size_t bytes = (size_t)64 << 20;
    void *zeros = calloc(1, bytes);
    zip_t *archive = zip_open(path, ZIP_CREATE, NULL);
    zip_file_add(archive, "bomb", zip_source_buffer(archive, zeros, bytes, 0), 0);
    assert_int_equal(zip_close(archive), 0);
    free(zeros);
    refused_at(path, 0, 0, 30 + strlen("bomb"), "would unpack to far more than the file holds");
}

/* Cut short while it is open: the line is the file's own. */
YK_TEST(promise_31_an_archive_cut_short_while_it_is_open)
{
    const char *path = yk_test_path("sample.zip");
    write_sample(path);
    yki_zip *zip;
    void *data;
    size_t size;
    assert_ok(yki_zip_open(&zip, path));
    assert_int_equal(truncate(path, 4096), 0);
    assert_status(YK_ERROR_IO, yki_zip_read(zip, 2, &data, &size));
    assert_contains(yk_last_error(), "sample.zip: offset 4096: the file ends here");
    assert_ok(yki_zip_read(zip, 1, &data, &size));
    free(data);
    yki_zip_close(zip);
}

YK_TEST(what_is_no_archive_is_named)
{
    yki_zip *zip;
    assert_status(YK_ERROR_NOT_FOUND, yki_zip_open(&zip, yk_test_path("absent")));
    assert_contains(yk_last_error(), "absent");
    assert_status(YK_ERROR_IO, yki_zip_open(&zip, yk_test_directory()));
    FILE *file = fopen(yk_test_path("text"), "w");
    fputs("no archive", file);
    fclose(file);
    assert_status(YK_ERROR_FORMAT, yki_zip_open(&zip, yk_test_path("text")));
    assert_contains(yk_last_error(), "zip archive with its directory before offset 10");
}
