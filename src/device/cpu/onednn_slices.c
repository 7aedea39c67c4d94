/* See onednn_slices.h. */
#include "device/cpu/onednn_slices.h"

#include <omp.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"

enum { PIECE = 4096 }; /* floats that a thread adds at a time */

int yki_dnn_slices_begin(const yki_dnn_slices *slices)
{
    int threads = omp_get_max_threads();
    if (slices->count > 0)
        omp_set_num_threads(1);
    return threads;
}

void yki_dnn_slices_end(int threads)
{
    omp_set_num_threads(threads);
}

/* ---- preparation ----------------------------------------------------------------------------- */

static yk_status prepare_share(yki_dnn_share *share, dnnl_primitive_desc_t desc,
                               dnnl_engine_t engine, int count, const int *arguments,
                               const yki_const_md *mds)
{
    YKI_DNN(dnnl_stream_create(&share->stream, engine, dnnl_stream_default_flags));
    YKI_DNN(dnnl_primitive_desc_clone(&share->primitive.desc, desc));
    return yki_dnn_prepare(&share->primitive, engine, count, arguments, mds);
}

yk_status yki_dnn_slices_prepare(yki_dnn_slices *slices, dnnl_primitive_desc_t desc,
                                 dnnl_engine_t engine, int count, const int *arguments,
                                 const yki_const_md *mds)
{
    size_t bytes = (size_t)slices->team * sizeof *slices->shares;
    slices->shares = yki_calloc(1, bytes);
    if (!slices->shares)
        return yki_error_memory(bytes, "a convolution");
    int threads = yki_dnn_slices_begin(slices);
    yk_status status = YK_OK;
    for (int thread = 0; status == YK_OK && thread < slices->team; thread++)
        status = prepare_share(&slices->shares[thread], desc, engine, count, arguments, mds);
    yki_dnn_slices_end(threads);
    slices->scratch = yki_align(slices->shares[0].primitive.scratch, YKI_ALIGNMENT);
    return status;
}

void yki_dnn_slices_destroy(yki_dnn_slices *slices)
{
    for (int thread = 0; slices->shares && thread < slices->team; thread++) {
        yki_dnn_destroy(&slices->shares[thread].primitive);
        if (slices->shares[thread].stream)
            dnnl_stream_destroy(slices->shares[thread].stream);
    }
    free(slices->shares);
}

/* ---- running --------------------------------------------------------------------------------- */

static yk_status run_slice(const yki_dnn_slices *slices, int64_t slice, void *const *pointers,
                           void *scratch)
{
    const int thread = omp_get_thread_num();
    const yki_dnn_share *share = &slices->shares[thread];
    void *of_slice[YKI_DNN_ARGS] = {NULL};
    for (int i = 0; i < share->primitive.count - 1; i++)
        of_slice[i] = (char *)pointers[i] + (size_t)slice * slices->steps[i];
    return yki_dnn_run(&share->primitive, share->stream, of_slice,
                       (char *)scratch + (size_t)thread * slices->scratch);
}

yk_status yki_dnn_slices_run(const yki_dnn_slices *slices, void *const *pointers, void *scratch)
{
    yk_status result = YK_OK;
#pragma omp parallel for num_threads(slices->team) if (slices->team > 1) schedule(dynamic)
    for (int64_t slice = 0; slice < slices->count; slice++) {
        yk_status status = run_slice(slices, slice, pointers, scratch);
        if (status != YK_OK) {
#pragma omp atomic write
            result = status;
        }
    }
    /* The thread's own line is lost with the thread. */
    return result == YK_OK ? YK_OK : yki_error(result, "oneDNN cannot run a slice of the batch");
}

static void add_piece(const yki_dnn_slices *slices, char *sums, size_t first, size_t end,
                      size_t step)
{
    float *total = (float *)sums;
    for (int64_t slice = 1; slice < slices->count; slice++) {
        const float *more = (const float *)(sums + (size_t)slice * step);
#pragma omp simd
        for (size_t i = first; i < end; i++)
            total[i] += more[i];
    }
}

void yki_dnn_slices_add(const yki_dnn_slices *slices, void *sums, size_t floats, size_t step)
{
#pragma omp parallel for num_threads(slices->team) if (slices->team > 1) schedule(dynamic)
    for (size_t first = 0; first < floats; first += PIECE)
        add_piece(slices, sums, first, first + PIECE < floats ? first + PIECE : floats, step);
}
