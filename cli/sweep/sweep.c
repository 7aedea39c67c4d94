/*
 * `yoke sweep`: trains once with every combination of the values of some options. As many runs as
 * the cores allow train at the same time, and each has its own folder. A run that fails does not
 * stop the others.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "common/duration.h"
#include "common/files.h"
#include "options/options.h"
#include "options/paths.h"
#include "options/ranks.h"
#include "report/run.h"
#include "report/table.h"
#include "setup/setup.h"
#include "sweep/jobs.h"
#include "sweep/plan.h"

enum {
    PATH_SIZE = 4096 + CLI_SWEEP_NAME + 16,
    MAX_WORDS = CLI_SWEEP_WORDS + 2 * CLI_SWEEP_AXES + 8
};

typedef struct sweep {
    const char *name;
    cli_sweep_plan plan;
    char folder[4096];
    int64_t jobs; /* at a time; 0 until it is known */
    char threads[16];
    bool threads_given;
    cli_jobs pool;
    int ended;
} sweep;

/* Whether the code is that of a run that was asked to stop: it has stopped in order, or the sweep,
 * which was asked twice, has killed it. */
static bool is_stop(const sweep *s, int code)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (code == 128 + signals[i])
            return true;
    return code == CLI_EXIT_REQUEUED || (s->pool.stop_signal && code == 128 + SIGKILL);
}

/* What has become of a run, in a few words. */
enum { VERDICT = 32 };
static const char *verdict(char text[VERDICT], const sweep *s, int code)
{
    const char *name = code > 128 ? sigabbrev_np(code - 128) : NULL;
    snprintf(text, VERDICT, "%s",
             code == 0                     ? "done"
             : code == CLI_JOB_NOT_STARTED ? "not started"
             : is_stop(s, code)            ? "stopped"
                                           : "failed");
    if (name && !is_stop(s, code))
        snprintf(text, VERDICT, "failed (SIG%s)", name);
    return text;
}

/* ---- cores ----------------------------------------------------------------------------------- */

static int64_t number_of(const char *name, const char *value)
{
    return strcmp(name, "nproc") == 0 ? cli_ranks_read(value, INT_MAX).count : atoll(value);
}

/* The most that a run is given for an option; 1 where none is. */
static int64_t most_of(const sweep *s, const char *name)
{
    const char *shared = cli_sweep_shared(&s->plan, name);
    int64_t most = shared ? number_of(name, shared) : 1;
    for (int i = 0; i < s->plan.axis_count; i++) {
        const cli_sweep_axis *axis = &s->plan.axes[i];
        for (int j = 0; strcmp(axis->name, name) == 0 && j < axis->count; j++) {
            int64_t number = number_of(name, axis->values[j]);
            most = number > most ? number : most;
        }
    }
    return most > 0 ? most : 1;
}

/* As many runs as fit; their ranks share the cores that are left over. */
static void share_cores(sweep *s)
{
    const char *source;
    int64_t cores = cli_threads(YK_THREADS_AUTO, 1, &source);
    int64_t ranks = most_of(s, "nproc"), threads = most_of(s, "threads");
    if (s->jobs == 0)
        s->jobs = cores / (ranks * threads);
    if (s->jobs < 1)
        s->jobs = 1;
    if (s->jobs > s->plan.runs)
        s->jobs = s->plan.runs;
    s->threads_given = cli_sweep_shared(&s->plan, "threads") != NULL;
    for (int i = 0; i < s->plan.axis_count; i++)
        s->threads_given |= strcmp(s->plan.axes[i].name, "threads") == 0;
    threads = cores / (s->jobs * ranks);
    snprintf(s->threads, sizeof s->threads, "%lld", (long long)(threads > 1 ? threads : 1));
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* The run's folder, or with a suffix a file beside it. */
static void run_path(char path[PATH_SIZE], const sweep *s, int run, const char *suffix)
{
    char name[CLI_SWEEP_NAME];
    cli_sweep_name(name, &s->plan, run);
    snprintf(path, PATH_SIZE, "%s/%s%s", s->folder, name, suffix);
}

/* Its output goes into a file. */
static void execute(void *context, int run)
{
    const sweep *s = context;
    char *words[MAX_WORDS] = {(char *)"yoke", (char *)"train"}, folder[PATH_SIZE], log[PATH_SIZE];
    static char options[CLI_SWEEP_AXES][64];
    int count = 2;
    for (int i = 0; i < s->plan.other_count; i++)
        words[count++] = s->plan.others[i];
    for (int i = 0; i < s->plan.axis_count; i++) {
        snprintf(options[i], sizeof options[i], "--%s", s->plan.axes[i].name);
        words[count++] = options[i];
        words[count++] = (char *)cli_sweep_value(&s->plan, run, i);
    }
    if (!s->threads_given) {
        words[count++] = (char *)"--threads";
        words[count++] = (char *)s->threads;
    }
    run_path(folder, s, run, "");
    words[count++] = (char *)"--output";
    words[count++] = folder;
    run_path(log, s, run, ".log");
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) {
        cli_complain("%s: cannot create: %s", log, strerror(errno));
        return;
    }
    execv("/proc/self/exe", words);
    perror("yoke sweep: cannot start yoke train");
}

/* The last line of a log, which is the error of a run that has failed. */
static void last_line(char *line, size_t size, const char *path)
{
    char *text = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "re");
    *line = '\0';
    while (file && getline(&text, &room, file) > 0)
        if (text[strcspn(text, "\n")] == '\n' && text[0] != '\n')
            snprintf(line, size, "%.*s", (int)strcspn(text, "\n"), text);
    free(text);
    if (file)
        fclose(file);
}

static void report_job(void *context, int run, int code, double seconds)
{
    sweep *s = context;
    char name[CLI_SWEEP_NAME], path[PATH_SIZE], line[300], took[CLI_DURATION_TEXT], end[VERDICT];
    if (code < 0)
        return;
    cli_sweep_name(name, &s->plan, run);
    s->ended++;
    printf("[%d/%d] %s: %s after %s", s->ended, s->plan.runs, name, verdict(end, s, code),
           cli_duration_text(took, seconds));
    if (code != 0) {
        run_path(path, s, run, ".log");
        last_line(line, sizeof line, path);
        printf(" (exit code %d)%s%s", code, *line ? ": " : "", line);
    }
    putchar('\n');
    fflush(stdout);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* A run, for the table. */
typedef struct outcome {
    int run, code;
    struct stat before; /* its metrics.jsonl before the sweep; all 0 where there was none */
    bool known;         /* there are results */
    cli_results results;
} outcome;

/* The most accurate first, runs without results last. */
static int compare_outcomes(const void *a, const void *b)
{
    const outcome *x = a, *y = b;
    bool has_x = x->known && !isnan(x->results.accuracy);
    bool has_y = y->known && !isnan(y->results.accuracy);
    if (has_x != has_y)
        return has_y - has_x;
    if (has_x && x->results.accuracy != y->results.accuracy)
        return x->results.accuracy < y->results.accuracy ? 1 : -1;
    return x->run - y->run;
}

static struct stat look_at_metrics(const sweep *s, int run)
{
    char path[PATH_SIZE];
    struct stat info;
    run_path(path, s, run, "/metrics.jsonl");
    return stat(path, &info) == 0 ? info : (struct stat){.st_size = 0};
}

/* Whether there are records that are not those of an earlier run in this folder alone. */
static bool has_records(const outcome *o, const sweep *s)
{
    struct stat now = look_at_metrics(s, o->run);
    bool written = now.st_size != o->before.st_size || now.st_ino != o->before.st_ino ||
                   now.st_mtim.tv_sec != o->before.st_mtim.tv_sec ||
                   now.st_mtim.tv_nsec != o->before.st_mtim.tv_nsec;
    return now.st_size > 0 && (o->code == 0 || written);
}

static void read_outcome(outcome *o, const sweep *s)
{
    char path[PATH_SIZE], *paths[1] = {path};
    int count = 1;
    cli_run run;
    if (!has_records(o, s))
        return;
    run_path(path, s, o->run, "");
    o->known = cli_runs_read(&run, paths, &count);
    if (o->known)
        o->results = run.results;
    cli_runs_release(&run, 1);
}

static void add_result(cli_table *table, const outcome *o, const char *format, double value)
{
    char text[32];
    snprintf(text, sizeof text, format, value);
    cli_table_cell(table, "%s", o->known && !isnan(value) ? text : "-");
}

static void add_outcome(cli_table *table, const sweep *s, const outcome *o)
{
    char took[CLI_DURATION_TEXT], end[VERDICT];
    cli_table_row(table);
    for (int i = 0; i < s->plan.axis_count; i++)
        cli_table_cell(table, "%s", cli_sweep_value(&s->plan, o->run, i));
    add_result(table, o, "%.2f %%", 100 * o->results.accuracy);
    add_result(table, o, "%.4f", o->results.val_loss);
    add_result(table, o, "%.4f", o->results.train_loss);
    cli_table_cell(table, "%s", o->known ? cli_duration_text(took, o->results.seconds) : "-");
    cli_table_cell(table, "%s", verdict(end, s, o->code));
}

static bool print_table(const sweep *s, outcome *outcomes)
{
    cli_table *table = cli_table_create();
    for (int i = 0; i < s->plan.runs; i++) {
        outcomes[i].code = s->pool.codes[i];
        read_outcome(&outcomes[i], s);
    }
    cli_table_row(table);
    for (int i = 0; i < s->plan.axis_count; i++)
        cli_table_cell(table, "%s", s->plan.axes[i].name);
    static const char *const heads[] = {"accuracy", "val loss", "train loss", "time", "run"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        cli_table_cell(table, "%s", heads[i]);
    cli_table_rule(table);
    qsort(outcomes, (size_t)s->plan.runs, sizeof *outcomes, compare_outcomes);
    for (int i = 0; i < s->plan.runs; i++)
        add_outcome(table, s, &outcomes[i]);
    putchar('\n');
    bool printed = cli_table_print(table, stdout);
    cli_table_destroy(table);
    return printed || cli_complain("out of memory");
}

/* ---- the command ----------------------------------------------------------------------------- */

static void name_folder(sweep *s, const char *output)
{
    time_t clock = time(NULL);
    struct tm date;
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", localtime_r(&clock, &date));
    if (output)
        snprintf(s->folder, sizeof s->folder, "%s", output);
    else
        snprintf(s->folder, sizeof s->folder, "runs/sweep-%s", stamp);
}

/* Returns -1, or an exit code. Nothing is started that cannot write there. */
static int make_folder(sweep *s, const char *output)
{
    if (!cli_check_folder(s->name, "--output", output))
        return CLI_EXIT_USAGE;
    name_folder(s, output);
    if (cli_folder_make(s->folder))
        return -1;
    cli_complain("cannot create the folder %s: %s", s->folder, strerror(errno));
    return CLI_EXIT_FAILED;
}

static int run_all(sweep *s, outcome *outcomes)
{
    int code = CLI_EXIT_OK;
    printf("Sweep of %d runs, %lld at a time, in %s\n", s->plan.runs, (long long)s->jobs,
           s->folder);
    fflush(stdout);
    for (int i = 0; i < s->plan.runs; i++)
        outcomes[i] = (outcome){.run = i, .before = look_at_metrics(s, i)};
    cli_jobs_run(&s->pool);
    for (int i = 0; i < s->plan.runs; i++)
        code = s->pool.codes[i] != 0 ? CLI_EXIT_FAILED : code;
    if (!print_table(s, outcomes))
        code = CLI_EXIT_FAILED;
    return s->pool.stop_signal ? 128 + s->pool.stop_signal : code;
}

static int run_sweep(sweep *s)
{
    int *codes = calloc((size_t)s->plan.runs, sizeof *codes), code = CLI_EXIT_FAILED;
    outcome *outcomes = calloc((size_t)s->plan.runs, sizeof *outcomes);
    s->pool = (cli_jobs){.count = s->plan.runs,
                         .at_a_time = (int)s->jobs,
                         .execute = execute,
                         .report = report_job,
                         .context = s,
                         .codes = codes};
    if (codes && outcomes)
        code = run_all(s, outcomes);
    else
        cli_complain("out of memory");
    free(outcomes);
    free(codes);
    return code;
}

/* Divides the words: the sweep's own options, which may lie anywhere, and those of train. */
static void divide_words(const cli_command *command, int argc, char **argv, char **own,
                         int *own_count, char **others, int *other_count)
{
    own[0] = argv[0];
    *own_count = 1;
    *other_count = 0;
    for (int i = 1; i < argc; i++) {
        char *word = argv[i];
        cli_option_word found = {.option = NULL};
        if (word[0] == '-')
            found = cli_option_find(command, word);
        if (found.option || cli_asks_for_help(word))
            own[(*own_count)++] = word;
        else
            others[(*other_count)++] = word;
        if (found.option && !found.value && i + 1 < argc)
            own[(*own_count)++] = argv[++i];
    }
}

static int parse(sweep *s, const char **output, int argc, char **argv)
{
    const cli_option options[] = {
        CLI_TEXT('o', "output", "FOLDER", "folder of the runs' folders [runs/sweep-DATE-TIME]",
                 output, NULL),
        CLI_INT('j', "jobs", "N", "runs at a time [as many as there are cores for]", &s->jobs, NULL,
                1, 1024),
    };
    const cli_command command = {
        .name = s->name,
        .operands = "OPTION VALUE,VALUE,... [OPTION...]",
        .summary =
            "Trains once with every combination of the values. The options are those of "
            "yoke train;\nthose with numbers or choices may have several values, separated "
            "by commas. Each run\nhas a folder with the values in its name, and a log beside "
            "it. A run that fails does\nnot stop the others; ^C stops all. The exit code is "
            "0 if all runs have succeeded.",
        .examples = "  yoke sweep --lr 0.01,0.03,0.1 --data synthetic --arch mlp\n"
                    "  yoke sweep --lr 0.1,0.3 --weight-decay 0,5e-4 --epochs 5 -o runs/s\n"
                    "  yoke report runs/s/*/ -o sweep.html",
        .options = options,
        .option_count = sizeof options / sizeof *options};
    char **own = calloc((size_t)argc + 1, sizeof *own),
         **others = calloc((size_t)argc + 1, sizeof *others);
    int own_count = 0, other_count = 0, code = CLI_EXIT_FAILED;
    if (own && others) {
        divide_words(&command, argc, argv, own, &own_count, others, &other_count);
        code = cli_options_parse(&command, own_count, own, NULL, NULL);
        if (code < 0 && !cli_sweep_plan_make(&s->plan, s->name, other_count, others))
            code = CLI_EXIT_USAGE;
    }
    free(others);
    free(own);
    return code;
}

int cli_cmd_sweep(const char *name, int argc, char **argv)
{
    sweep s = {.name = name};
    const char *output = NULL;
    int code = parse(&s, &output, argc, argv);
    if (code < 0) {
        share_cores(&s);
        code = make_folder(&s, output);
    }
    if (code < 0)
        code = run_sweep(&s);
    cli_sweep_plan_release(&s.plan);
    return code;
}
