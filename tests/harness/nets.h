/* Small networks in f64 for the tests of graph/, and what is done to all of them. */
#ifndef YK_TEST_NETS_H
#define YK_TEST_NETS_H

#include <yoke/yoke.h>

/* Every net reads images (N, 3, 6, 5) and labels (N) in [0, 4). */
enum { NET_CHANNELS = 3, NET_ROWS = 6, NET_COLUMNS = 5, NET_CLASSES = 4 };

typedef struct test_net {
    const char *name;
    yk_value *(*build)(yk_value *images, uint64_t seed); /* -> logits (N, 4) */
    uint64_t seed;                                       /* of a drawn net */
} test_net;

extern const test_net nets[];
extern const int net_count;
/* By name; there must be one. */
const test_net *net_find(const char *name);

/*
 * A model of the net with lively parameters and buffers. width multiplies its channels: 1 keeps
 * them in plain layouts, from about 6 on most are blocked on the cpu device.
 */
yk_model *net_model(const test_net *net, const char *device, yk_dtype dtype, int64_t width);
/* Draws new parameters and running statistics. */
void net_shake(yk_model *model, uint64_t seed);

/* A batch of `size` drawn samples; free with net_batch_fini. */
typedef struct net_batch {
    yk_batch batch;
    yk_tensor tensors[2];
    void *images;
    int32_t *labels;
} net_batch;

void net_batch_init(net_batch *b, yk_dtype dtype, int64_t size, uint64_t seed);
void net_batch_fini(net_batch *b);

/* All gradients, one after another, as doubles; *count of them. free() it. */
double *net_gradients(yk_model *model, int64_t *count);
/* Runs forward and backward; the loss. */
double net_step(yk_model *model, const net_batch *b);

#endif
