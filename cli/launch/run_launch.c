/* See run.h: what the options of `yoke run` mean. */
#define _GNU_SOURCE
#include "launch/run.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <yoke/store.h>
#include <yoke/system.h>

#include "common/errors.h"
#include "launch/control.h"
#include "launch/logs.h"
#include "launch/net.h"
#include "options/options.h"

/* Reads "SIGTERM, SIGUSR1"; false if one of them is unknown or cannot be handled. */
static bool parse_signals(const char *text, sigset_t *signals)
{
    static const int allowed[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    sigemptyset(signals);
    for (;;) {
        text += strspn(text, " ");
        size_t length = strcspn(text, ", "), i = 0;
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
        text += length;
        text += strspn(text, " ");
        if (*text++ != ',')
            return !text[-1];
    }
}

/* Returns -1, or the exit code of a usage error. */
static int refuse_options(const char *name, const cli_run_options *o)
{
    if (o->print_completion)
        return cli_usage_error(name, "--print-completion: the completions of bash, zsh and fish "
                                     "are installed with yoke");
    if (o->logs_specs && strcmp(o->logs_specs, "default") != 0)
        return cli_usage_error(name,
                               "--logs-specs %s: there are no plug-ins; use --log-dir, --redirects "
                               "and --tee",
                               o->logs_specs);
    return -1;
}

/* Says of options on the command line that they change nothing, and why. */
static void note_options_without_effect(const char *name, const cli_run_options *o)
{
    static const char format[] = "%s: --%s has no effect: %s\n";
    if (o->given_monitor)
        fprintf(stderr, format, name, "monitor-interval", "the end of a rank is seen at once");
    if (o->given_start)
        fprintf(stderr, format, name, "start-method", "ranks are always separate programs");
    if (o->given_events)
        fprintf(stderr, format, name, "event-log-handler", "events are not recorded");
}

/* Returns -1 if all options are supported, otherwise the exit code of a usage error. */
static int check_run_options(const char *name, const cli_run_options *o, int words)
{
    int code = refuse_options(name, o);
    if (code >= 0)
        return code;
    if (o->hosts && o->hostfile)
        return cli_usage_error(name, "--hosts and --hostfile exclude each other");
    if (o->standalone && (o->hosts || o->hostfile))
        return cli_usage_error(name, "--standalone starts a job on this host alone: leave out --%s",
                               o->hosts ? "hosts" : "hostfile");
    return words > 0 ? -1 : cli_usage_error(name, "missing PROGRAM; put it after the options");
}

/* Reads "4" or "2:4". */
static bool read_nodes(const char *text, cli_launch *launch)
{
    int used = 0,
        count = sscanf(text, "%4d%n:%4d%n", &launch->nodes_min, &used, &launch->nodes_max, &used);
    if (count == 1)
        launch->nodes_max = launch->nodes_min;
    return count >= 1 && !text[used] && launch->nodes_min >= 1 &&
           launch->nodes_max >= launch->nodes_min && launch->nodes_max <= CLI_HOSTS_MAX;
}

static bool read_seconds(const char *text, double *seconds)
{
    char *end;
    *seconds = strtod(text, &end);
    return end != text && !*end && *seconds >= 0 && *seconds <= 1e6;
}

/* As torchrun reads it, in any case; false if it is neither. */
static bool read_bool(const char *text, int *value)
{
    static const char *const words[][2] = {
        {"0", "1"}, {"n", "y"}, {"f", "t"}, {"no", "yes"}, {"false", "true"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (*value = 0; *value < 2; ++*value)
            if (strcasecmp(text, words[i][*value]) == 0)
                return true;
    return false;
}

/* One key of --rdzv-conf; false if it is unknown or its value is invalid. */
static bool read_conf_key(const char *key, const char *value, cli_launch *launch)
{
    static const char unused[] = "timeout|close_timeout|read_timeout|keep_alive_interval|"
                                 "keep_alive_max_attempt|heartbeat_timeout|store_type|"
                                 "use_agent_store|cas_backoff_max_seconds|rank";
    bool joins = strcmp(key, "join_timeout") == 0 || /* or what it is called if it is static */
                 (strcmp(key, "timeout") == 0 && !launch->elects_host);
    if (strcmp(key, "secret") == 0)
        launch->secret = value;
    else if (joins)
        return read_seconds(value, &launch->join_s);
    else if (strcmp(key, "last_call_timeout") == 0)
        return read_seconds(value, &launch->last_call_s);
    else if (strcmp(key, "is_host") == 0)
        return read_bool(value, &launch->is_host);
    else
        return cli_is_choice(unused, key);
    return true;
}

/* Without the spaces around it, as torchrun reads it. */
static char *trim(char *text)
{
    text += strspn(text, " ");
    for (size_t end = strlen(text); end > 0 && text[end - 1] == ' '; end--)
        text[end - 1] = '\0';
    return text;
}

static int read_conf(const char *name, const cli_run_options *o, cli_run_lists *lists,
                     cli_launch *launch)
{
    const char *secret = getenv("YOKE_SECRET");
    launch->controlled = cli_control_accept(lists->secret, sizeof lists->secret);
    launch->secret = launch->controlled ? lists->secret : secret ? secret : "";
    if (launch->controlled && !*lists->secret) {
        fprintf(stderr,
                "%s: the secret of the job has not come through stdin: YOKE_RSH must pass it on "
                "(ssh without -n)\n",
                name);
        return CLI_EXIT_UNREACHED;
    }
    if (snprintf(lists->conf, sizeof lists->conf, "%s", o->conf) >= (int)sizeof lists->conf)
        return cli_usage_error(name, "--rdzv-conf is too long");
    char *rest = lists->conf;
    for (char *pair; (pair = strsep(&rest, ","));) {
        char *value = strchr(pair, '=');
        if (value) {
            *value++ = '\0';
            value = trim(value);
        }
        pair = trim(pair);
        if (!*pair && !value)
            continue;
        if (!value || !read_conf_key(pair, value, launch))
            return cli_usage_error(name,
                                   "--rdzv-conf %s%s%s: unknown key or invalid value; there are "
                                   "secret, join_timeout, last_call_timeout (seconds) and is_host",
                                   pair, value ? "=" : "", value ? value : "");
    }
    if (strlen(launch->secret) >= 256)
        return cli_usage_error(name, "the secret is longer than 255 bytes");
    return -1;
}

static int read_endpoint(const char *name, const cli_run_options *o, cli_run_lists *lists,
                         cli_launch *launch)
{
    int port = launch->elects_host ? CLI_RUN_ELASTIC_PORT : CLI_RUN_PORT;
    if (!o->endpoint)
        return -1;
    if (!cli_net_split(o->endpoint, lists->host, sizeof lists->host, &port))
        return cli_usage_error(name, "--rdzv-endpoint %s: expected HOST:PORT", o->endpoint);
    launch->master_address = lists->host;
    launch->master_port = port;
    return -1;
}

/* Without the brackets that an IPv6 address may have, as torchrun wants it, in bare. */
static const char *bare_address(const char *text, char bare[CLI_RUN_ADDRESS])
{
    size_t length = text ? strlen(text) : 0;
    if (length < 3 || length >= CLI_RUN_ADDRESS || *text != '[' || text[length - 1] != ']')
        return text;
    snprintf(bare, CLI_RUN_ADDRESS, "%.*s", (int)length - 2, text + 1);
    return bare;
}

/* The rendezvous of several hosts; returns -1 or the exit code of a usage error. */
static int read_rendezvous(const char *name, const cli_run_options *o, cli_run_lists *lists,
                           cli_launch *launch)
{
    launch->elects_host =
        o->given_backend ? strcmp(o->backend, "c10d") == 0 : o->endpoint && !o->given_node_rank;
    launch->node_rank = launch->elects_host ? -1 : (int)o->node_rank;
    if (strlen(o->run_id) >= CLI_RUN_ID_SIZE || strchr(o->run_id, '\n'))
        return cli_usage_error(name, "--rdzv-id: expected at most %d bytes in one line",
                               CLI_RUN_ID_SIZE - 1);
    if (launch->elects_host && !o->endpoint)
        return cli_usage_error(name, "--rdzv-backend c10d requires --rdzv-endpoint HOST:PORT");
    if (!launch->elects_host && launch->nodes_min != launch->nodes_max)
        return cli_usage_error(name, "--nnodes %s requires --rdzv-backend c10d", o->nnodes);
    if (!launch->elects_host && launch->node_rank >= launch->nodes_max)
        return cli_usage_error(name, "--node-rank %d: expected less than --nnodes %d",
                               launch->node_rank, launch->nodes_max);
    if (launch->master_port == YK_PORT_ANY)
        launch->master_port = CLI_RUN_PORT;
    int code = read_endpoint(name, o, lists, launch);
    if (code >= 0)
        return code;
    if (launch->master_port == YK_PORT_ANY)
        return cli_usage_error(name, "--rdzv-endpoint %s: several hosts need a port", o->endpoint);
    return read_conf(name, o, lists, launch);
}

/*
 * The ranks of one host need no address of another one: a wrong one, or a name that is not known
 * yet, as in a job of Kubernetes with a single pod.
 */
static void use_own_address(const char *name, cli_launch *launch)
{
    static const char own[] = "127.0.0.1";
    if (cli_net_is_this_host(launch->master_address))
        return;
    fprintf(stderr, "%s: --master-addr %s is not this host, and --nnodes is 1: using %s\n", name,
            launch->master_address, own);
    launch->master_address = own;
}

/* Which hosts take part; returns -1 or the exit code of a usage error. */
static int read_hosts(const char *name, const cli_run_options *o, cli_run_lists *lists,
                      cli_launch *launch)
{
    if (!read_nodes(o->nnodes, launch))
        return cli_usage_error(name, "--nnodes %s: expected a number from 1 to %d, or MIN:MAX",
                               o->nnodes, CLI_HOSTS_MAX);
    if (o->standalone) {
        launch->nodes_min = launch->nodes_max = 1;
        launch->master_address = "127.0.0.1";
        launch->master_port = YK_PORT_ANY;
    }
    if (launch->nodes_max > 1)
        return read_rendezvous(name, o, lists, launch);
    if (o->node_rank != 0 && !o->standalone)
        return cli_usage_error(name, "--node-rank %d: expected 0, since --nnodes is 1",
                               (int)o->node_rank);
    if (!o->hosts && !o->hostfile)
        use_own_address(name, launch);
    return read_conf(name, o, lists, launch);
}

/* Where devices are listed, a rank must not take one that is not; returns -1 or an exit code. */
static int check_devices(const char *name, const cli_run_options *o, const cli_launch *launch)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (!o->virtual_local_rank || o->hosts || o->hostfile || !list || !*list)
        return -1;
    int devices = 1;
    for (const char *at = list; *at; at++)
        devices += *at == ',';
    return devices >= launch->ranks
               ? -1
               : cli_usage_error(name,
                                 "--virtual-local-rank: CUDA_VISIBLE_DEVICES=%s has no device for "
                                 "local rank %d",
                                 list, devices);
}

/* Binds the ranks of this host as --numa-binding says; returns -1 or the exit code of an error. */
static int read_binding(const char *name, const cli_run_options *o, cli_run_lists *lists,
                        cli_launch *launch)
{
    cpu_set_t allowed;
    cli_topology topology;
    char why[256];
    if (!o->numa_binding)
        return -1;
    if (o->no_pin)
        return cli_usage_error(name, "--numa-binding and --no-pin exclude each other");
    if (o->hosts || o->hostfile)
        return -1;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return cli_usage_error(name, "--numa-binding %s: the affinity of the launcher: %s",
                               o->numa_binding, strerror(errno));
    cli_topology_read(&topology, "/sys", &allowed);
    const cli_numa_request request = {
        .mode = (cli_numa_mode)cli_choice_index(CLI_NUMA_MODES, o->numa_binding),
        .topology = &topology,
        .visible_gpus = getenv("CUDA_VISIBLE_DEVICES"),
        .ranks = launch->ranks,
        .cores = yk_threads_default(1)};
    if (!cli_numa_bind(&request, lists->bindings, why, sizeof why))
        return cli_usage_error(name, "--numa-binding %s: %s", o->numa_binding, why);
    launch->bindings = lists->bindings;
    return -1;
}

int cli_run_read_lists(const char *name, const cli_run_options *o, int ranks, cli_run_lists *lists)
{
    if (!cli_logs_parse_std(o->redirects, ranks, lists->redirects))
        return cli_usage_error(name, "--redirects %s: expected 0 to 3, or LOCAL_RANK:0 to 3, ...",
                               o->redirects);
    if (!cli_logs_parse_std(o->tee, ranks, lists->tee))
        return cli_usage_error(name, "--tee %s: expected 0 to 3, or LOCAL_RANK:0 to 3, ...",
                               o->tee);
    if (o->shown && !cli_logs_parse_ranks(o->shown, ranks, lists->shown))
        return cli_usage_error(name, "--local-ranks-filter %s: expected local ranks below %d",
                               o->shown, ranks);
    return -1;
}

/* What the options say about each rank and about signals; returns -1 or the exit code of a usage
 * error. The ranks of --hosts are not known yet, and those of another host may be more than here.
 */
static int read_rest(const char *name, const cli_run_options *o, cli_run_lists *lists,
                     cli_launch *launch)
{
    if (o->signals && !parse_signals(o->signals, &launch->stop_on))
        return cli_usage_error(name,
                               "--signals-to-handle %s: expected names from SIGTERM, SIGINT, "
                               "SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2",
                               o->signals);
    if (o->hosts || o->hostfile)
        return -1;
    launch->redirects = lists->redirects;
    launch->tee = lists->tee;
    launch->shown = o->shown ? lists->shown : NULL;
    int ranks = launch->controlled ? CLI_RUN_RANKS_MAX : launch->ranks;
    return cli_run_read_lists(name, o, ranks, lists);
}

const char *cli_run_prefix_template(const cli_run_options *o)
{
    const char *variable = getenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
    return o->prefix_template && *o->prefix_template ? o->prefix_template
           : variable && *variable                   ? variable
                                                     : NULL;
}

int cli_run_read_launch(const char *name, const cli_run_options *o, cli_run_lists *lists,
                        cli_launch *launch)
{
    int code = check_run_options(name, o, lists->words);
    if (code < 0)
        code = cli_run_read_program(name, o, lists);
    if (code >= 0)
        return code;
    *launch = cli_launch_defaults();
    launch->name = name;
    launch->ranks = o->nproc.count;
    launch->program = lists->program;
    launch->master_address = bare_address(o->master_address, lists->host);
    launch->master_port = (int)o->master_port;
    launch->role = o->role;
    launch->run_id = o->run_id;
    launch->max_restarts = (int)o->max_restarts;
    launch->grace_s = o->grace_s;
    launch->no_pin = o->no_pin;
    launch->log_dir = o->log_dir;
    launch->filter_out = o->stdout_filters;
    launch->filter_err = o->stderr_filters;
    launch->prefix_template = cli_run_prefix_template(o);
    launch->local_address = bare_address(o->local_address, lists->local_address);
    launch->virtual_local_rank = o->virtual_local_rank;
    note_options_without_effect(name, o);
    code = check_devices(name, o, launch);
    if (code < 0)
        code = read_binding(name, o, lists, launch);
    if (code < 0)
        code = read_hosts(name, o, lists, launch);
    return code >= 0 ? code : read_rest(name, o, lists, launch);
}
