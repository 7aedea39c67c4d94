/*
 * How the kernels of all_gather_batch and of its gradient reach the other ranks. A device does not
 * know how data are transported: the model passes the kernels a yki_exchange (yki_kernel_args).
 */
#ifndef YKI_EXCHANGE_H
#define YKI_EXCHANGE_H

#include "base/error.h"
#include "device/memory.h"

/* The concrete struct embeds it first. */
typedef struct yki_exchange {
    /*
     * Both exchange the device's memory, in order with what is in the stream; `count` elements are
     * those of one rank. Collective; they may block. The second adds up all ranks' parts for this
     * rank.
     */
    yk_status (*all_gather)(const struct yki_exchange *exchange, void *out, const void *in,
                            size_t count, yk_dtype dtype, yki_stream *stream);
    yk_status (*reduce_scatter)(const struct yki_exchange *exchange, void *out, const void *in,
                                size_t count, yk_dtype dtype, yki_stream *stream);
    /*
     * Instead of all_gather, on a rank that cannot take part, for this thread's last error, of this
     * status: the other ranks get an error, too, instead of waiting. Returns the status, or that of
     * a failure of another rank.
     */
    yk_status (*refuse)(const struct yki_exchange *exchange, size_t count, yk_dtype dtype,
                        yk_status status);
    void (*destroy)(struct yki_exchange *exchange);
} yki_exchange;

#endif
