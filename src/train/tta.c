/*
 * See tta.h. The views and their weights are those of Jordan's airbench (2024): half of the weight
 * belongs to the image itself and half to two translations, and each of the three shares its weight
 * with its mirror image.
 *
 * Where only uncertain images are evaluated again, they go through the model in parts of a quarter
 * of a batch. The last part is filled up with copies, because the model prepares kernels for each
 * batch size.
 */
#include "train/tta.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/memory.h"
#include "image/geometry.h"
#include "tensor/element.h"

yk_status yki_tta_check(const char *who, yk_tta kind, double confidence)
{
    if (kind != YK_TTA_NONE && kind != YK_TTA_MIRROR && kind != YK_TTA_TRANSLATE)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: tta is %d, expected a constant of yk_tta",
                         who, (int)kind);
    if (!(confidence >= 0 && confidence <= 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: tta_confidence is %g, expected 0 to 1",
                         who, confidence);
    return YK_OK;
}

/* ---- views ----------------------------------------------------------------------------------- */

typedef struct view {
    int down, right; /* offset of the pixel that is seen at a place, reflected at the edges */
    bool mirrored;
    double weight;
} view;

static const view mirror_views[] = {{0, 0, false, 0.5}, {0, 0, true, 0.5}};
static const view translate_views[] = {{0, 0, false, 0.25},    {0, 0, true, 0.25},
                                       {-1, -1, false, 0.125}, {-1, -1, true, 0.125},
                                       {1, 1, false, 0.125},   {1, 1, true, 0.125}};

static int views_of(yk_tta kind, const view **views)
{
    bool translate = kind == YK_TTA_TRANSLATE;
    *views = translate ? translate_views : mirror_views;
    return translate ? sizeof translate_views / sizeof *translate_views
                     : sizeof mirror_views / sizeof *mirror_views;
}

/* One plane (H, W) of elements of 4 or 8 bytes. */
static void copy_plane(const view *v, const char *from, char *to, int64_t height, int64_t width,
                       size_t size)
{
    for (int64_t y = 0; y < height; y++) {
        const char *row =
            from + (size_t)(yki_reflected((int)y + v->down, (int)height) * width) * size;
        for (int64_t x = 0; x < width; x++, to += size) {
            int64_t column = v->mirrored ? width - 1 - x : x;
            memcpy(to, row + (size_t)yki_reflected((int)column + v->right, (int)width) * size,
                   size);
        }
    }
}

/* images (N, C, H, W): writes the views of the chosen rows one after the other. */
static void fill_views(const view *v, const yk_tensor *images, const int64_t *rows, int64_t count,
                       char *to)
{
    size_t size = yk_dtype_size(images->dtype);
    int64_t height = images->dims[2], width = images->dims[3];
    size_t plane = (size_t)(height * width) * size;
    for (int64_t i = 0; i < count; i++)
        for (int64_t c = 0; c < images->dims[1]; c++, to += plane)
            copy_plane(v,
                       (const char *)images->data + (size_t)(rows[i] * images->dims[1] + c) * plane,
                       to, height, width, size);
}

/* ---- memory ---------------------------------------------------------------------------------- */

void yki_tta_free(yki_tta *tta)
{
    free(tta->images);
    free(tta->logits);
    free(tta->rows);
    free(tta->tensors);
}

static yk_status make_room(yki_tta *tta, const yk_tensor *images, const yk_tensor *logits,
                           const yk_batch *batch)
{
    size_t bytes = yk_tensor_bytes(images), rows = (size_t)images->dims[0];
    bool fits =
        yki_reserve(&tta->images, bytes, &tta->image_bytes, 1) &&
        yki_reserve(&tta->logits, (size_t)yk_tensor_count(logits), &tta->logit_count,
                    sizeof *tta->logits) &&
        yki_reserve(&tta->rows, rows, &tta->row_count, sizeof *tta->rows) &&
        yki_reserve(&tta->tensors, (size_t)batch->count, &tta->tensor_count, sizeof *tta->tensors);
    return fits ? YK_OK : yki_error_memory(bytes, "test-time augmentation");
}

/* ---- running --------------------------------------------------------------------------------- */

static double logit_at(const yk_tensor *logits, int64_t index)
{
    return yki_element_get(logits->dtype, logits->data, index);
}

/* The largest softmax of a row. */
static double confidence_of(const yk_tensor *logits, int64_t row)
{
    int64_t classes = logits->dims[1], first = row * classes;
    double largest = logit_at(logits, first), sum = 0;
    for (int64_t c = 1; c < classes; c++)
        largest = fmax(largest, logit_at(logits, first + c));
    for (int64_t c = 0; c < classes; c++)
        sum += exp(logit_at(logits, first + c) - largest);
    return 1 / sum;
}

/* Fills tta->rows with the samples to evaluate again; returns how many. */
static int64_t choose_rows(yki_tta *tta, const yk_tensor *logits)
{
    int64_t count = 0;
    for (int64_t i = 0; i < logits->dims[0]; i++)
        if (tta->confidence >= 1 || confidence_of(logits, i) < tta->confidence)
            tta->rows[count++] = i;
    return count;
}

/* Runs one view of `count` rows as a batch of `size` samples, and adds its logits. */
static yk_status run_part(yki_tta *tta, yk_model *model, const yk_batch *batch, int images,
                          const view *v, const int64_t *rows, int64_t count, int64_t size)
{
    yk_tensor out, part = tta->seen;
    int64_t row_bytes = (int64_t)yk_tensor_bytes(&part) / part.dims[0];
    fill_views(v, &part, rows, count, tta->images);
    for (int64_t i = count; i < size; i++)
        memcpy(tta->images + i * row_bytes, tta->images + (count - 1) * row_bytes,
               (size_t)row_bytes);
    part.data = tta->images;
    const yk_tensor *place = &batch->tensors[images];
    if (place->device && !place->parts) { /* recordings of the model's forward read there */
        part.data = place->data;
        part.device = place->device;
        part.dims[0] = size;
        YK_TRY(yk_tensor_write(&part, tta->images));
    }
    for (int i = 0; i < batch->count; i++) {
        tta->tensors[i] = i == images ? part : batch->tensors[i];
        tta->tensors[i].dims[0] = size;
    }
    yk_batch views = *batch;
    views.size = size;
    views.tensors = tta->tensors;
    YK_TRY(yk_model_forward(model, &views));
    YK_TRY(yk_model_output(model, &out));
    int64_t classes = out.dims[1];
    for (int64_t i = 0; i < count; i++)
        for (int64_t c = 0; c < classes; c++)
            tta->logits[rows[i] * classes + c] += v->weight * logit_at(&out, i * classes + c);
    return YK_OK;
}

static yk_status find_images(int *images, const yk_batch *batch)
{
    const yk_tensor *found = yk_batch_find(batch, "images");
    *images = found ? (int)(found - batch->tensors) : 0;
    if (found && found->ndim == 4 && found->dims[2] > 1 && found->dims[3] > 1 &&
        (found->dtype == YK_F32 || found->dtype == YK_F64))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE,
                     "test-time augmentation: expected batches with \"images\" of shape (N, C, H, "
                     "W), float32 or float64");
}

/* The views of the batch's images, as the host sees them in tta->seen. */
static yk_status run_views(yki_tta *tta, yk_model *model, const yk_batch *batch, int images,
                           yk_tensor *logits)
{
    yk_tensor out;
    const view *views;
    int view_count = views_of(tta->kind, &views);
    YK_TRY(yk_model_output(model, &out));
    if (out.ndim != 2)
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "test-time augmentation: expected logits of shape (N, C), which have 2 "
                         "dimensions, not %d",
                         out.ndim);
    YK_TRY(make_room(tta, &tta->seen, &out, batch));
    for (int64_t i = 0; i < yk_tensor_count(&out); i++)
        tta->logits[i] = views[0].weight * logit_at(&out, i);
    *logits = out;
    logits->dtype = YK_F64;
    logits->data = tta->logits;
    int64_t count = choose_rows(tta, &out);
    int64_t part = tta->confidence >= 1 ? batch->size : (batch->size + 3) / 4;
    for (int64_t first = 0; first < count; first += part)
        for (int v = 1; v < view_count; v++) {
            int64_t left = count - first;
            YK_TRY(run_part(tta, model, batch, images, &views[v], tta->rows + first,
                            left < part ? left : part, part));
        }
    return YK_OK;
}

yk_status yki_tta_run(yki_tta *tta, yk_model *model, const yk_batch *batch, yk_tensor *logits)
{
    int images;
    yki_host_view images_view;
    YK_TRY(find_images(&images, batch));
    YK_TRY(yki_host_view_open(&images_view, &batch->tensors[images], YKI_READ));
    tta->seen = batch->tensors[images];
    tta->seen.data = images_view.data;
    tta->seen.device = NULL;
    tta->seen.parts = NULL;
    return yki_host_view_end(&images_view, run_views(tta, model, batch, images, logits));
}
