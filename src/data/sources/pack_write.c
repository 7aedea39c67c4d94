/*
 * Writing packed files: see pack.h. Pictures are decoded once, resized and encoded if wanted. The
 * file is written in large pieces: Linux then keeps it in large pages, which it copies to readers
 * twice as fast as the small ones that a file written row by row gets.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/readers.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/options.h"
#include "data/sources/pack.h"
#include "data/transforms/transforms.h"
#include "data/worker.h"
#include "image/resize.h"
#include "io/atomic_file.h"

enum { PIECE = 1 << 20, NAME_BYTES = 1024 };

typedef struct writer {
    yk_pack_options options;
    const yk_dataset *dataset;
    yki_atomic_file file;
    yki_pack_header header;
    yki_pack_entry *entries; /* of the samples that were written */
    int64_t samples;
    uint64_t *name_ends; /* of the samples that were written, in name_text */
    char *name_text;     /* their names, one after another */
    size_t name_bytes, name_room;
    uint64_t at;    /* the file's size */
    uint8_t *piece; /* (PIECE): its end, which is not written yet */
    size_t unwritten;
    yki_resizer resizer;
    yki_picture whole, resized; /* of a JPEG; of any picture */
    yki_decoder *encoder;       /* of YK_PACK_JPEG */
} writer;

static yk_status write_piece(writer *w)
{
    size_t size = w->unwritten;
    w->unwritten = 0;
    return yki_write_all(w->file.fd, w->file.path, w->piece, size);
}

static yk_status append(writer *w, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;
    w->at += size;
    while (size > 0) {
        size_t room = PIECE - w->unwritten, part = size < room ? size : room;
        memcpy(w->piece + w->unwritten, from, part);
        w->unwritten += part;
        from += part;
        size -= part;
        if (w->unwritten == PIECE)
            YK_TRY(write_piece(w));
    }
    return YK_OK;
}

/* ---- samples --------------------------------------------------------------------------------- */

static bool is_too_long(int64_t height, int64_t width, int64_t most)
{
    return height > most || width > most;
}

/* The size of a picture whose shorter side becomes `side`, as torchvision's Resize computes it. */
static yk_status choose_size(const writer *w, const yk_tensor *image, yki_picture_size *size)
{
    bool jpeg = w->options.format == YK_PACK_JPEG;
    int side = (int)w->options.short_side,
        most = jpeg ? YKI_ENCODED_SIDE_MAX : YKI_PICTURE_SIDE_MAX;
    const yk_transform_step resize = {
        YK_TRANSFORM_RESIZE, {.resize = {.height = side, .width = side, .short_side = true}}};
    int64_t dims[] = {image->dims[0], image->dims[1], image->dims[2]};
    if (w->options.short_side != YK_PACK_SIZE_KEEP)
        YK_TRY(yki_transform_size_after(&resize, dims));
    int64_t height = dims[1], width = dims[2], bytes = dims[0] * height * width;
    if (is_too_long(image->dims[1], image->dims[2], YKI_PICTURE_SIDE_MAX) ||
        is_too_long(height, width, most))
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "a picture of %lld x %lld pixels, which would be packed with %lld x %lld: "
                         "a side has at most %d",
                         (long long)image->dims[2], (long long)image->dims[1], (long long)width,
                         (long long)height, most);
    if (!jpeg && bytes > UINT32_MAX)
        return yki_error(YK_ERROR_UNSUPPORTED, "a picture of %lld bytes is too large for the table",
                         (long long)bytes);
    *size = (yki_picture_size){(int)width, (int)height, (int)image->dims[0]};
    return YK_OK;
}

static yki_resize_job resize_job(int in_width, int in_height, int width, int height)
{
    return (yki_resize_job){.width = in_width,
                            .height = in_height,
                            .full_width = width,
                            .full_height = height,
                            .window = {0, 0, width, height},
                            .interpolation = YK_INTERPOLATION_BILINEAR};
}

/* Writes a picture (C, H, W), plane by plane: each is a grey picture to the resizer. */
static yk_status write_pixels(writer *w, const yk_tensor *image, yki_picture_size size,
                              yki_pack_entry *entry)
{
    int height = size.height, width = size.width;
    int in_height = (int)image->dims[1], in_width = (int)image->dims[2];
    size_t plane = (size_t)in_height * (size_t)in_width;
    entry->height = (uint32_t)height;
    entry->width = (uint32_t)width;
    entry->bytes = (uint32_t)((int64_t)size.channels * height * width);
    if (w->samples == 0)
        w->header.channels = (uint32_t)image->dims[0];
    if (image->dims[0] != w->header.channels)
        return yki_error(YK_ERROR_UNSUPPORTED, "%lld channels, where the first picture has %u",
                         (long long)image->dims[0], w->header.channels);
    if (height == in_height && width == in_width)
        return append(w, image->data, entry->bytes);
    yki_resize_job job = resize_job(in_width, in_height, width, height);
    for (int64_t c = 0; c < image->dims[0]; c++) {
        yki_picture in = {(uint8_t *)image->data + (size_t)c * plane,
                          in_width,
                          in_height,
                          1,
                          (size_t)in_width,
                          0};
        YK_TRY(yki_resize(&w->resizer, &in, &job, &w->resized));
        for (int y = 0; y < height; y++)
            YK_TRY(append(w, yki_picture_row(&w->resized, y), (size_t)width));
    }
    return YK_OK;
}

/* Writes a picture (3, H, W) as a JPEG file. */
static yk_status write_jpeg(writer *w, const yk_tensor *image, yki_picture_size size,
                            yki_pack_entry *entry)
{
    int in_height = (int)image->dims[1], in_width = (int)image->dims[2];
    const yki_picture *picture = &w->whole;
    const uint8_t *bytes = NULL;
    size_t count = 0;
    yki_planes planes = yki_planes_of(image->data, (yki_picture_size){in_width, in_height, 3});
    YK_TRY(yki_picture_interleave(&w->whole, &planes));
    if (size.height != in_height || size.width != in_width) {
        yki_resize_job job = resize_job(in_width, in_height, size.width, size.height);
        YK_TRY(yki_resize(&w->resizer, &w->whole, &job, &w->resized));
        picture = &w->resized;
    }
    YK_TRY(yki_encode_jpeg(w->encoder, picture, w->options.quality, &bytes, &count));
    entry->bytes = (uint32_t)count;
    return append(w, bytes, count);
}

/* Remembers the name of the data set's sample `index`, which has just been written. */
static yk_status keep_name(writer *w, int64_t index)
{
    if (!yki_reserve(&w->name_text, w->name_bytes + NAME_BYTES, &w->name_room, 1))
        return yki_error_memory(w->name_bytes + NAME_BYTES, "names of samples");
    char *name = w->name_text + w->name_bytes;
    yk_dataset_sample_name(w->dataset, index, name, NAME_BYTES);
    w->name_bytes += strlen(name);
    w->name_ends[w->samples++] = w->name_bytes;
    return YK_OK;
}

/* Whether a sample that could not be read, for this thread's last error, is left out. */
static bool leave_out(const writer *w, yk_status status)
{
    if (!w->options.skip_damaged || !yk_sample_is_damaged(status))
        return false;
    YKI_WARN("%s: left out", yki_error_text());
    return true;
}

static yki_pack_entry *next_entry(writer *w, int32_t label)
{
    w->entries[w->samples] = (yki_pack_entry){.offset = w->at, .label = label};
    return &w->entries[w->samples];
}

static yk_status check_label(const writer *w, int32_t label)
{
    if (label >= 0 && (uint32_t)label < w->header.classes)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "label %d: expected 0 to %u", label,
                     w->header.classes - 1);
}

/* Reads a sample, and chooses the size that its picture gets. */
static yk_status read_picture(const writer *w, yk_reader *reader, int64_t index,
                              const yk_tensor **fields, yki_picture_size *size)
{
    YK_TRY(yk_reader_read(reader, index, fields));
    yk_status status = check_label(w, *(const int32_t *)(*fields)[1].data);
    if (status == YK_OK)
        status = choose_size(w, &(*fields)[0], size);
    return status == YK_OK ? YK_OK : yki_name_sample(w->dataset, index, status);
}

/* Decodes every picture and writes its pixels, or a JPEG file made of them. */
static yk_status write_all_pictures(writer *w)
{
    yk_reader *reader;
    const yk_tensor *fields;
    bool jpeg = w->options.format == YK_PACK_JPEG;
    if (jpeg)
        YK_TRY(yki_decoder_create(&w->encoder));
    YK_TRY(yk_reader_create(&reader, w->dataset));
    yk_status status = YK_OK;
    for (int64_t i = 0; i < yk_dataset_size(w->dataset) && status == YK_OK; i++) {
        yki_picture_size size;
        status = read_picture(w, reader, i, &fields, &size);
        if (status == YK_OK) {
            yki_pack_entry *entry = next_entry(w, *(const int32_t *)fields[1].data);
            status = (jpeg ? write_jpeg : write_pixels)(w, &fields[0], size, entry);
            if (status == YK_OK)
                status = keep_name(w, i);
        } else if (leave_out(w, status)) {
            status = YK_OK;
        }
    }
    yk_reader_destroy(reader);
    return status;
}

static yk_status read_file(const writer *w, yki_worker *worker, int64_t index, int32_t *label)
{
    worker->buffers[1].data = label;
    YK_TRY(yki_worker_read(worker, index));
    yk_status status = check_label(w, *label);
    return status == YK_OK ? YK_OK : yki_name_sample(w->dataset, index, status);
}

/* Writes every picture's file as it is. */
static yk_status write_all_files(writer *w)
{
    yki_worker worker = {.dataset = NULL};
    int32_t label = 0;
    yk_status status = yki_worker_open(&worker, w->dataset);
    for (int64_t i = 0; i < yk_dataset_size(w->dataset) && status == YK_OK; i++) {
        status = read_file(w, &worker, i, &label);
        if (status == YK_OK) {
            const yk_field_buffer *file = &worker.buffers[0];
            yki_pack_entry *entry = next_entry(w, label);
            entry->bytes = (uint32_t)file->bytes;
            status = append(w, file->data, file->bytes);
            if (status == YK_OK)
                status = keep_name(w, i);
        } else if (leave_out(w, status)) {
            status = YK_OK;
        }
    }
    yki_worker_close(&worker);
    return status;
}

/* ---- the file -------------------------------------------------------------------------------- */

static yk_status write_class_names(writer *w)
{
    w->header.names = w->at;
    for (uint32_t i = 0; i < w->header.classes; i++) {
        char number[16];
        const char *name = yk_dataset_class_name(w->dataset, i);
        snprintf(number, sizeof number, "%u", i);
        name = name ? name : number;
        YK_TRY(append(w, name, strlen(name) + 1));
    }
    w->header.names_bytes = w->at - w->header.names;
    return YK_OK;
}

/* Nothing, where samples have no names. */
static yk_status write_sample_names(writer *w)
{
    size_t ends_bytes = (size_t)w->samples * sizeof *w->name_ends;
    if (w->name_bytes == 0)
        return YK_OK;
    w->header.places = w->at;
    uint64_t first = w->at + sizeof first + ends_bytes;
    for (int64_t i = 0; i < w->samples; i++)
        w->name_ends[i] += first;
    YK_TRY(append(w, &first, sizeof first));
    YK_TRY(append(w, w->name_ends, ends_bytes));
    return append(w, w->name_text, w->name_bytes);
}

static yk_status write_contents(writer *w)
{
    static const char zeros[YKI_PACK_DATA];
    YK_TRY(append(w, zeros, sizeof zeros));
    YK_TRY(w->options.format == YK_PACK_FILES ? write_all_files(w) : write_all_pictures(w));
    if (w->samples == 0)
        return yki_error(YK_ERROR_FORMAT, "%s: none of its samples can be read",
                         yk_dataset_name(w->dataset));
    w->header.count = (uint64_t)w->samples;
    w->header.table = w->at;
    YK_TRY(append(w, w->entries, (size_t)w->samples * sizeof *w->entries));
    YK_TRY(write_class_names(w));
    YK_TRY(write_sample_names(w));
    YK_TRY(write_piece(w));
    if (lseek(w->file.fd, 0, SEEK_SET) != 0)
        return yki_error(YK_ERROR_IO, "%s: cannot write its header", w->file.path);
    return yki_write_all(w->file.fd, w->file.path, &w->header, sizeof w->header);
}

static yk_status write_file(writer *w, const char *path)
{
    YK_TRY(yki_atomic_open(&w->file, path));
    yk_status status = write_contents(w);
    if (status == YK_OK)
        return yki_atomic_commit(&w->file);
    yki_atomic_abandon(&w->file);
    return status;
}

/* Whether the data set has pictures and labels, and what the options say fits them. */
static yk_status check(const yk_dataset *dataset, const yk_pack_options *options)
{
    const yk_field *images = yk_dataset_field(dataset, 0), *labels = yk_dataset_field(dataset, 1);
    bool fits = yk_dataset_field_count(dataset) == 2 && images->kind != YK_FIELD_TENSOR &&
                labels->kind == YK_FIELD_TENSOR && labels->dtype == YK_I32 && labels->ndim == 0;
    if (!fits)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s: only data sets of pictures with labels can be packed",
                         yk_dataset_name(dataset));
    if (yk_dataset_classes(dataset) < 1)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s: its labels are not of classes, as packed ones are",
                         yk_dataset_name(dataset));
    if (options->short_side != YK_PACK_SIZE_KEEP &&
        (options->short_side < 1 || options->short_side > 8192))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "short_side is %lld: expected 1 to 8192",
                         (long long)options->short_side);
    if (options->format > YK_PACK_FILES)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "format is %d: expected a yk_pack_format",
                         (int)options->format);
    if (options->format == YK_PACK_FILES && images->kind != YK_FIELD_ENCODED_IMAGE)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: its pictures are not files to be kept",
                         yk_dataset_name(dataset));
    if (options->format == YK_PACK_FILES && options->short_side != YK_PACK_SIZE_KEEP)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "files that are kept as they are cannot be resized");
    if (options->format == YK_PACK_JPEG && images->dims[0] != 3)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s: pictures of %lld channels are not packed as JPEG, which is read as "
                         "RGB: pack their pixels",
                         yk_dataset_name(dataset), (long long)images->dims[0]);
    if (options->quality < 1 || options->quality > 100)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "quality is %d: expected 1 to 100",
                         options->quality);
    return YK_OK;
}

yk_status yk_pack_write(const char *path, const yk_dataset *dataset, const yk_pack_options *given)
{
    writer w = {.at = 0};
    YKI_NOT_NULL(path);
    YKI_NOT_NULL(dataset);
    YK_TRY(YKI_READ_OPTIONS(&w.options, given, yk_pack_options, YK_PACK_OPTIONS_INIT));
    YK_TRY(check(dataset, &w.options));
    if (yk_dataset_reads_file(dataset, path))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: is a file of the data that it would hold",
                         path);
    w.dataset = dataset;
    w.header = (yki_pack_header){.version = YKI_PACK_VERSION,
                                 .kind = w.options.format == YK_PACK_PIXELS ? YKI_PACK_PIXELS
                                                                            : YKI_PACK_FILES,
                                 .classes = (uint32_t)yk_dataset_classes(dataset),
                                 .channels = 3};
    memcpy(w.header.magic, YKI_PACK_MAGIC, sizeof w.header.magic);
    size_t count = (size_t)yk_dataset_size(dataset);
    w.entries = yki_calloc(count + 1, sizeof *w.entries);
    w.name_ends = yki_calloc(count + 1, sizeof *w.name_ends);
    w.piece = malloc(PIECE);
    yk_status status = w.entries && w.name_ends && w.piece
                           ? write_file(&w, path)
                           : yki_error_memory(PIECE + count * sizeof *w.entries, path);
    yki_resizer_free(&w.resizer);
    yki_picture_free(&w.whole);
    yki_picture_free(&w.resized);
    yki_decoder_destroy(w.encoder);
    free(w.piece);
    free(w.entries);
    free(w.name_ends);
    free(w.name_text);
    return status;
}
