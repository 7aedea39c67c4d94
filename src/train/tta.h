/* Test-time augmentation: logits that are averaged over several views of each image. */
#ifndef YKI_TTA_H
#define YKI_TTA_H

#include <yoke/train.h>

/* Memory for one evaluation; start from zeros but for the first two. */
typedef struct yki_tta {
    yk_tta kind;
    double confidence; /* from which on an image is not looked at again */
    char *images;      /* a batch of views */
    double *logits;    /* (N, C): of the batch */
    int64_t *rows;     /* (N): samples that are looked at again */
    yk_tensor *tensors;
    size_t image_bytes, logit_count, row_count, tensor_count;
} yki_tta;

void yki_tta_free(yki_tta *tta);

/*
 * After a forward of the batch, whose logits are the first view's: runs the other views and writes
 * the averages to *logits (N, C), f64, valid until the next call. The batch has a tensor "images"
 * (N, C, H, W), f32 or f64.
 */
yk_status yki_tta_run(yki_tta *tta, yk_model *model, const yk_batch *batch, yk_tensor *logits);

#endif
