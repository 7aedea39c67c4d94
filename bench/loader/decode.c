/*
 * How fast one thread decodes the JPEG files of a folder: libjpeg-turbo alone, and yoke's decoder,
 * for all pixels and for a picture of at least 224 pixels. The three take turns; prints the medians
 * as one line of JSON, in pictures per second of processor time.
 *
 * usage: decode FOLDER [ROUNDS]
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

#include "image/decode.h"

enum { MAX_FILES = 1000, MAX_ROUNDS = 101 };

typedef struct picture {
    uint8_t *bytes;
    size_t size;
} picture;

static picture pictures[MAX_FILES];
static int count;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void read_folder(const char *folder)
{
    DIR *entries = opendir(folder);
    for (const struct dirent *entry; entries && count < MAX_FILES && (entry = readdir(entries));) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = strstr(entry->d_name, ".jpg") ? fopen(path, "rb") : NULL;
        if (!file)
            continue;
        picture *p = &pictures[count++];
        fseek(file, 0, SEEK_END);
        p->size = (size_t)ftell(file);
        p->bytes = malloc(p->size);
        rewind(file);
        if (!p->bytes || fread(p->bytes, 1, p->size, file) != p->size)
            exit(1);
        fclose(file);
    }
    if (entries)
        closedir(entries);
}

/* ---- the three ways -------------------------------------------------------------------------- */

static void decode_libjpeg(void)
{
    static uint8_t *pixels;
    static size_t room;
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&jpeg);
    for (int i = 0; i < count; i++) {
        jpeg_mem_src(&jpeg, pictures[i].bytes, pictures[i].size);
        jpeg_read_header(&jpeg, TRUE);
        jpeg_start_decompress(&jpeg);
        size_t stride = (size_t)jpeg.output_width * 3, bytes = stride * jpeg.output_height;
        if (bytes > room) {
            pixels = realloc(pixels, bytes);
            room = bytes;
        }
        while (jpeg.output_scanline < jpeg.output_height) {
            JSAMPROW row = pixels + jpeg.output_scanline * stride;
            jpeg_read_scanlines(&jpeg, &row, 1);
        }
        jpeg_finish_decompress(&jpeg);
    }
    jpeg_destroy_decompress(&jpeg);
}

static void decode_yoke(int least)
{
    static yki_decoder *decoder;
    if (!decoder)
        YK_CHECK(yki_decoder_create(&decoder));
    for (int i = 0; i < count; i++) {
        yki_picture_size size;
        yki_picture out;
        yki_scale scale;
        YK_CHECK(yki_decode_open(decoder, pictures[i].bytes, pictures[i].size, &size));
        YK_CHECK(yki_decode_read(decoder, NULL, least ? least : size.width,
                                 least ? least : size.height, &out, &scale));
    }
}

static void decode_all(void)
{
    decode_yoke(0);
}

static void decode_reduced(void)
{
    decode_yoke(224);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {
        {"libjpeg-turbo", decode_libjpeg}, {"yoke", decode_all}, {"yoke_224", decode_reduced}};
    static double seconds[3][MAX_ROUNDS];
    int rounds = argc > 2 ? atoi(argv[2]) : 5;
    if (argc < 2 || rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: decode FOLDER [ROUNDS]\n");
        return 2;
    }
    read_folder(argv[1]);
    for (int round = -1; round < rounds; round++) /* the first one warms up */
        for (int way = 0; way < 3; way++) {
            double start = now();
            ways[way].run();
            seconds[way][round < 0 ? 0 : round] = now() - start;
        }
    for (int way = 0; way < 3; way++) {
        qsort(seconds[way], (size_t)rounds, sizeof **seconds, compare);
        printf("%s\"%s\": %.1f", way ? ", " : "{", ways[way].name,
               count / seconds[way][rounds / 2]);
    }
    printf("}\n");
    return 0;
}
