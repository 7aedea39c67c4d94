/* `yoke run`: the launcher with torchrun's options, for one machine. */
#define _GNU_SOURCE
#include "cli.h"
#include "launch/launch.h"
#include "launch/logs.h"
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/system.h>

enum { MAX_RANKS = 1024 };

typedef struct run_options {
    const char *nproc, *nnodes, *master_address, *role, *run_id;
    const char *log_dir, *redirects, *tee, *shown, *signals;
    const char *ignored_text; /* of options that torchrun has and this launcher does not need */
    int64_t node_rank, master_port, max_restarts;
    double grace_s, ignored_number;
    bool standalone, no_python, no_pin;
} run_options;

/* What the options say about each rank of this host, and the program's words. */
typedef struct run_lists {
    int redirects[MAX_RANKS], tee[MAX_RANKS];
    bool shown[MAX_RANKS];
    char **program;
    int words;
} run_lists;

static const char summary[] =
    "Starts PROGRAM once per rank on this machine, sets the environment variables that\n"
    "torchrun sets (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, ...), and waits\n"
    "for all ranks. When a rank fails, the others are stopped and the last lines of the failed\n"
    "rank are repeated. No process of the job outlives the launcher.\n"
    "\n"
    "Every option can also be set by torchrun's environment variable: PET_NPROC_PER_NODE for\n"
    "--nproc-per-node. Options on the command line take precedence.";

static const char examples[] = "  yoke run --nproc-per-node 4 ./my_program --its-own options\n"
                               "  yoke run --standalone --nproc_per_node=auto -- ./my_program";

static int parse_run_options(run_options *o, const char *name, int argc, char **argv,
                             char **program, int *words)
{
    const cli_option options[] = {
        CLI_GROUP("Ranks"),
        CLI_TEXT('n', "nproc-per-node", "N", "number of ranks; auto starts one per core [1]",
                 &o->nproc, NULL),
        CLI_TEXT(0, "nnodes", "1", "number of machines; only 1 is supported [1]", &o->nnodes, NULL),
        CLI_INT(0, "node-rank", "0", "index of this machine; only 0 is supported [0]",
                &o->node_rank, NULL, 0, 1e6),
        CLI_SWITCH(0, "no-pin",
                   "do not pin ranks to cores; by default each rank\n"
                   "gets its own set of cores",
                   &o->no_pin),
        CLI_GROUP("Rendezvous"),
        CLI_TEXT(0, "master-addr", "ADDRESS", "address of the rendezvous [127.0.0.1]",
                 &o->master_address, NULL),
        CLI_INT(0, "master-port", "PORT", "port of the rendezvous [a free one]", &o->master_port,
                NULL, 0, 65535),
        CLI_SWITCH(0, "standalone", "use a free port (the default)", &o->standalone),
        CLI_TEXT(0, "rdzv-id", "NAME", "name of the job: TORCHELASTIC_RUN_ID [none]", &o->run_id,
                 NULL),
        CLI_TEXT(0, "role", "NAME", "role of the ranks: ROLE_NAME [default]", &o->role, NULL),
        CLI_GROUP("Failing and stopping"),
        CLI_INT(0, "max-restarts", "N",
                "restart all ranks after a failure, at most N\n"
                "times; TORCHELASTIC_RESTART_COUNT counts them [0]",
                &o->max_restarts, NULL, 0, 1e6),
        CLI_REAL(0, "grace", "SECONDS",
                 "how long ranks may take to stop after ^C or\n"
                 "SIGTERM before they are killed [30]",
                 &o->grace_s, NULL, 0, 86400),
        CLI_REAL(0, "shutdown-timeout", "SECONDS", "torchrun's name for --grace", &o->grace_s, NULL,
                 0, 86400),
        CLI_TEXT(0, "signals-to-handle", "LIST",
                 "signals that ask the launcher to stop the job\n"
                 "[SIGTERM,SIGINT,SIGHUP,SIGQUIT]",
                 &o->signals, NULL),
        CLI_GROUP("Output"),
        CLI_TEXT(0, "log-dir", "FOLDER",
                 "write log files and error.json below this folder:\n"
                 "RUN_ID_xxxxxx/attempt_N/LOCAL_RANK/stdout.log",
                 &o->log_dir, NULL),
        CLI_TEXT('r', "redirects", "STREAMS",
                 "write outputs to log files instead of printing\n"
                 "them: 1 stdout, 2 stderr, 3 both; or per local\n"
                 "rank, such as 0:1,1:3 [0]",
                 &o->redirects, NULL),
        CLI_TEXT('t', "tee", "STREAMS", "write outputs to log files and print them too [0]",
                 &o->tee, NULL),
        CLI_TEXT(0, "local-ranks-filter", "RANKS",
                 "print the output of these local ranks only,\n"
                 "such as 0,2",
                 &o->shown, NULL),
        CLI_GROUP("Accepted for compatibility with torchrun, without effect"),
        CLI_SWITCH(0, "no-python", "PROGRAM is always executed directly", &o->no_python),
        CLI_REAL(0, "monitor-interval", "SECONDS", "the end of a rank is seen at once",
                 &o->ignored_number, NULL, 0, 86400),
        CLI_TEXT(0, "start-method", "NAME", "ranks are always separate programs", &o->ignored_text,
                 NULL),
        CLI_TEXT(0, "event-log-handler", "NAME", "events are not recorded", &o->ignored_text, NULL),
    };
    const cli_command command = {.name = name,
                                 .operands = "[--] PROGRAM [ARGUMENT...]",
                                 .summary = summary,
                                 .exit_codes = CLI_LAUNCH_EXIT_CODES,
                                 .examples = examples,
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .max_operands = argc,
                                 .stop_at_operand = true,
                                 .environment = "PET_"};
    return cli_options_parse(&command, argc, argv, program, words);
}

/* Returns the number of ranks, or 0 if the text is not a valid number of ranks. */
static int rank_count(const char *text)
{
    if (strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0)
        return yk_threads_default(1);
    char *end;
    long count = strtol(text, &end, 10);
    return end == text || *end || count < 1 || count > MAX_RANKS ? 0 : (int)count;
}

/* Reads "SIGTERM,SIGUSR1"; false if one of them is unknown or cannot be handled. */
static bool parse_signals(const char *text, sigset_t *signals)
{
    static const int allowed[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    sigemptyset(signals);
    for (;;) {
        size_t length = strcspn(text, ","), i = 0;
        const size_t count = sizeof allowed / sizeof *allowed;
        char name[16];
        for (; i < count; i++) {
            snprintf(name, sizeof name, "SIG%s", sigabbrev_np(allowed[i]));
            if (strlen(name) == length && strncmp(name, text, length) == 0)
                break;
        }
        if (i == count)
            return false;
        sigaddset(signals, allowed[i]);
        if (!text[length])
            return true;
        text += length + 1;
    }
}

/* Returns -1 if all options are supported, otherwise the exit code of a usage error. */
static int check_run_options(const char *name, const run_options *o, int words)
{
    if (!rank_count(o->nproc))
        return cli_usage_error(name, "--nproc-per-node %s: expected a number from 1 to %d, or auto",
                               o->nproc, MAX_RANKS);
    if (strcmp(o->nnodes, "1") != 0 && strcmp(o->nnodes, "1:1") != 0)
        return cli_usage_error(name, "--nnodes %s: this launcher starts ranks on one machine only",
                               o->nnodes);
    if (o->node_rank != 0)
        return cli_usage_error(name, "--node-rank %d: expected 0, since there is one machine",
                               (int)o->node_rank);
    if (o->standalone && o->master_port)
        return cli_usage_error(name, "--standalone uses a free port and cannot be combined "
                                     "with --master-port");
    if (words == 0)
        return cli_usage_error(name, "missing PROGRAM; put it after the options");
    return -1;
}

/* Fills what the options say about each rank; returns -1 or the exit code of a usage error. */
static int read_lists(const char *name, const run_options *o, run_lists *lists, cli_launch *launch)
{
    if (!cli_logs_parse_std(o->redirects, launch->ranks, lists->redirects))
        return cli_usage_error(name, "--redirects %s: expected 0 to 3, or LOCAL_RANK:0 to 3, ...",
                               o->redirects);
    if (!cli_logs_parse_std(o->tee, launch->ranks, lists->tee))
        return cli_usage_error(name, "--tee %s: expected 0 to 3, or LOCAL_RANK:0 to 3, ...",
                               o->tee);
    if (o->shown && !cli_logs_parse_ranks(o->shown, launch->ranks, lists->shown))
        return cli_usage_error(name, "--local-ranks-filter %s: expected local ranks below %d",
                               o->shown, launch->ranks);
    if (o->signals && !parse_signals(o->signals, &launch->stop_on))
        return cli_usage_error(name,
                               "--signals-to-handle %s: expected names from SIGTERM, SIGINT, "
                               "SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2",
                               o->signals);
    launch->redirects = lists->redirects;
    launch->tee = lists->tee;
    launch->shown = o->shown ? lists->shown : NULL;
    return -1;
}

/* Fills launch from the options; returns -1 or the exit code of a usage error. */
static int read_launch(const char *name, const run_options *o, run_lists *lists, cli_launch *launch)
{
    int code = check_run_options(name, o, lists->words);
    if (code >= 0)
        return code;
    *launch = cli_launch_defaults();
    launch->name = name;
    launch->ranks = rank_count(o->nproc);
    launch->program = lists->program;
    launch->master_address = o->master_address;
    launch->master_port = (int)o->master_port;
    launch->role = o->role;
    launch->run_id = o->run_id;
    launch->max_restarts = (int)o->max_restarts;
    launch->grace_s = o->grace_s;
    launch->no_pin = o->no_pin;
    launch->log_dir = o->log_dir;
    return read_lists(name, o, lists, launch);
}

int cli_cmd_run(const char *name, int argc, char **argv)
{
    run_lists *lists = calloc(1, sizeof *lists);
    char **program = calloc((size_t)argc + 1, sizeof *program);
    cli_launch launch;
    run_options o = {.nproc = "1",
                     .nnodes = "1",
                     .master_address = "127.0.0.1",
                     .role = "default",
                     .run_id = "none",
                     .redirects = "0",
                     .tee = "0",
                     .grace_s = 30};
    int code = CLI_EXIT_FAILED;
    if (lists && program) {
        lists->program = program;
        code = parse_run_options(&o, name, argc, argv, program, &lists->words);
        if (code < 0)
            code = read_launch(name, &o, lists, &launch);
        if (code < 0)
            code = cli_launch_run(&launch);
    }
    free(lists);
    free(program);
    return code;
}
