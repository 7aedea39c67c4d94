/*
 * Trains ResNet-18 with the CIFAR stem (f32, SGD with momentum) on random images. Every second step
 * exchanges no gradients (no_sync), so that what the exchange costs is seen between neighbours in
 * time. All ranks begin a step together. Rank 0 prints JSON: the seconds of both kinds of steps,
 * its own and the slowest rank's, the processor time that it has taken for them, and of those that
 * exchange what yoke itself reports as exposed, and the bytes that its host has sent.
 * Usage: train BATCH_PER_RANK PAIRS_OF_STEPS THREADS none|bf16|powersgd
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../training.h"

enum { WARM_UP = 3 }; /* pairs; PowerSGD begins in the third */

typedef struct settings {
    int64_t batch_size; /* of a rank */
    int pairs, threads;
    const char *hook;
} settings;

typedef struct times {
    double step, backward, exposed; /* seconds */
    double slowest;                 /* step of all ranks, seconds */
    double processor;               /* seconds of all threads of this rank */
    long long sent;                 /* bytes */
} times;

/* The bytes that this host has sent over eth0 so far. */
static long long bytes_sent(void)
{
    char line[512];
    long long sent = 0;
    FILE *file = fopen("/proc/self/net/dev", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, " eth0: %*s %*s %*s %*s %*s %*s %*s %*s %lld", &sent) == 1)
            break;
    if (file)
        fclose(file);
    return sent;
}

/* The processor time that this process has taken so far, which other processes hardly change. */
static double processor_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static settings parse_args(int argc, char **argv)
{
    settings set = {0};
    if (argc == 5)
        set = (settings){atoll(argv[1]), atoi(argv[2]), atoi(argv[3]), argv[4]};
    if (set.batch_size < 1 || set.pairs < 1 || set.threads < 1) {
        fprintf(stderr, "usage: train BATCH_PER_RANK PAIRS_OF_STEPS THREADS none|bf16|powersgd\n");
        exit(2);
    }
    return set;
}

static void register_hook(yk_ddp *ddp, const char *hook)
{
    yk_powersgd_options powersgd = YK_POWERSGD_OPTIONS_INIT;
    powersgd.start_iter = 2;
    if (strcmp(hook, "bf16") == 0)
        YK_CHECK(yk_ddp_register_bf16_compress_hook(ddp));
    else if (strcmp(hook, "powersgd") == 0)
        YK_CHECK(yk_ddp_register_powersgd_hook(ddp, &powersgd));
}

static times run_step(const bench_training *t, const yk_batch *batch, bool exchange)
{
    yk_ddp_set_no_sync(t->ddp, !exchange);
    YK_CHECK(yk_barrier(t->group));
    long long sent = bytes_sent();
    double start = bench_now(), processor = processor_time();
    YK_CHECK(yk_model_forward(t->model, batch));
    double backward = bench_now();
    YK_CHECK(yk_model_backward(t->model));
    backward = bench_now() - backward;
    YK_CHECK(yk_optimizer_step(t->optimizer));
    double step = bench_now() - start, slowest = step;
    processor = processor_time() - processor;
    sent = bytes_sent() - sent;
    YK_CHECK(yk_all_reduce(t->group, &slowest, 1, YK_F64, YK_REDUCE_MAX, NULL));
    return (times){step, backward, yk_ddp_last_stats(t->ddp).exposed_s, slowest, processor, sent};
}

/* What a pair of steps, with and without exchange, has taken. */
static void print_pair(const times *together, const times *apart, bool first)
{
    printf("%s{\"step_s\": %.6f, \"reported_exposed_s\": %.6f, \"sent\": %lld, "
           "\"apart_s\": %.6f, \"backward_s\": %.6f, \"slowest_step_s\": %.6f, "
           "\"slowest_apart_s\": %.6f, \"processor_s\": %.6f, \"processor_apart_s\": %.6f}",
           first ? "" : ", ", together->step, together->exposed, together->sent, apart->step,
           apart->backward, together->slowest, apart->slowest, together->processor,
           apart->processor);
}

int main(int argc, char **argv)
{
    settings set = parse_args(argc, argv);
    bench_training t;
    yk_batch batch;
    yk_tensor tensors[2];
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.threads = set.threads;
    bench_create_training(&t, yk_arch_find("resnet18-cifar"), 32, &options);
    register_hook(t.ddp, set.hook);
    bench_make_batch(&batch, tensors, set.batch_size, 32);
    bool prints = yk_group_rank(t.group) == 0;
    if (prints)
        printf("[");
    for (int i = -WARM_UP; i < set.pairs; i++) {
        times together = run_step(&t, &batch, true), apart = run_step(&t, &batch, false);
        if (prints && i >= 0)
            print_pair(&together, &apart, i == 0);
    }
    if (prints)
        printf("]\n");
    bench_destroy_training(&t);
    bench_release_batch(tensors);
    return 0;
}
