/*
 * Log files, in torchelastic's layout, so that tools that collect them find them:
 *
 *     LOG_DIR/RUN_ID_xxxxxx/attempt_N/LOCAL_RANK/{stdout.log,stderr.log,error.json}
 *     LOG_DIR/RUN_ID_xxxxxx/attempt_N/{filtered_stdout.log,filtered_stderr.log}
 *
 * The launcher copies what it reads from a rank to the rank's files, so that it still knows the
 * last lines of a rank whose output is not printed. error.json is written by programs that know
 * TORCHELASTIC_ERROR_FILE; for all others the launcher writes it.
 */
#define _GNU_SOURCE
#include "launch/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/files.h"
#include "common/json.h"

/* ---- the values of options ------------------------------------------------------------------ */

/* Reads a number from 0 to most and moves *text to what follows it; returns -1 if there is none. */
static int read_number(const char **text, int most)
{
    char *end;
    long number = **text >= '0' && **text <= '9' ? strtol(*text, &end, 10) : -1;
    if (number < 0 || number > most)
        return -1;
    *text = end;
    return (int)number;
}

bool cli_logs_parse_std(const char *text, int ranks, int *std)
{
    enum { BOTH = CLI_STD_OUT | CLI_STD_ERR };
    for (int i = 0; i < ranks; i++)
        std[i] = CLI_STD_NONE;
    int first = read_number(&text, strchr(text, ':') ? ranks - 1 : BOTH);
    if (first >= 0 && !*text) {
        for (int i = 0; i < ranks; i++)
            std[i] = first;
        return true;
    }
    for (int rank = first; rank >= 0 && *text == ':'; rank = read_number(&text, ranks - 1)) {
        text++;
        int value = read_number(&text, BOTH);
        if (value < 0)
            return false;
        std[rank] = value;
        if (!*text)
            return true;
        if (*text++ != ',')
            return false;
    }
    return false;
}

bool cli_logs_parse_ranks(const char *text, int ranks, bool *shown)
{
    for (int i = 0; i < ranks; i++)
        shown[i] = false;
    for (;; text++) {
        text += strspn(text, " ");
        int rank = read_number(&text, ranks - 1);
        if (rank < 0)
            return false;
        shown[rank] = true;
        text += strspn(text, " ");
        if (*text != ',')
            return !*text;
    }
}

/* ---- folders and files ---------------------------------------------------------------------- */

static bool complain(const cli_launch *launch, const char *path)
{
    fprintf(stderr, "%s: cannot create the log folder %s: %s\n", launch->name, path,
            strerror(errno));
    return false;
}

/* Creates the folder and its parents. */
static bool make_folders(const cli_launch *launch, const char *path)
{
    return cli_folder_make(path) || complain(launch, path);
}

static bool wants_files(const cli_launch *launch)
{
    bool wanted = launch->log_dir || launch->filter_out || launch->filter_err;
    for (int i = 0; i < launch->ranks; i++)
        wanted = wanted || (launch->redirects && launch->redirects[i]) ||
                 (launch->tee && launch->tee[i]);
    return wanted;
}

static bool parse_filters(cli_logs *logs, const cli_launch *launch)
{
    if ((!launch->filter_out || cli_filter_parse(&logs->filter_out, launch->filter_out)) &&
        (!launch->filter_err || cli_filter_parse(&logs->filter_err, launch->filter_err)))
        return true;
    fprintf(stderr, "%s: no memory for the filters of lines\n", launch->name);
    return false;
}

/* Names the folder of this run, from the root: a program may go elsewhere before it fails. */
static bool name_folder(cli_logs *logs, const char *parent, const char *run_id)
{
    char here[CLI_LOGS_PATH] = "";
    if (*parent != '/' && !getcwd(here, sizeof here))
        return false;
    const size_t room = sizeof logs->folder;
    size_t parents =
        (size_t)snprintf(logs->folder, room, "%s%s%s/", here, *here ? "/" : "", parent);
    errno = ENAMETOOLONG;
    if (parents >= room || (size_t)snprintf(logs->folder + parents, room - parents, "%s_XXXXXX",
                                            run_id) >= room - parents)
        return false;
    for (char *at = logs->folder + parents; *at; at++)
        if (*at == '/') /* a job's name may hold anything */
            *at = '_';
    return true;
}

bool cli_logs_open(cli_logs *logs, const cli_launch *launch)
{
    bool nowhere = launch->log_dir && strcmp(launch->log_dir, "/dev/null") == 0;
    *logs = (cli_logs){.filter_out = {.fd = -1}, .filter_err = {.fd = -1}};
    if (nowhere || !wants_files(launch))
        return true;
    if (!parse_filters(logs, launch))
        return false;
    const char *parent = launch->log_dir, *temporary = getenv("TMPDIR");
    if (!parent)
        parent = temporary && *temporary ? temporary : "/tmp";
    else if (!make_folders(launch, parent))
        return false;
    if (!name_folder(logs, parent, launch->run_id))
        return complain(launch, parent);
    if (!mkdtemp(logs->folder))
        return complain(launch, logs->folder);
    chmod(logs->folder, 0755);
    if (!launch->log_dir)
        fprintf(stderr, "%s: the log files are in %s\n", launch->name, logs->folder);
    return true;
}

void cli_logs_path(const cli_logs *logs, int attempt, int local_rank, const char *file,
                   char path[CLI_LOGS_PATH + 64])
{
    path[0] = '\0';
    if (logs->folder[0])
        snprintf(path, CLI_LOGS_PATH + 64, "%s/attempt_%d/%d/%s", logs->folder, attempt, local_rank,
                 file);
}

void cli_logs_close(cli_logs *logs)
{
    cli_filter_free(&logs->filter_out);
    cli_filter_free(&logs->filter_err);
}

/* Opens the file of a filter in the attempt's folder. */
static bool open_filter(cli_filter *filter, const cli_logs *logs, const cli_launch *launch,
                        int attempt, const char *file)
{
    char path[CLI_LOGS_PATH + 64];
    if (!filter->texts)
        return true;
    snprintf(path, sizeof path, "%s/attempt_%d", logs->folder, attempt);
    if (!make_folders(launch, path))
        return false;
    snprintf(path, sizeof path, "%s/attempt_%d/%s", logs->folder, attempt, file);
    if (cli_filter_open(filter, path))
        return true;
    fprintf(stderr, "%s: cannot create %s: %s\n", launch->name, path, strerror(errno));
    return false;
}

bool cli_logs_begin_attempt(cli_logs *logs, const cli_launch *launch, int attempt)
{
    return open_filter(&logs->filter_out, logs, launch, attempt, "filtered_stdout.log") &&
           open_filter(&logs->filter_err, logs, launch, attempt, "filtered_stderr.log");
}

bool cli_logs_add_rank(const cli_logs *logs, const cli_launch *launch, int attempt, int local_rank)
{
    char path[CLI_LOGS_PATH + 64];
    cli_logs_path(logs, attempt, local_rank, "", path);
    return !path[0] || make_folders(launch, path);
}

void cli_logs_attach(cli_logs *logs, const cli_launch *launch, int attempt, int local_rank,
                     cli_std bit, cli_stream *stream)
{
    char path[CLI_LOGS_PATH + 64];
    bool files = logs->folder[0];
    bool redirected = files && launch->redirects && (launch->redirects[local_rank] & (int)bit);
    bool copied = files && launch->tee && (launch->tee[local_rank] & (int)bit);
    stream->program = launch->name;
    stream->filter = bit == CLI_STD_OUT ? &logs->filter_out : &logs->filter_err;
    stream->hidden = (redirected && !copied) || (launch->shown && !launch->shown[local_rank]);
    if (!redirected && !copied)
        return;
    cli_logs_path(logs, attempt, local_rank, bit == CLI_STD_OUT ? "stdout.log" : "stderr.log",
                  path);
    stream->log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (stream->log < 0)
        fprintf(stderr, "%s: cannot create %s: %s\n", launch->name, path, strerror(errno));
}

/* ---- error.json ----------------------------------------------------------------------------- */

void cli_logs_write_error(const cli_logs *logs, int attempt, int local_rank, const char *message,
                          int exit_code, const cli_stream *err)
{
    char path[CLI_LOGS_PATH + 64];
    cli_logs_path(logs, attempt, local_rank, "error.json", path);
    int fd = path[0] ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) {
        if (fd >= 0)
            close(fd);
        return;
    }
    char tail[CLI_TAIL_SIZE];
    cli_stream_tail(err, tail, sizeof tail);
    fputs("{\"message\": {\"message\": ", file);
    cli_json_string(file, message);
    fprintf(file, ", \"errorCode\": %d, \"extraInfo\": {\"py_callstack\": ", exit_code);
    cli_json_string(file, tail);
    fprintf(file, ", \"timestamp\": \"%lld\"}}}\n", (long long)time(NULL));
    bool written = !ferror(file);
    written = fclose(file) == 0 && written;
    if (!written) /* the launcher prints the same, so half of it is of no use */
        unlink(path);
}
