/* Muon's products as plain loops. */
#include <math.h>

#include "device/ref/ref.h"

static void multiply(const yki_device *device, const yki_muon_product *o)
{
    (void)device;
    for (int64_t i = 0; i < o->m; i++)
        for (int64_t j = 0; j < o->n; j++) {
            float sum = 0;
            for (int64_t k = 0; k < o->k; k++)
                sum = fmaf(o->p[i * o->k + k], o->q[k * o->n + j], sum);
            o->c[i * o->n + j] = o->d ? o->alpha * o->d[i * o->n + j] + o->beta * sum : sum;
        }
}

static yk_status update(yki_device *device, const yki_muon_args *args)
{
    yki_muon_run(args, multiply, device);
    return YK_OK;
}

const yki_muon_ops yki_ref_muon = {.prepare = yki_muon_prepare, .update = update};
