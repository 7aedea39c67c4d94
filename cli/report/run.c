/* See run.h. */
#define _GNU_SOURCE
#include "report/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/errors.h"
#include "common/median.h"

/* ---- results --------------------------------------------------------------------------------- */

/* The median of the steps' throughput, which the first steps of a run, in which kernels are
 * prepared, do not shift. */
static double median_throughput(const yk_metrics_history *h)
{
    double *values = malloc((h->step_count + 1) * sizeof *values);
    size_t count = 0;
    for (size_t i = 0; values && i < h->step_count; i++)
        if (isfinite(h->steps[i].images_per_s))
            values[count++] = h->steps[i].images_per_s;
    double median = cli_take_median(values, count);
    free(values);
    return median;
}

static void add_up_times(cli_results *r, const yk_metrics_history *h)
{
    double data = 0, compute = 0, waiting = 0, exposed = 0;
    for (size_t i = 0; i < h->step_count; i++) {
        data += h->steps[i].data_s;
        compute += h->steps[i].compute_s;
        waiting += h->steps[i].waiting_s;
        exposed += h->steps[i].exposed_comm_s;
    }
    double all = data + compute + waiting + exposed;
    r->data = all > 0 ? data / all : (double)NAN;
    r->compute = all > 0 ? compute / all : (double)NAN;
    r->waiting = all > 0 ? waiting / all : (double)NAN;
    r->exposed_comm = all > 0 ? exposed / all : (double)NAN;
}

/* A rank that was named as slower than the others, and in how many epochs. */
typedef struct slow_rank {
    int rank;
    double epochs, waited_s;
} slow_rank;

/* Adds an epoch to its rank, which is appended if it is new; NULL without memory. */
static slow_rank *count_slow_epoch(slow_rank *ranks, size_t *count, const yk_epoch_record *epoch)
{
    size_t i = 0;
    while (i < *count && ranks[i].rank != epoch->slowest_rank)
        i++;
    if (i == *count) {
        slow_rank *more = realloc(ranks, (i + 1) * sizeof *more);
        if (!more) {
            free(ranks);
            return NULL;
        }
        ranks = more;
        ranks[(*count)++] = (slow_rank){.rank = epoch->slowest_rank};
    }
    ranks[i].epochs++;
    ranks[i].waited_s += epoch->waited_s;
    return ranks;
}

/* The rank that was named in the most epochs; the first one of several. */
static void find_slow_rank(cli_results *r, const yk_metrics_history *h)
{
    slow_rank *ranks = NULL;
    size_t count = 0;
    for (size_t i = 0; i < h->epoch_count && (ranks || !count); i++)
        if (h->epochs[i].slowest_rank >= 0)
            ranks = count_slow_epoch(ranks, &count, &h->epochs[i]);
    for (size_t i = 0; ranks && i < count; i++)
        if (!(r->slowest_epochs >= ranks[i].epochs)) {
            r->slowest_rank = ranks[i].rank;
            r->slowest_epochs = ranks[i].epochs;
            r->waited_s = ranks[i].waited_s;
        }
    free(ranks);
}

static cli_results find_results(const yk_metrics_history *h)
{
    cli_results r = {.accuracy = NAN,
                     .best_accuracy = NAN,
                     .best_epoch = NAN,
                     .val_loss = NAN,
                     .train_loss = NAN,
                     .seconds = h->epoch_count ? 0 : (double)NAN,
                     .slowest_rank = NAN,
                     .slowest_epochs = NAN,
                     .waited_s = NAN,
                     .images_per_s = median_throughput(h)};
    for (size_t i = 0; i < h->epoch_count; i++) {
        const yk_epoch_record *epoch = &h->epochs[i];
        r.accuracy = epoch->val_accuracy;
        r.val_loss = epoch->val_loss;
        r.train_loss = epoch->train_loss;
        r.seconds += epoch->epoch_s;
        if (isfinite(epoch->val_accuracy) && !(r.best_accuracy >= epoch->val_accuracy)) {
            r.best_accuracy = epoch->val_accuracy;
            r.best_epoch = (double)epoch->epoch;
        }
    }
    add_up_times(&r, h);
    find_slow_rank(&r, h);
    return r;
}

/* ---- settings -------------------------------------------------------------------------------- */

const char *cli_run_setting(const cli_run *run, const char *name)
{
    const char *value = NULL;
    for (size_t i = 0; i < run->setting_count; i++) {
        const cli_setting *setting = &run->settings[i];
        if (setting->name && strcmp(setting->name, name) == 0)
            value = setting->value;
    }
    return value;
}

/* Lines "NAME=VALUE": what the header has for every run, then the options. */
static char *write_settings(const yk_header_record *header)
{
    char *text = NULL;
    if (asprintf(
            &text, "arch=%s\ndata=%s\nbatch-size=%lld\nranks=%lld\nthreads=%lld\nseed=%llu\n%s",
            header->arch ? header->arch : "?", header->data ? header->data : "?",
            (long long)header->batch_size, (long long)header->ranks, (long long)header->threads,
            (unsigned long long)header->seed, header->options ? header->options : "") < 0)
        return NULL;
    return text;
}

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count + 1;
}

/* An option that repeats what the header has said is left out. */
static bool find_settings(cli_run *run)
{
    char *rest, *line;
    run->setting_text = write_settings(&run->history->header);
    if (!run->setting_text)
        return false;
    run->settings = calloc(count_lines(run->setting_text), sizeof *run->settings);
    if (!run->settings)
        return false;
    for (line = strtok_r(run->setting_text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '=');
        if (!value)
            continue;
        *value++ = '\0';
        const char *before = cli_run_setting(run, line);
        if (!before || strcmp(before, value) != 0)
            run->settings[run->setting_count++] = (cli_setting){line, value};
    }
    return true;
}

static bool is_same_everywhere(const cli_run *runs, int count, const char *name)
{
    const char *first = cli_run_setting(&runs[0], name);
    for (int i = 1; i < count; i++) {
        const char *value = cli_run_setting(&runs[i], name);
        if ((first == NULL) != (value == NULL) || (first && strcmp(first, value) != 0))
            return false;
    }
    return true;
}

static bool is_among(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Leaves those out that are the same in all runs; returns how many there are then. */
static size_t keep_differing(const char **names, size_t count, const cli_run *runs, int run_count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!is_same_everywhere(runs, run_count, names[i]))
            names[kept++] = names[i];
    return kept;
}

const char **cli_runs_settings(const cli_run *runs, int count, bool differing, size_t *name_count)
{
    size_t most = 1, found = 0;
    for (int i = 0; i < count; i++)
        most += runs[i].setting_count;
    const char **names = calloc(most, sizeof *names);
    for (int i = 0; names && i < count; i++)
        for (size_t j = 0; j < runs[i].setting_count; j++)
            if (!is_among(names, found, runs[i].settings[j].name))
                names[found++] = runs[i].settings[j].name;
    *name_count = names && differing ? keep_differing(names, found, runs, count) : found;
    return names;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The folder of the run, without a slash at its end. */
static char *folder_of(const char *path)
{
    static const char file[] = "/metrics.jsonl";
    char *folder = strdup(path);
    size_t length = folder ? strlen(folder) : 0, tail = sizeof file - 1;
    if (length > tail && strcmp(folder + length - tail, file) == 0)
        folder[length -= tail] = '\0';
    while (length > 1 && folder[length - 1] == '/')
        folder[--length] = '\0';
    return folder;
}

/* Why there are no records of a run; NULL where there are some. */
static const char *find_lack(const cli_run *run)
{
    if (!run->history)
        return "no metrics.jsonl there: name the output folder of a run";
    bool empty = run->history->starts == 0 && run->history->step_count == 0;
    return empty ? "its metrics.jsonl holds no records of a run" : NULL;
}

static bool find_folder(cli_run *run, const char *path)
{
    struct stat info;
    run->folder = folder_of(path);
    if (!run->folder)
        return cli_complain("out of memory");
    if (stat(run->folder, &info))
        return cli_complain("%s: %s", path, errno == ENOENT ? "no such folder" : strerror(errno));
    return S_ISDIR(info.st_mode) ||
           cli_complain("%s: is a file: name the output folder of a run", path);
}

/* What is in the folder, which may be no records. */
static bool read_run(cli_run *run, const char *path)
{
    char *file = NULL;
    if (!find_folder(run, path))
        return false;
    if (asprintf(&file, "%s/metrics.jsonl", run->folder) < 0)
        return cli_complain("out of memory");
    yk_status status = yk_metrics_read(&run->history, file);
    free(file);
    if (status != YK_ERROR_NOT_FOUND && !cli_ok(status))
        return false;
    if (find_lack(run))
        return true;
    run->results = find_results(run->history);
    return find_settings(run) || cli_complain("out of memory");
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static bool name_runs(cli_run *runs, int count)
{
    bool distinct = true;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            distinct &= strcmp(last_part(runs[i].folder), last_part(runs[j].folder)) != 0;
    for (int i = 0; i < count; i++) {
        runs[i].name = strdup(distinct ? last_part(runs[i].folder) : runs[i].folder);
        if (!runs[i].name)
            return cli_complain("out of memory");
    }
    return true;
}

static void release_run(cli_run *run)
{
    yk_metrics_history_destroy(run->history);
    free(run->settings);
    free(run->setting_text);
    free(run->folder);
    free(run->name);
    *run = (cli_run){.folder = NULL};
}

bool cli_runs_read(cli_run *runs, char **paths, int *count)
{
    int kept = 0, all = *count;
    memset(runs, 0, (size_t)all * sizeof *runs);
    for (int i = 0; i < all; i++) {
        cli_run *run = &runs[kept];
        if (!read_run(run, paths[i]))
            return false;
        const char *lack = find_lack(run);
        if (lack) {
            cli_complain("%s: %s%s", run->folder, lack, all > 1 ? "; left out" : "");
            release_run(run);
        }
        kept += !lack;
    }
    *count = kept;
    return kept > 0 && name_runs(runs, kept);
}

void cli_runs_release(cli_run *runs, int count)
{
    for (int i = 0; i < count; i++)
        release_run(&runs[i]);
}
