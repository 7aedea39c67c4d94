/*
 * The ref device: every operator in plain, readable C. It is the oracle of the tests and the
 * fallback of the other devices, so clarity comes before speed: elements are read and written as
 * doubles through get() and set(), so that the same code serves f32, f64, bf16 and f16, and every
 * sum is a double.
 *
 * Operands are YKI_PLAIN. Absent operands are tensors without data. A backward kernel gathers the
 * terms of each sum instead of scattering into its output, so that an f32 output is rounded once.
 */
#ifndef YKI_REF_H
#define YKI_REF_H

#include "device/device.h"
#include "tensor/element.h"

/* All kernels are prepared in the same way: they store what they were asked to do. */
typedef struct yki_ref_kernel {
    yki_kernel base;
    yki_kernel_desc desc;
    yki_attrs attrs;
} yki_ref_kernel;

/* Operands in f32, f64, bf16 and f16 (and the integers that go with them), plain. */
bool yki_ref_supports(const yki_device *device, const yki_kernel_desc *desc);
yk_status yki_ref_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel);

const yki_attrs *yki_ref_attrs(const yki_kernel *kernel);
bool yki_ref_training(const yki_kernel *kernel);
/* An operand of this run; data is NULL if it is absent. */
yk_tensor yki_ref_in(const yki_kernel *kernel, const yki_kernel_args *run, int index);
yk_tensor yki_ref_out(const yki_kernel *kernel, const yki_kernel_args *run, int index);
/* An operand of this run, which is not absent, as doubles of its own: loops that read each element
 * many times need not ask for its type. Free its data. Fails with YK_ERROR_OUT_OF_MEMORY. */
yk_status yki_ref_in_f64(const yki_kernel *kernel, const yki_kernel_args *run, int index,
                         yk_tensor *copy);

/* y[i] = f(x[i]), and y[i] = f(a[i], b[i]). */
typedef double (*yki_ref_unary_fn)(double x, const yki_attrs *attrs);
typedef double (*yki_ref_binary_fn)(double a, double b, const yki_attrs *attrs);
void yki_ref_map(const yki_kernel *kernel, const yki_kernel_args *run, yki_ref_unary_fn f);
void yki_ref_map2(const yki_kernel *kernel, const yki_kernel_args *run, yki_ref_binary_fn f);

/* Computes one pixel of output 0, an image; the second does so for all of its pixels. */
typedef void (*yki_ref_pixel_fn)(const yki_kernel *kernel, const yki_kernel_args *run, int64_t n,
                                 int64_t c, int64_t h, int64_t w);
void yki_ref_each_pixel(const yki_kernel *kernel, const yki_kernel_args *run,
                        yki_ref_pixel_fn body);

/* One kernel for every operator of the list: yki_ref_conv2d, ... */
#define EACH(number, name) extern const yki_kernel_impl yki_ref_##name;
#include "graph/operators.def"

/* Element i in row-major order. */
static inline double yki_ref_get(const yk_tensor *tensor, int64_t i)
{
    return yki_element_get(tensor->dtype, tensor->data, i);
}

static inline void yki_ref_set(const yk_tensor *tensor, int64_t i, double value)
{
    yki_element_set(tensor->dtype, tensor->data, i, value);
}

/* The index of element (n, c, h, w). */
static inline int64_t yki_ref_at(const yk_tensor *tensor, int64_t n, int64_t c, int64_t h,
                                 int64_t w)
{
    return ((n * tensor->dims[1] + c) * tensor->dims[2] + h) * tensor->dims[3] + w;
}

/* Also for other devices that run ref's kernels in host memory. */
yk_status yki_ref_sweep(yki_device *device, const yki_sweep_args *args);
extern const yki_muon_ops yki_ref_muon;
yk_status yki_ref_pictures(yki_device *device, const yki_pictures_args *args);

/* The table entry of an operator whose kernel is ref_NAME; place: see yki_kernel_impl.inplace. */
#define YKI_REF_IMPL(name, place)                                                                  \
    const yki_kernel_impl yki_ref_##name = {.op = &yki_op_##name,                                  \
                                            .inplace = place,                                      \
                                            .supports = yki_ref_supports,                          \
                                            .prepare = yki_ref_prepare,                            \
                                            .run = ref_##name}

#endif
