/* The weights of a convolution on oneDNN, packed: conv.c does so once a step. */
#ifndef YKI_CONV_PACK_H
#define YKI_CONV_PACK_H

#include "device/cpu/conv/groups.h"
#include "device/cpu/onednn.h"

typedef struct yki_conv_pack {
    yki_conv_groups groups;
    bool turned;               /* the weights of a gradient of x that is computed as a forward
                                * convolution: inputs become filters, kernels turn by 180 degrees */
    bool pairs;                /* see weight_pairs.h */
    int team;                  /* threads that make pairs */
    float *arranged;           /* weights as oneDNN's reorder gets them, or NULL */
    yki_dnn_primitive reorder; /* unless they are pairs */
} yki_conv_pack;

/* groups, turned and team are set. plain: the description of all weights as oneDNN sees them. */
yk_status yki_conv_pack_prepare(yki_conv_pack *pack, dnnl_engine_t engine, yki_const_md plain,
                                yki_const_md packed);
yk_status yki_conv_pack_run(const yki_conv_pack *pack, dnnl_stream_t stream, const float *weights,
                            void *packed);
void yki_conv_pack_destroy(yki_conv_pack *pack);

#endif
