/* `yoke run`: the launcher with torchrun's options. */
#define _GNU_SOURCE
#include "cli.h"
#include "launch/launch.h"
#include "launch/logs.h"
#include "launch/net.h"
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/store.h>
#include <yoke/system.h>

enum { MAX_RANKS = 1024, MAX_NODES = 1024, STATIC_PORT = 29500, ELASTIC_PORT = 29400 };

typedef struct run_options {
    const char *nproc, *nnodes, *master_address, *role, *run_id;
    const char *backend, *endpoint, *conf, *local_address;
    const char *log_dir, *redirects, *tee, *shown, *signals;
    const char *ignored_text; /* of options that torchrun has and this launcher does not need */
    int64_t node_rank, master_port, max_restarts;
    double grace_s, ignored_number;
    bool standalone, no_python, no_pin;
    bool given_backend, given_node_rank;
} run_options;

/* What the options say about each rank of this host, and the program's words. */
typedef struct run_lists {
    int redirects[MAX_RANKS], tee[MAX_RANKS];
    bool shown[MAX_RANKS];
    char **program;
    int words;
    char host[256], conf[1024]; /* parts of --rdzv-endpoint and --rdzv-conf */
} run_lists;

static const char summary[] =
    "Starts PROGRAM once per rank on one host or several, sets the environment variables that\n"
    "torchrun sets (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, ...), and waits\n"
    "for all ranks. When a rank fails, the others are stopped and the last lines of the failed\n"
    "rank are repeated. No process of the job outlives the launcher.\n"
    "\n"
    "Every option can also be set by torchrun's environment variable: PET_NPROC_PER_NODE for\n"
    "--nproc-per-node. Options on the command line take precedence.";

static const char examples[] = "  yoke run --nproc-per-node 4 ./my_program --its-own options\n"
                               "  yoke run --standalone --nproc_per_node=auto -- ./my_program\n"
                               "  yoke run --nnodes 2 -n 4 --rdzv-endpoint head:29400 ./my_program "
                               "  # on each host";

static int parse_run_options(run_options *o, const char *name, int argc, char **argv,
                             char **program, int *words)
{
    const cli_option options[] = {
        CLI_GROUP("Ranks"),
        CLI_TEXT('n', "nproc-per-node", "N", "number of ranks; auto starts one per core [1]",
                 &o->nproc, NULL),
        CLI_TEXT(0, "nnodes", "N",
                 "number of hosts; run the same command on each of\n"
                 "them. MIN:MAX continues with fewer after a failure\n"
                 "and lets others in again [1]",
                 &o->nnodes, NULL),
        CLI_INT(0, "node-rank", "INDEX", "index of this host (static rendezvous) [0]",
                &o->node_rank, &o->given_node_rank, 0, MAX_NODES - 1),
        CLI_SWITCH(0, "no-pin",
                   "do not pin ranks to cores; by default each rank\n"
                   "gets its own set of cores",
                   &o->no_pin),
        CLI_GROUP("Rendezvous"),
        CLI_CHOICE(0, "rdzv-backend", "static|c10d",
                   "how hosts find each other: static, by --node-rank\n"
                   "and --master-addr; or c10d, where the host of\n"
                   "--rdzv-endpoint serves the rendezvous [c10d if\n"
                   "--rdzv-endpoint is given without --node-rank]",
                   &o->backend, &o->given_backend),
        CLI_TEXT(0, "rdzv-endpoint", "HOST:PORT", "host of the rendezvous [port 29400]",
                 &o->endpoint, NULL),
        CLI_TEXT(0, "rdzv-id", "NAME", "name of the job: TORCHELASTIC_RUN_ID [none]", &o->run_id,
                 NULL),
        CLI_TEXT(0, "rdzv-conf", "KEY=VALUE,...",
                 "secret, join_timeout [600], last_call_timeout\n"
                 "[30], is_host",
                 &o->conf, NULL),
        CLI_TEXT(0, "master-addr", "ADDRESS", "address of the rendezvous [127.0.0.1]",
                 &o->master_address, NULL),
        CLI_INT(0, "master-port", "PORT",
                "port of the rendezvous [a free one; 29500 with\n"
                "several hosts]",
                &o->master_port, NULL, 0, 65535),
        CLI_TEXT(0, "local-addr", "ADDRESS",
                 "address of this host, for the others [that of\n"
                 "its connection to the rendezvous]",
                 &o->local_address, NULL),
        CLI_SWITCH(0, "standalone", "one host and a free port (the default)", &o->standalone),
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
    if (o->standalone && o->master_port)
        return cli_usage_error(name, "--standalone uses a free port and cannot be combined "
                                     "with --master-port");
    if (words == 0)
        return cli_usage_error(name, "missing PROGRAM; put it after the options");
    return -1;
}

/* Reads "4" or "2:4". */
static bool read_nodes(const char *text, cli_launch *launch)
{
    int used = 0,
        count = sscanf(text, "%4d%n:%4d%n", &launch->nodes_min, &used, &launch->nodes_max, &used);
    if (count == 1)
        launch->nodes_max = launch->nodes_min;
    return count >= 1 && !text[used] && launch->nodes_min >= 1 &&
           launch->nodes_max >= launch->nodes_min && launch->nodes_max <= MAX_NODES;
}

static bool read_seconds(const char *text, double *seconds)
{
    char *end;
    *seconds = strtod(text, &end);
    return end != text && !*end && *seconds >= 0 && *seconds <= 1e6;
}

/* One key of --rdzv-conf; false if it is unknown or its value is invalid. */
static bool read_conf_key(const char *key, const char *value, cli_launch *launch)
{
    static const char unused[] = "timeout|close_timeout|read_timeout|keep_alive_interval|"
                                 "keep_alive_max_attempt|heartbeat_timeout|store_type|"
                                 "use_agent_store|rank";
    if (strcmp(key, "secret") == 0)
        launch->secret = value;
    else if (strcmp(key, "join_timeout") == 0)
        return read_seconds(value, &launch->join_s);
    else if (strcmp(key, "last_call_timeout") == 0)
        return read_seconds(value, &launch->last_call_s);
    else if (strcmp(key, "is_host") == 0)
        launch->is_host = cli_is_choice("1|true|True|yes", value);
    else
        return cli_is_choice(unused, key);
    return true;
}

static int read_conf(const char *name, const run_options *o, run_lists *lists, cli_launch *launch)
{
    const char *secret = getenv("YOKE_SECRET");
    launch->secret = secret ? secret : "";
    if (snprintf(lists->conf, sizeof lists->conf, "%s", o->conf) >= (int)sizeof lists->conf)
        return cli_usage_error(name, "--rdzv-conf is too long");
    char *rest = lists->conf;
    for (char *pair; (pair = strsep(&rest, ","));) {
        char *value = strchr(pair, '=');
        if (!*pair)
            continue;
        if (value)
            *value++ = '\0';
        if (!value || !read_conf_key(pair, value, launch))
            return cli_usage_error(name, "--rdzv-conf %s=%s: unknown key or invalid value", pair,
                                   value ? value : "");
    }
    if (strlen(launch->secret) >= 256)
        return cli_usage_error(name, "the secret is longer than 255 bytes");
    return -1;
}

static int read_endpoint(const char *name, const run_options *o, run_lists *lists,
                         cli_launch *launch)
{
    int port = launch->elects_host ? ELASTIC_PORT : STATIC_PORT;
    if (!o->endpoint)
        return -1;
    if (!cli_net_split(o->endpoint, lists->host, sizeof lists->host, &port))
        return cli_usage_error(name, "--rdzv-endpoint %s: expected HOST:PORT", o->endpoint);
    launch->master_address = lists->host;
    launch->master_port = port;
    return -1;
}

/* The rendezvous of several hosts; returns -1 or the exit code of a usage error. */
static int read_rendezvous(const char *name, const run_options *o, run_lists *lists,
                           cli_launch *launch)
{
    launch->elects_host =
        o->given_backend ? strcmp(o->backend, "c10d") == 0 : o->endpoint && !o->given_node_rank;
    launch->node_rank = launch->elects_host ? -1 : (int)o->node_rank;
    if (launch->elects_host && !o->endpoint)
        return cli_usage_error(name, "--rdzv-backend c10d requires --rdzv-endpoint HOST:PORT");
    if (!launch->elects_host && launch->nodes_min != launch->nodes_max)
        return cli_usage_error(name, "--nnodes %s requires --rdzv-backend c10d", o->nnodes);
    if (!launch->elects_host && launch->node_rank >= launch->nodes_max)
        return cli_usage_error(name, "--node-rank %d: expected less than --nnodes %d",
                               launch->node_rank, launch->nodes_max);
    if (launch->master_port == YK_PORT_ANY)
        launch->master_port = STATIC_PORT;
    int code = read_endpoint(name, o, lists, launch);
    if (code >= 0)
        return code;
    if (launch->master_port == YK_PORT_ANY)
        return cli_usage_error(name, "--rdzv-endpoint %s: several hosts need a port", o->endpoint);
    return read_conf(name, o, lists, launch);
}

/* Which hosts take part; returns -1 or the exit code of a usage error. */
static int read_hosts(const char *name, const run_options *o, run_lists *lists, cli_launch *launch)
{
    if (!read_nodes(o->nnodes, launch))
        return cli_usage_error(name, "--nnodes %s: expected a number from 1 to %d, or MIN:MAX",
                               o->nnodes, MAX_NODES);
    if (o->standalone)
        launch->nodes_min = launch->nodes_max = 1;
    if (launch->nodes_max > 1)
        return read_rendezvous(name, o, lists, launch);
    if (o->node_rank != 0)
        return cli_usage_error(name, "--node-rank %d: expected 0, since --nnodes is 1",
                               (int)o->node_rank);
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
    launch->local_address = o->local_address;
    code = read_hosts(name, o, lists, launch);
    return code >= 0 ? code : read_lists(name, o, lists, launch);
}

int cli_cmd_run(const char *name, int argc, char **argv)
{
    run_lists *lists = calloc(1, sizeof *lists);
    char **program = calloc((size_t)argc + 1, sizeof *program);
    cli_launch launch;
    run_options o = {.nproc = "1",
                     .nnodes = "1",
                     .backend = "static",
                     .conf = "",
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
