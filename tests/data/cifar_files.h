/*
 * Little CIFAR-10 files for tests: the same opcodes that Python 2's cPickle wrote into the official
 * ones, with as many rows as wanted. Row i of file f has label (f + i) % 10 and pixel p of it is
 * (7 f + 3 i + p) % 256.
 */
#ifndef CIFAR_FILES_H
#define CIFAR_FILES_H

#include "harness.h"

#include <string.h>
#include <sys/stat.h>

enum { TEST_FILE_COUNT = 6, ROW_BYTES = 3072 };

/* A new, empty folder of this test. */
static inline const char *fresh_folder(void)
{
    static char path[256];
    static int made;
    snprintf(path, sizeof path, "%s/%d", yk_test_directory(), made++);
    assert_int_equal(mkdir(path, 0755), 0);
    return path;
}

static inline const char *batch_name(int file)
{
    static const char *const names[TEST_FILE_COUNT] = {"data_batch_1", "data_batch_2",
                                                       "data_batch_3", "data_batch_4",
                                                       "data_batch_5", "test_batch"};
    return names[file];
}

static inline int row_label(int file, int row)
{
    return (file + row) % 10;
}

static inline uint8_t row_pixel(int file, int row, int pixel)
{
    return (uint8_t)(7 * file + 3 * row + pixel);
}

static inline void write_pixels(FILE *out, int file, int row)
{
    for (int p = 0; p < ROW_BYTES; p++)
        fputc(row_pixel(file, row, p), out);
}

static inline void write_little(FILE *out, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        fputc((int)(value >> (8 * i) & 0xff), out);
}

static inline void write_short_string(FILE *out, const char *text)
{
    fputc('U', out);
    fputc((int)strlen(text), out);
    fputs(text, out);
}

static inline void write_bytes(FILE *out, const void *bytes, size_t size)
{
    assert_int_equal(fwrite(bytes, 1, size, out), size);
}
#define WRITE(out, literal) write_bytes(out, literal, sizeof(literal) - 1)

/* "labels": a list, in runs of 1,000 after a MARK. */
static inline void write_labels(FILE *out, int file, int rows)
{
    write_short_string(out, "labels");
    WRITE(out, "q\x04]q\x05");
    for (int row = 0; row < rows; row++) {
        if (row % 1000 == 0)
            WRITE(out, "(");
        fputc('K', out);
        fputc(row_label(file, row), out);
        if (row % 1000 == 999 || row == rows - 1)
            WRITE(out, "e");
    }
}

/* "data": numpy's _reconstruct(ndarray, (0,), 'b') and its state. */
static inline void write_array(FILE *out, int file, int rows)
{
    write_short_string(out, "data");
    WRITE(out, "q\x06"
               "cnumpy.core.multiarray\n_reconstruct\nq\x07"
               "cnumpy\nndarray\nq\x08K\x00\x85U\x01"
               "b\x87Rq\x09(K\x01M");
    write_little(out, (uint32_t)rows, 2);
    WRITE(out, "M\x00\x0c\x86"
               "cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNN"
               "J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T");
    write_little(out, (uint32_t)rows * ROW_BYTES, 4);
    for (int row = 0; row < rows; row++)
        write_pixels(out, file, row);
    WRITE(out, "q\x0ctb");
}

static inline void write_pickle(const char *path, int file, int rows)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    WRITE(out, "\x80\x02}q\x01(");
    write_short_string(out, "batch_label");
    WRITE(out, "q\x02");
    write_short_string(out, "batch of a test");
    WRITE(out, "q\x03");
    write_labels(out, file, rows);
    write_array(out, file, rows);
    write_short_string(out, "filenames");
    WRITE(out, "q\x0d]q\x0e(");
    for (int row = 0; row < rows; row++)
        write_short_string(out, "image.png");
    WRITE(out, "eu.");
    fclose(out);
}

static inline void write_records(const char *path, int file, int rows)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    for (int row = 0; row < rows; row++) {
        fputc(row_label(file, row), out);
        write_pixels(out, file, row);
    }
    fclose(out);
}

/* PARENT/cifar-10-batches-py or -bin with `rows` rows in each of its six files. */
static inline void write_cifar(const char *parent, bool binary, int rows)
{
    char path[512];
    const char *folder = binary ? "cifar-10-batches-bin" : "cifar-10-batches-py";
    snprintf(path, sizeof path, "%s/%s", parent, folder);
    mkdir(path, 0755);
    for (int file = 0; file < TEST_FILE_COUNT; file++) {
        snprintf(path, sizeof path, "%s/%s/%s%s", parent, folder, batch_name(file),
                 binary ? ".bin" : "");
        if (binary)
            write_records(path, file, rows);
        else
            write_pickle(path, file, rows);
    }
}

#endif
