/* The activation that fusion (compile/fuse.c) has made a part of batch_norm. */
#ifndef YKI_FUSED_H
#define YKI_FUSED_H

typedef enum yki_fused {
    YKI_FUSED_NONE,
    YKI_FUSED_RELU,
    YKI_FUSED_RELU6,
} yki_fused;

#endif
