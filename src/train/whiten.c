/* Computes a whitening layer from images of a loader; the arithmetic is in nn/whitening.c. */
#include <string.h>

#include <yoke/train.h>

#include "base/error.h"
#include "base/options.h"
#include "device/memory.h"
#include "nn/whitening.h"

static yk_status find_weight(yk_tensor *weight, const yk_model *model, const char *name)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_parameter_view view = yk_model_parameter(model, i);
        *weight = view.value;
        if (strcmp(view.name, name) != 0)
            continue;
        const int64_t *dims = weight->dims;
        if (weight->ndim == 4 && dims[0] == 2 * dims[1] * dims[2] * dims[3] &&
            (weight->dtype == YK_F32 || weight->dtype == YK_F64))
            return YK_OK;
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "whitening: %s must be the weight of a convolution with twice as many "
                         "filters as a patch has values",
                         name);
    }
    return yki_error(YK_ERROR_NOT_FOUND, "whitening: the model has no parameter \"%s\"", name);
}

/* Adds at most the first `left` images of the batch. */
static yk_status add_images(yki_whitening *w, const yk_batch *batch, int64_t left)
{
    const yk_tensor *found = yk_batch_find(batch, "images");
    bool fits = found && found->ndim == 4 && found->dims[1] == w->channels &&
                found->dims[2] >= w->rows && found->dims[3] >= w->columns &&
                (found->dtype == YK_F32 || found->dtype == YK_F64);
    if (!fits)
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "whitening: expected batches with \"images\" of %lld channels, at least "
                         "%lldx%lld",
                         (long long)w->channels, (long long)w->columns, (long long)w->rows);
    yki_host_view view;
    yk_tensor images = *found;
    images.dims[0] = batch->size < left ? batch->size : left;
    YK_TRY(yki_host_view_open(&view, &images, YKI_READ));
    images.data = view.data;
    yki_whitening_add(w, &images);
    return yki_host_view_end(&view, YK_OK);
}

static yk_status sum_patches(yki_whitening *w, yk_loader *loader, int64_t count)
{
    const yk_batch *batch;
    for (int64_t done = 0; done < count; done += batch->size) {
        batch = yk_loader_next(loader);
        if (!batch)
            return yk_loader_status(loader);
        YK_TRY(add_images(w, batch, count - done));
    }
    return YK_OK;
}

static yk_status fill_weight(yki_whitening *w, double eps, const yk_tensor *weight)
{
    yki_host_view view;
    yk_tensor host = *weight;
    if (w->patches == 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "whitening: the loader has no images");
    YK_TRY(yki_host_view_open(&view, weight, YKI_WRITE));
    host.data = view.data;
    yki_whitening_solve(w, eps, &host);
    return yki_host_view_end(&view, YK_OK);
}

yk_status yk_whiten_conv2d(yk_model *model, const char *weight, yk_loader *loader,
                           const yk_whiten_options *options)
{
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(weight);
    YKI_NOT_NULL(loader);
    yk_whiten_options o;
    yk_tensor tensor;
    yki_whitening w;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_whiten_options, YK_WHITEN_OPTIONS_INIT));
    if (o.count < 1 || !(o.eps > 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "whitening: count is %lld and eps %g, expected both above 0",
                         (long long)o.count, o.eps);
    YK_TRY(find_weight(&tensor, model, weight));
    yk_status status = yki_whitening_begin(&w, tensor.dims[1], tensor.dims[2], tensor.dims[3]);
    if (status == YK_OK)
        status = sum_patches(&w, loader, o.count);
    if (status == YK_OK)
        status = fill_weight(&w, o.eps, &tensor);
    yki_whitening_end(&w);
    if (status == YK_OK)
        yk_model_parameters_changed(model);
    return status;
}
