/* Test-time augmentation: averages logits over several views of each image. */
#ifndef YKI_TTA_H
#define YKI_TTA_H

#include <yoke/train.h>

/* Memory for one evaluation. Set the first two members and the rest to zeros. */
typedef struct yki_tta {
    yk_tta kind;
    double confidence; /* images with at least this probability are not evaluated again */
    yk_tensor seen;    /* the running batch's images, in the host's memory */
    char *images;      /* a batch of views */
    double *logits;    /* (N, C) */
    int64_t *rows;     /* (N): samples that are evaluated again */
    yk_tensor *tensors;
    size_t image_bytes, logit_count, row_count, tensor_count;
} yki_tta;

/* Whether a program's options are what they may be; names it in its error. */
yk_status yki_tta_check(const char *who, yk_tta kind, double confidence);
void yki_tta_free(yki_tta *tta);

/*
 * Call it after a forward of the batch, whose logits are those of the first view. Runs the other
 * views and stores the averages in *logits (N, C), f64, valid until the next call. The batch must
 * have a tensor "images" (N, C, H, W), f32 or f64.
 */
yk_status yki_tta_run(yki_tta *tta, yk_model *model, const yk_batch *batch, yk_tensor *logits);

#endif
