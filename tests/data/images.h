/* Images that are drawn, and looking at one of a data set. */
#ifndef IMAGES_H
#define IMAGES_H

#include "harness.h"

#include <string.h>

static inline yk_dataset *draw_images(int64_t count)
{
    yk_dataset *dataset;
    assert_ok(yk_synthetic_create(
        &dataset, YK_SPLIT_TRAIN,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = count)));
    return dataset;
}

/* Valid for the next three looks. */
static inline const uint8_t *image_of(const yk_dataset *dataset, int64_t index, int *label)
{
    static uint8_t pixels[4][3072];
    static int turn;
    turn = (turn + 1) % 4;
    yk_reader *reader;
    const yk_tensor *fields;
    assert_ok(yk_reader_create(&reader, dataset));
    assert_ok(yk_reader_read(reader, index, &fields));
    assert_int_equal(yk_tensor_bytes(&fields[0]), sizeof *pixels);
    memcpy(pixels[turn], fields[0].data, sizeof *pixels);
    if (label)
        *label = *(const int32_t *)fields[1].data;
    yk_reader_destroy(reader);
    return pixels[turn];
}

#endif
