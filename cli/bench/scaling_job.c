/*
 * Each row of the scaling table is measured by a separate `yoke train`, started as a user would
 * start it. The results are read from its metrics.jsonl; its output is shown only if it fails.
 */
#define _GNU_SOURCE
#include "bench/scaling.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <yoke/report.h>

#include "cli.h"
#include "common/clock.h"
#include "common/parent.h"
#include "common/step_seconds.h"
#include "setup/setup.h"

extern char **environ;

enum { MAX_ARGUMENTS = 40, TEXT = 64, FOLDER = CLI_SCALING_FOLDER };

/* ---- the command ----------------------------------------------------------------------------- */

typedef struct command_line {
    char *words[MAX_ARGUMENTS + 1];
    char texts[MAX_ARGUMENTS][TEXT]; /* of numbers */
    int count;
} command_line;

static void add_word(command_line *line, const char *word)
{
    line->words[line->count++] = (char *)(uintptr_t)word;
}

static void add_text(command_line *line, const char *option, const char *value)
{
    add_word(line, option);
    add_word(line, value);
}

static void add_count(command_line *line, const char *option, int64_t value)
{
    add_word(line, option);
    snprintf(line->texts[line->count], TEXT, "%lld", (long long)value);
    add_word(line, line->texts[line->count]);
}

/* Exact: %.17g round-trips. */
static void add_real(command_line *line, const char *option, double value)
{
    add_word(line, option);
    snprintf(line->texts[line->count], TEXT, "%.17g", value);
    add_word(line, line->texts[line->count]);
}

/* as_rank: this process starts one rank, the others of the row are started elsewhere. */
static void compose(command_line *line, const char *self, const char *folder,
                    const cli_scaling_options *o, const cli_scaling_row *row, bool as_rank)
{
    *line = (command_line){.count = 0};
    if (row->kind == CLI_DDP && row->ranks == 1 &&
        !as_rank) { /* one rank that a launcher has started */
        add_word(line, self);
        add_text(line, "run", "--nproc-per-node");
        add_text(line, "1", "--");
    }
    add_text(line, self, "train");
    add_text(line, "--data", o->data);
    add_text(line, "--arch", o->arch);
    if (row->kind != CLI_DATA_PARALLEL) /* whose model is on the first of its devices */
        add_text(line, "--device", o->device);
    add_text(line, "--amp", cli_amp_name(row->amp));
    add_text(line, "--output", folder);
    add_count(line, "--batch-size", row->batch_size);
    add_count(line, "--threads", o->threads);
    add_count(line, "--epochs", o->epochs);
    add_count(line, "--max-steps", o->max_steps);
    if (o->given.lr)
        add_real(line, "--lr", o->lr);
    if (row->kind == CLI_DDP && row->ranks > 1 && !as_rank)
        add_count(line, "--nproc", row->ranks);
    if (row->kind == CLI_DATA_PARALLEL) {
        add_text(line, "--parallel", "dp");
        add_text(line, "--devices", row->devices);
    }
}

/* ---- the folder ------------------------------------------------------------------------------ */

bool cli_scaling_make_folder(char folder[CLI_SCALING_FOLDER])
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, FOLDER, "%.200s/yoke-scaling-XXXXXX", base ? base : "/tmp");
    if (mkdtemp(folder))
        return true;
    cli_complain("cannot create a folder like %s: %s", folder, strerror(errno));
    folder[0] = '\0';
    return false;
}

/* Where the training writes. */
static void name_output(char output[FOLDER + 16], const char *folder)
{
    snprintf(output, FOLDER + 16, "%s/run", folder);
}

static int remove_job_file(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)info, (void)type, (void)ftw;
    return remove(path);
}

void cli_scaling_remove_folder(const char *folder)
{
    nftw(folder, remove_job_file, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- the job --------------------------------------------------------------------------------- */

/* The signals that end a measurement; SIGHUP arrives when the terminal is closed. */
static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { SIGNALS = sizeof signals / sizeof *signals };

static volatile sig_atomic_t interrupted; /* the signal */
static volatile sig_atomic_t running_job; /* its pid, or 0 */

/* Forwards the signal to the job, which then ends, so that its folder can be removed. */
static void pass_on(int number)
{
    interrupted = number;
    if (running_job)
        kill((pid_t)running_job, number);
}

/* Signals that were already ignored stay so, for example SIGHUP under nohup. */
static void handle_signals(void (*handler)(int))
{
    struct sigaction before, action = {.sa_handler = handler}; /* no SA_RESTART: waitpid returns */
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < SIGNALS; i++)
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

void cli_scaling_hold_signals(void)
{
    handle_signals(pass_on);
}

/* Blocks these signals around a fork, so that none is lost; returns the previous mask. */
static sigset_t hold_signals(void)
{
    sigset_t held, before;
    sigemptyset(&held);
    for (int i = 0; i < SIGNALS; i++)
        sigaddset(&held, signals[i]);
    sigprocmask(SIG_BLOCK, &held, &before);
    return before;
}

static void become_job(const command_line *line, const char *log, char **environment, pid_t parent,
                       const sigset_t *mask)
{
    handle_signals(SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    cli_end_with_parent(parent, SIGTERM); /* the job stops cleanly */
    int fd = open(log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execve(line->words[0], line->words, environment);
    _exit(127);
}

/* Runs the job with its output in a file; returns waitpid's status, or -1. *used: its resources. */
static int run_job(const command_line *line, const char *log, char **environment,
                   struct rusage *used)
{
    handle_signals(pass_on);
    sigset_t mask = hold_signals();
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become_job(line, log, environment, parent, &mask);
    int status = -1;
    running_job = pid > 0 ? pid : 0;
    if (interrupted && pid > 0) /* before */
        kill(pid, interrupted);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    while (pid > 0 && wait4(pid, &status, 0, used) < 0 && errno == EINTR)
        ;
    running_job = 0;
    return status;
}

static void show_end_of_log(const char *log)
{
    char tail[2048];
    FILE *file = fopen(log, "re");
    if (!file)
        return;
    if (fseek(file, -(long)sizeof tail + 1, SEEK_END))
        rewind(file);
    tail[fread(tail, 1, sizeof tail - 1, file)] = '\0';
    fclose(file);
    fputs(tail, stderr);
}

/* ---- processor time -------------------------------------------------------------------------- */

/* Returns the seconds for which the cores of this process have been busy since boot, or -1 if the
 * kernel does not provide them. */
static double busy_seconds(void)
{
    cpu_set_t allowed;
    char line[512];
    double ticks = 0;
    FILE *file = fopen("/proc/stat", "re");
    if (!file)
        return -1;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        CPU_ZERO(&allowed);
    while (fgets(line, sizeof line, file)) {
        unsigned cpu;
        double user, nice, system, idle, wait, irq, soft_irq, steal;
        if (sscanf(line, "cpu%u %lf %lf %lf %lf %lf %lf %lf %lf", &cpu, &user, &nice, &system,
                   &idle, &wait, &irq, &soft_irq, &steal) == 9 &&
            cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed))
            ticks += user + nice + system + irq + soft_irq + steal;
    }
    fclose(file);
    return ticks > 0 ? ticks / (double)sysconf(_SC_CLK_TCK) : -1;
}

static double cpu_seconds(const struct rusage *used)
{
    return (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
           1e-6 * (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec);
}

/* ---- the results ----------------------------------------------------------------------------- */

typedef struct sums {
    double images, all_images, seconds, data_s, waiting_s, exposed_s;
} sums;

static void add_step(cli_scaling_result *result, sums *all, const yk_step_record *r)
{
    double step_s = cli_step_seconds(r);
    double images = r->images_per_s * step_s;
    all->all_images += images;
    if (result->steps++ == 1)
        *all = (sums){.all_images = all->all_images}; /* from the second on */
    all->images += images;
    all->seconds += step_s;
    all->data_s += r->data_s;
    all->waiting_s += r->waiting_s;
    all->exposed_s += r->exposed_comm_s;
}

/* Of several epochs, the rank of the one in which the others waited longest. */
static void add_epoch(cli_scaling_result *result, const yk_epoch_record *r)
{
    result->accuracy = r->val_accuracy;
    if (r->slowest_rank < 0 || r->waited_s <= result->waited_s)
        return;
    result->slowest_rank = r->slowest_rank;
    result->waited_s = r->waited_s;
}

bool cli_scaling_read(cli_scaling_result *result, const char *folder)
{
    char output[FOLDER + 16], path[FOLDER + 32];
    yk_metrics_history *history;
    name_output(output, folder);
    snprintf(path, sizeof path, "%s/metrics.jsonl", output);
    if (!cli_ok(yk_metrics_read(&history, path)))
        return false;
    sums all = {0};
    *result = (cli_scaling_result){.accuracy = -1, .slowest_rank = -1};
    for (size_t i = 0; i < history->step_count; i++)
        add_step(result, &all, &history->steps[i]);
    for (size_t i = 0; i < history->epoch_count; i++)
        add_epoch(result, &history->epochs[i]);
    yk_metrics_history_destroy(history);
    if (!(all.seconds > 0))
        return cli_complain("%s has no steps", path);
    result->images_per_s = all.images / all.seconds;
    result->seconds = all.all_images / result->images_per_s;
    result->data_share = all.data_s / all.seconds;
    result->waiting_share = all.waiting_s / all.seconds;
    result->exposed_share = all.exposed_s / all.seconds;
    return true;
}

/* ---- one row --------------------------------------------------------------------------------- */

/* Runs a training and waits until it has ended. With environment NULL, it starts its own ranks.
 * Returns its exit code. */
static int train_in(cli_scaling_result *result, const cli_scaling_options *options,
                    const cli_scaling_row *row, const char *folder, char **environment)
{
    char self[4096], log[FOLDER + 32], output[FOLDER + 16];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return cli_complain("cannot start this program again: /proc/self/exe cannot be read"),
               CLI_EXIT_FAILED;
    self[length] = '\0';
    snprintf(log, sizeof log, "%s/log-%d", folder, (int)getpid());
    name_output(output, folder);
    command_line line;
    compose(&line, self, output, options, row, environment != NULL);
    struct rusage used = {0};
    double start_s = cli_clock_s();
    int status = run_job(&line, log, environment ? environment : environ, &used);
    if (interrupted)
        return 128 + interrupted;
    result->wall_s = cli_clock_s() - start_s;
    result->cpu_s = cpu_seconds(&used);
    if (status == 0)
        return CLI_EXIT_OK;
    cli_complain("%s failed; its last lines:", row->name);
    show_end_of_log(log);
    return CLI_EXIT_FAILED;
}

static int train_alone(cli_scaling_result *result, const cli_scaling_options *options,
                       const cli_scaling_row *row, const char *folder)
{
    cli_scaling_result ended = {.steps = 0};
    double busy_s = busy_seconds();
    int code = train_in(&ended, options, row, folder, NULL);
    double busy_after_s = busy_seconds();
    if (code != CLI_EXIT_OK)
        return code;
    if (!cli_scaling_read(result, folder))
        return CLI_EXIT_FAILED;
    result->wall_s = ended.wall_s;
    result->cpu_s = ended.cpu_s;
    result->others_s = busy_s >= 0 ? fmax(busy_after_s - busy_s - ended.cpu_s, 0) : 0;
    return CLI_EXIT_OK;
}

int cli_scaling_train(cli_scaling_result *result, const cli_scaling_options *options,
                      const cli_scaling_row *row)
{
    char folder[FOLDER];
    if (!cli_scaling_make_folder(folder))
        return CLI_EXIT_FAILED;
    int code = train_alone(result, options, row, folder);
    cli_scaling_remove_folder(folder);
    return code;
}

int cli_scaling_train_as_rank(cli_scaling_result *result, const cli_scaling_options *options,
                              const cli_scaling_row *row, const char *folder, char **environment)
{
    if (mkdir(folder, 0700) && errno != EEXIST) /* on another host than rank 0's */
        return cli_complain("%s: %s", folder, strerror(errno)), CLI_EXIT_FAILED;
    return train_in(result, options, row, folder, environment);
}
