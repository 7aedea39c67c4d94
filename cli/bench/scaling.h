/* Between the files of `yoke bench scaling`: what is measured, and what came of it. */
#ifndef YOKE_CLI_BENCH_SCALING_H
#define YOKE_CLI_BENCH_SCALING_H

#include <stdbool.h>
#include <stdint.h>

enum { YKI_SCALING_ROWS = 32, YKI_SCALING_REPEATS = 25 };

typedef struct yki_scaling_options {
    const char *data, *arch, *device, *amp, *ranks, *json, *svg;
    int64_t batch_size, per_rank_batch, threads, epochs, max_steps, repeats;
    double lr;
    struct {
        bool batch_size, per_rank_batch, lr, amp;
    } given;
} yki_scaling_options;

/* One training. Its seconds are split as yoke train's metrics split a step. */
typedef struct yki_scaling_result {
    int64_t steps;
    double images_per_s; /* of the steps behind the first, which prepares kernels too */
    double seconds;      /* of all steps, at that pace */
    double data_share, exposed_share;
    double accuracy; /* after it, 0..1 */
} yki_scaling_result;

typedef enum yki_scaling_kind { YKI_SINGLE, YKI_DATA_PARALLEL, YKI_DDP } yki_scaling_kind;

typedef struct yki_scaling_row {
    char name[48];
    yki_scaling_kind kind;
    int ranks; /* devices, for DataParallel */
    const char *amp;
    int64_t batch_size;                                      /* global */
    bool oversubscribed;                                     /* more threads than cores */
    yki_scaling_result results[YKI_SCALING_REPEATS], result; /* the median of them */
    double speed_up, efficiency; /* over the single device; that divided by ranks */
} yki_scaling_row;

typedef struct yki_scaling {
    yki_scaling_options options;
    int cores, count;
    yki_scaling_row rows[YKI_SCALING_ROWS];
} yki_scaling;

/* `yoke bench scaling`. */
int yki_bench_scaling(int argc, char **argv);

/* Trains as the row says, in a job of its own; YKI_EXIT_OK, or the code to end with: it has said
 * why. */
int yki_scaling_train(yki_scaling_result *result, const yki_scaling_options *options,
                      const yki_scaling_row *row);

void yki_scaling_print(const yki_scaling *scaling);
bool yki_scaling_write_json(const yki_scaling *scaling, const char *path);
bool yki_scaling_write_svg(const yki_scaling *scaling, const char *path);

/* "resnet18 on cifar10, 128 images a step over all ranks, ...". */
void yki_scaling_describe(const yki_scaling *scaling, char *text, int size);

#endif
