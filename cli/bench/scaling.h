/* The configurations and results of `yoke bench scaling`, shared by its files. */
#ifndef YOKE_CLI_BENCH_SCALING_H
#define YOKE_CLI_BENCH_SCALING_H

#include <stdbool.h>
#include <stdint.h>

#include <yoke/model.h>

enum { CLI_SCALING_ROWS = 32, CLI_SCALING_REPEATS = 25, CLI_SCALING_FOLDER = 256 };

typedef struct cli_scaling_options {
    const char *data, *arch, *device, *ranks, *json, *svg;
    int64_t batch_size, per_rank_batch, threads, epochs, max_steps, repeats;
    double lr;
    yk_amp amp; /* of the mixed-precision row */
    struct {
        bool batch_size, per_rank_batch, lr, amp, ranks;
    } given;
} cli_scaling_options;

/* One training. Its seconds are split as yoke train's metrics split a step. */
typedef struct cli_scaling_result {
    int64_t steps;
    double images_per_s; /* of all steps after the first, which also prepares kernels */
    double seconds;      /* of all steps, at that pace */
    double data_share, waiting_share, exposed_share;
    int slowest_rank; /* the rank that the others waited for, or -1 */
    double waited_s;  /* how long, on average */
    double accuracy;  /* after it, 0..1 */
    double wall_s;    /* of the whole job, from its start to its end */
    double cpu_s;     /* processor time of the job */
    double others_s;  /* CPU time that other processes took meanwhile on the same cores */
} cli_scaling_result;

typedef enum cli_scaling_kind { CLI_SINGLE, CLI_DATA_PARALLEL, CLI_DDP } cli_scaling_kind;

typedef struct cli_scaling_row {
    char name[48];
    cli_scaling_kind kind;
    int ranks;        /* devices, for DataParallel */
    char devices[64]; /* their names, separated by commas; "" for others */
    yk_amp amp;
    int64_t batch_size;                                      /* global */
    bool oversubscribed;                                     /* more threads than cores */
    cli_scaling_result results[CLI_SCALING_REPEATS], result; /* the median of them */
    double speed_up, efficiency; /* over the single device; that divided by ranks */
    const char *unreliable;      /* why the row must not be compared with others, or NULL */
} cli_scaling_row;

typedef struct cli_scaling {
    cli_scaling_options options;
    struct cli_crew *crew; /* ranks that a launcher has started, or NULL */
    bool is_silent;        /* another of them reports */
    int cores, count;      /* cores: of this host */
    cli_scaling_row rows[CLI_SCALING_ROWS];
} cli_scaling;

/* `yoke bench scaling`. */
int cli_bench_scaling(const char *name, int argc, char **argv);

/*
 * Computes from the results of all repeats each row's median, speed-up and efficiency, and whether
 * the row is unreliable (scaling_judge.c).
 */
void cli_scaling_conclude(cli_scaling *scaling);

/* Trains as the row specifies, in a separate job. Returns CLI_EXIT_OK or, after printing an error,
 * the exit code. */
int cli_scaling_train(cli_scaling_result *result, const cli_scaling_options *options,
                      const cli_scaling_row *row);

/*
 * One rank's part of a row's training, which others start elsewhere: what differs from a job of its
 * own is in the environment. The folder is made if it is not there. Of the result, only wall_s and
 * cpu_s are set.
 */
int cli_scaling_train_as_rank(cli_scaling_result *result, const cli_scaling_options *options,
                              const cli_scaling_row *row, const char *folder, char **environment);
/* Reads the result of a training; prints an error and returns false if there is none. */
bool cli_scaling_read(cli_scaling_result *result, const char *folder);

/* A temporary folder for a training; its path is empty if it cannot be made. */
bool cli_scaling_make_folder(char folder[CLI_SCALING_FOLDER]);
void cli_scaling_remove_folder(const char *folder);

/* From now on, signals that end the measurement end the training that runs. */
void cli_scaling_hold_signals(void);

void cli_scaling_print(const cli_scaling *scaling);
bool cli_scaling_write_json(const cli_scaling *scaling, const char *path);
bool cli_scaling_write_svg(const cli_scaling *scaling, const char *path);

/* "resnet18 on cifar10, 128 images a step over all ranks, ...", as one line without control
 * characters. */
enum { CLI_SCALING_TEXT = 512 };
void cli_scaling_describe(const cli_scaling *scaling, char text[CLI_SCALING_TEXT]);

#endif
