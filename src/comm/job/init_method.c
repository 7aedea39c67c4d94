/*
 * Finds the rendezvous of a job from the environment and the options:
 *
 *   env://            MASTER_ADDR and MASTER_PORT: rank 0 serves the store there, unless
 *                     YOKE_USE_LAUNCHER_STORE=1 says that the launcher already does, or does so
 *                     at YOKE_STORE_PORT if that is set. What is not set is derived, if possible
 *                     (meeting_point.c)
 *   tcp://HOST:PORT   the same with the address given
 *   file:///PATH      rank 0 serves on a free port and writes the port and a new secret to PATH,
 *                     which only its user can read; removed when all ranks have joined
 *
 * With TORCHELASTIC_USE_AGENT_STORE=True, torchrun's agent listens on MASTER_PORT with its own
 * protocol. The ranks of one machine then use a file named after the agent's pid, the port and the
 * restart count; those of several machines use other ports.
 */
#define _GNU_SOURCE
#include "comm/job/init_method.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/log.h"
#include "comm/job/hostlist.h"
#include "comm/store/address.h"
#include "comm/store/client.h"
#include "comm/store/server.h"

enum { DEFAULT_TIMEOUT_S = 300, TORCHRUN_PORT = 29500, REST = 20 /* attempts */, OLD_S = 86400 };

#define LOOPBACK "127.0.0.1"

/* ---- environment and options ------------------------------------------------------- */

static yk_status read_timeout(yki_job *job, const yk_group_options *options)
{
    bool found;
    job->timeout_s = DEFAULT_TIMEOUT_S;
    if (options->timeout_s == YK_FROM_ENVIRONMENT)
        return yki_env_double("YOKE_TIMEOUT", 1e-3, 1e9, &job->timeout_s, &found);
    if (!(options->timeout_s > 0)) /* also rejects NaN */
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "timeout_s is %g, expected more than 0 seconds, or YK_FROM_ENVIRONMENT",
                         options->timeout_s);
    job->timeout_s = options->timeout_s;
    return YK_OK;
}

static yk_status check_option(const char *name, long value, long minimum, long maximum)
{
    if (value == YK_FROM_ENVIRONMENT || (value >= minimum && value <= maximum))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "%s is %ld, expected %ld to %ld, or YK_FROM_ENVIRONMENT", name, value, minimum,
                     maximum);
}

static yk_status read_ranks(yki_job *job, yki_place *place, const yk_group_options *options)
{
    YK_TRY(check_option("rank", options->rank, 0, YKI_MAX_WORLD - 1));
    YK_TRY(check_option("world_size", options->world_size, 1, YKI_MAX_WORLD));
    YK_TRY(yki_place_read(place, options->rank, options->world_size));
    job->rank = place->rank;
    job->world = job->job_world = place->world;
    job->local_rank = place->world == 1 ? 0 : place->local_rank;
    job->local_world = place->world == 1 ? 1 : place->local_world;
    if (place->source && place->rank == 0)
        YKI_INFO("rank and world size come from %s (%s, %s)", place->source, place->rank_name,
                 place->size_name);
    return YK_OK;
}

static const char *text_env(const char *name, const char *otherwise)
{
    const char *text = getenv(name);
    return text && *text ? text : otherwise;
}

/* The one port of a meeting point. */
static yk_status read_port(yki_init_method *m, const char *text, const char *where)
{
    long number;
    if (!yki_parse_int(text, 1, 65535, &number))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: expected a port from 1 to 65535, not \"%.100s\"", where, text);
    m->at.port = (int)number;
    m->at.ports = 1;
    return YK_OK;
}

static yk_status read_address(yki_init_method *m, const char *host, size_t host_size,
                              const char *port, const char *where)
{
    m->at = (yki_meeting_point){.hosts = 1};
    if (host_size == 0 || host_size >= sizeof m->at.host[0])
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: expected a host and a port from 1 to 65535", where);
    memcpy(m->at.host[0], host, host_size);
    return read_port(m, port, where);
}

static yk_status read_tcp(yki_init_method *m, const char *method)
{
    const char *host = method + strlen("tcp://"), *colon = strrchr(host, ':');
    if (!colon)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: expected tcp://HOST:PORT", method);
    return read_address(m, host, (size_t)(colon - host), colon + 1, method);
}

static const char *method_of(const yk_group_options *options)
{
    return options->init_method ? options->init_method : "env://";
}

/* Reads an init method other than env://. PyTorch's may end with a query, ?rank=0&world_size=2. */
static yk_status read_url(yki_init_method *m, const char *method)
{
    if (strchr(method, '?'))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "init method \"%s\": rank and world_size are given beside it, as options "
                         "or as RANK and WORLD_SIZE",
                         method);
    if (strncmp(method, "tcp://", 6) == 0)
        return read_tcp(m, method);
    if (strncmp(method, "file:///", 8) != 0 || strlen(method) - 7 >= sizeof m->path)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "init method \"%s\": expected env://, tcp://HOST:PORT or file:///PATH",
                         method);
    snprintf(m->path, sizeof m->path, "%s", method + 7);
    return YK_OK;
}

/*
 * Rejects a FIFO, a device or a folder: opening it could block, or rank 0 would replace it by its
 * file. A symbolic link is allowed, because rank 0 replaces it.
 */
static yk_status check_path(const yki_init_method *m)
{
    struct stat info;
    if (!m->path[0] || lstat(m->path, &info) || S_ISREG(info.st_mode) || S_ISLNK(info.st_mode))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "file://%s: this is %s, but the ranks need the path of a file, which rank 0 "
                     "creates",
                     m->path,
                     S_ISFIFO(info.st_mode)  ? "a FIFO"
                     : S_ISDIR(info.st_mode) ? "a folder"
                                             : "a device or socket");
}

/*
 * Removes the files of agents that have ended: rank 0 could not, as it was killed while it waited
 * for the others. Agents of another pid namespace may use the folder, too; their ranks have met
 * within a day.
 */
static void remove_old_files(const char *folder, const char *prefix)
{
    struct stat info;
    size_t length = strlen(prefix);
    DIR *all = opendir(folder);
    if (!all)
        return;
    for (struct dirent *entry; (entry = readdir(all));) {
        const char *name = entry->d_name;
        if (strncmp(name, prefix, length) == 0 &&
            fstatat(dirfd(all), name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            info.st_uid == geteuid() && time(NULL) - info.st_mtime > OLD_S &&
            kill(atoi(name + length), 0) && errno == ESRCH)
            unlinkat(dirfd(all), name, 0);
    }
    closedir(all);
}

/* torchrun's agent is the parent of all its ranks and holds MASTER_PORT. */
static void agent_path(yki_init_method *m, const yki_job *job)
{
    char prefix[64];
    const char *folder = text_env("XDG_RUNTIME_DIR", "/tmp");
    snprintf(prefix, sizeof prefix, "yoke-torchrun-%u-", geteuid());
    snprintf(m->path, sizeof m->path, "%s/%s%d-%s-%s", folder, prefix, getppid(),
             text_env("MASTER_PORT", "0"), text_env("TORCHELASTIC_RESTART_COUNT", "0"));
    YKI_INFO("torchrun's agent listens on MASTER_PORT: using the file %s instead", m->path);
    if (job->rank == 0)
        remove_old_files(folder, prefix);
}

static yk_status read_torchrun(yki_init_method *m, const yki_job *job)
{
    if (strcmp(text_env("GROUP_WORLD_SIZE", "1"), "1") == 0) {
        agent_path(m, job);
        return check_path(m);
    }
    YK_TRY(yki_meeting_point_of_torchrun(&m->at));
    YKI_INFO("torchrun's agent listens on MASTER_PORT: using the ports from %d instead",
             m->at.port);
    return YK_OK;
}

static yk_status refuse_unknown_address(const yki_place *place, const char *missing)
{
    if (place->mpi)
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "%s tells of %d ranks on several hosts (%s), but not where rank 0 is: "
            "yoke's module for this MPI is missing (see yoke info), or the process was "
            "started without mpirun; otherwise set MASTER_ADDR and MASTER_PORT",
            place->source, place->world, place->size_name);
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "the world size is %d but %s is not set: set MASTER_ADDR and MASTER_PORT, or "
                     "start with yoke run",
                     place->world, missing);
}

/* Of MASTER_ADDR and MASTER_PORT, one or both are not set. */
static yk_status derive_address(yki_init_method *m, const yki_place *place, const char *host,
                                const char *port)
{
    yk_status status = yki_meeting_point_derive(&m->at, place, m->deadline - yki_now());
    if (status == YK_ERROR_NOT_FOUND)
        return refuse_unknown_address(place, host ? "MASTER_PORT" : "MASTER_ADDR");
    YK_TRY(status);
    if (host) {
        snprintf(m->at.host[0], sizeof m->at.host[0], "%s", host);
        m->at.hosts = 1;
        m->at.node_count = 0;
    }
    return port ? read_port(m, port, "MASTER_PORT") : YK_OK;
}

static yk_status read_env(yki_job *job, const yki_place *place, yki_init_method *m)
{
    if (!job->launcher && strcmp(text_env("TORCHELASTIC_USE_AGENT_STORE", ""), "True") == 0)
        return read_torchrun(m, job);
    const char *host = text_env("MASTER_ADDR", NULL), *port = text_env("MASTER_PORT", NULL);
    char default_port[16];
    if (job->launcher)
        port = text_env("YOKE_STORE_PORT", port);
    snprintf(default_port, sizeof default_port, "%d", TORCHRUN_PORT);
    if (place->kubernetes && !host && (host = text_env("PET_MASTER_ADDR", NULL)))
        port = text_env("PET_MASTER_PORT", default_port);
    if (!host || !port) {
        yk_status status = derive_address(m, place, host, port);
        if (status == YK_ERROR_TIMEOUT)
            yki_error_context(status, "the ranks did not meet within %g s", job->timeout_s);
        return status;
    }
    return read_address(m, host, strlen(host), port, "MASTER_ADDR and MASTER_PORT");
}

/* The secret of a derived meeting point begins with what tells its jobs apart. */
static yk_status read_secret(yki_init_method *m)
{
    const char *secret = text_env("YOKE_SECRET", "");
    size_t most = sizeof m->secret - sizeof m->at.identity;
    if (strlen(secret) >= most)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "YOKE_SECRET is longer than %zu bytes",
                         most - 1);
    snprintf(m->secret, sizeof m->secret, "%s%s", m->at.identity, secret);
    return YK_OK;
}

/*
 * Where the launcher's store is not at MASTER_PORT, that port is left to the program, for a
 * rendezvous of PyTorch, say. A program of yoke that names it means the launcher's store, and
 * another port is one at which rank 0 serves.
 */
static yk_status find_launcher_store(yki_job *job, yki_init_method *m)
{
    const char *store = text_env("YOKE_STORE_PORT", NULL);
    long number;
    if (!store || m->path[0])
        return YK_OK;
    if (!yki_parse_int(store, 1, 65535, &number))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "YOKE_STORE_PORT %s: expected a port from 1 to 65535", store);
    job->launcher = m->at.port == number || m->at.port == atoi(text_env("MASTER_PORT", "0"));
    if (job->launcher)
        m->at.port = (int)number;
    return YK_OK;
}

bool yki_init_method_has_launcher(void)
{
    return strcmp(text_env("YOKE_USE_LAUNCHER_STORE", "0"), "1") == 0;
}

yk_status yki_init_method_read(yki_init_method *m, yki_job *job, const yki_place *place,
                               const yk_group_options *options)
{
    const char *method = method_of(options);
    job->launcher = yki_init_method_has_launcher();
    if (strcmp(method, "env://") == 0) {
        YK_TRY(read_env(job, place, m));
        return read_secret(m);
    }
    YK_TRY(read_url(m, method));
    if (job->launcher)
        YK_TRY(find_launcher_store(job, m));
    YK_TRY(read_secret(m));
    if (m->path[0])
        job->launcher = false;
    return check_path(m);
}

yk_status yki_init_method_check(const yk_group_options *options, const yki_place *place)
{
    yki_init_method unused = {.path = ""};
    const char *method = method_of(options);
    if (strcmp(method, "env://") == 0)
        return YK_OK;
    YK_TRY(read_url(&unused, method));
    if (place->source)
        return YK_OK;
    return yki_error(
        YK_ERROR_INVALID_ARGUMENT,
        "init method \"%s\": the rank and the world size are not known: give them as options, or "
        "set RANK and WORLD_SIZE",
        method);
}

yk_status yki_init_method_read_ranks(yki_job *job, yki_place *place,
                                     const yk_group_options *options)
{
    YK_TRY(read_timeout(job, options));
    return read_ranks(job, place, options);
}

/* ---- rendezvous through a file --------------------------------------------------------------- */

static yk_status write_file(const yki_init_method *m)
{
    char temporary[sizeof m->path + 32], text[64 + sizeof m->secret];
    snprintf(temporary, sizeof temporary, "%s.%d", m->path, getpid());
    int size = snprintf(text, sizeof text, "yoke-store 1 %d %s\n", m->at.port, m->secret);
    unlink(temporary);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return yki_error(YK_ERROR_IO, "cannot create %s: %s", temporary, strerror(errno));
    bool written = write(fd, text, (size_t)size) == size;
    close(fd);
    if (written && rename(temporary, m->path) == 0)
        return YK_OK;
    yk_status status = yki_error(YK_ERROR_IO, "cannot write %s: %s", m->path, strerror(errno));
    unlink(temporary);
    return status;
}

/* Returns false until there is a valid file, written by this user. */
static bool read_file(yki_init_method *m)
{
    char text[64 + sizeof m->secret] = "";
    struct stat info;
    int fd = open(m->path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool sound = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
                 read(fd, text, sizeof text - 1) > 0 &&
                 sscanf(text, "yoke-store 1 %d %255s", &m->at.port, m->secret) == 2;
    close(fd);
    return sound;
}

static yk_status serve_file(yki_init_method *m, yki_job *job)
{
    YK_TRY(yk_store_secret(m->secret, sizeof m->secret));
    m->at.port = YK_PORT_ANY;
    YK_TRY(yk_store_serve(&job->server, LOOPBACK, &m->at.port, m->secret));
    return write_file(m);
}

/* ---- serving and connecting ------------------------------------------------------------------ */

/* Serves at the first free port of a derived meeting point. */
static yk_status serve_first_free(yki_init_method *m, yki_job *job)
{
    const char *host = strcmp(m->at.host[0], LOOPBACK) == 0 ? LOOPBACK : "*";
    yk_status status = YK_ERROR_NETWORK;
    for (int i = 0; i < m->at.ports && status == YK_ERROR_NETWORK; i++) {
        int port = m->at.port + i;
        status = yk_store_serve(&job->server, host, &port, m->secret);
        if (status == YK_OK) {
            m->at.port = port;
            m->at.ports = 1;
        }
    }
    return status;
}

static void warn_without_secret(const yki_init_method *m, const yki_job *job)
{
    if (!*text_env("YOKE_SECRET", "") && !m->at.secret && yki_store_server_is_public(job->server))
        YKI_WARN("YOKE_SECRET is not set: any program that reaches port %d of this host can join "
                 "the job; set it to the same text for all ranks",
                 m->at.port);
}

yk_status yki_init_method_serve(yki_init_method *m, yki_job *job)
{
    if (m->path[0])
        return serve_file(m, job);
    if (m->at.ports > 1 || m->at.node_count > 0)
        YK_TRY(serve_first_free(m, job));
    else
        YK_TRY(yk_store_serve(&job->server, m->at.host[0], &m->at.port, m->secret));
    warn_without_secret(m, job);
    return YK_OK;
}

/* Looks at all ports of one host, of which there are several if they were derived. */
static yk_status search_host(yki_init_method *m, yki_job *job, const char *host)
{
    bool again = false;
    yk_status status = YK_ERROR_TIMEOUT;
    snprintf(m->found, sizeof m->found, "%s", host);
    for (int i = 0; i < m->at.ports && status != YK_OK && status != YK_ERROR_NOT_FOUND; i++) {
        m->found_port = m->at.port + i;
        status = yki_store_attempt(&job->store, host, m->found_port, m->secret, &again);
    }
    /* At a derived port there may be anything, such as the store of another job. */
    bool retry = m->at.ports > 1 || m->at.hosts > 1 || m->at.node_count > 0 || again;
    return status == YK_OK || status == YK_ERROR_NOT_FOUND || !retry ? status : YK_ERROR_TIMEOUT;
}

/* Where there are two hosts, a name that is not known costs time: it is rarely looked up again. */
static yk_status search(yki_init_method *m, yki_job *job)
{
    yk_status status = YK_ERROR_NOT_FOUND, result = YK_ERROR_NOT_FOUND;
    for (int host = 0; host < m->at.hosts && status != YK_OK; host++) {
        bool skipped = m->at.hosts > 1 && m->rest[host] > 0;
        m->rest[host] -= skipped;
        if (skipped)
            continue;
        status = search_host(m, job, m->at.host[host]);
        m->rest[host] = status == YK_ERROR_NOT_FOUND ? REST : 0;
        if (status != YK_ERROR_NOT_FOUND)
            result = status;
    }
    for (int node = 1; node < m->at.node_count && status != YK_OK; node++) {
        char host[sizeof m->at.host[0]];
        YK_TRY(yki_hostlist_get(host, sizeof host, m->at.nodes, node));
        status = search_host(m, job, host);
        if (status != YK_ERROR_NOT_FOUND)
            result = status;
    }
    return result;
}

static yk_status connect_through_file(yki_init_method *m, yki_job *job)
{
    bool again;
    if (!read_file(m))
        return yki_error(YK_ERROR_TIMEOUT, "there is no such file yet");
    snprintf(m->found, sizeof m->found, LOOPBACK);
    m->found_port = m->at.port;
    if (yki_store_attempt(&job->store, LOOPBACK, m->at.port, m->secret, &again) == YK_OK)
        return YK_OK;
    return YK_ERROR_TIMEOUT; /* a stale file */
}

yk_status yki_init_method_connect(yki_init_method *m, yki_job *job)
{
    return m->path[0] ? connect_through_file(m, job) : search(m, job);
}

void yki_init_method_describe(const yki_init_method *m, char *text, size_t size)
{
    char at[YKI_ENDPOINT_TEXT], ports[32];
    int last = m->at.port + m->at.ports - 1;
    snprintf(ports, sizeof ports, m->at.ports == 1 ? "port %d" : "ports %d to %d", m->at.port,
             last);
    if (m->path[0])
        snprintf(text, size, "through the file %.200s", m->path);
    else if (m->at.node_count > 0)
        snprintf(text, size, "on one of %.200s, %s", m->at.nodes, ports);
    else if (m->at.ports == 1)
        snprintf(text, size, "at %.210s", yki_endpoint_text(at, m->at.host[0], m->at.port));
    else
        snprintf(text, size, "at %.200s, %s", m->at.host[0], ports);
}
