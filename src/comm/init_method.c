/*
 * Finds the rendezvous of a job from the environment and the options:
 *
 *   env://            RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: rank 0 serves the store there,
 *                     unless YOKE_USE_LAUNCHER_STORE=1 says that the launcher already does
 *   tcp://HOST:PORT   the same with the address given; rank and world size from the options or
 *                     from RANK and WORLD_SIZE
 *   file:///PATH      rank 0 serves on a free port and writes the port and a new secret to PATH,
 *                     which only its user can read; removed when all ranks have joined
 *
 * With TORCHELASTIC_USE_AGENT_STORE=True, torchrun's agent listens on MASTER_PORT with its own
 * protocol. The ranks of one machine then use a file named after the agent's pid, the port and the
 * restart count.
 */
#define _GNU_SOURCE
#include "comm/init_method.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/log.h"

enum { DEFAULT_TIMEOUT_S = 300, MAX_WORLD = 1 << 16 };

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

static yk_status read_ranks(yki_job *job, const yk_group_options *options)
{
    long rank = options->rank, world = options->world_size;
    bool has_rank = true, has_world = true;
    if (world == YK_FROM_ENVIRONMENT)
        YK_TRY(yki_env_int("WORLD_SIZE", 1, MAX_WORLD, &world, &has_world));
    if (rank == YK_FROM_ENVIRONMENT)
        YK_TRY(yki_env_int("RANK", 0, MAX_WORLD - 1, &rank, &has_rank));
    if (has_rank != has_world)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s is set but %s is not",
                         has_rank ? "RANK" : "WORLD_SIZE", has_rank ? "WORLD_SIZE" : "RANK");
    if (!has_world) {
        YK_TRY(yk_group_check_launcher());
        rank = 0;
        world = 1;
    }
    if (world < 1 || world > MAX_WORLD || rank < 0 || rank >= world)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "rank %ld of a world of %ld: RANK counts from 0, WORLD_SIZE from 1", rank,
                         world);
    job->rank = (int)rank;
    job->world = (int)world;
    return YK_OK;
}

/* Reads LOCAL_RANK and LOCAL_WORLD_SIZE; without them, all ranks are assumed to be on this machine.
 */
static yk_status read_local_ranks(yki_job *job)
{
    long rank = job->rank, world = job->world;
    bool has_rank, has_world;
    YK_TRY(yki_env_int("LOCAL_RANK", 0, MAX_WORLD - 1, &rank, &has_rank));
    YK_TRY(yki_env_int("LOCAL_WORLD_SIZE", 1, MAX_WORLD, &world, &has_world));
    if (!has_rank && job->world > 1)
        YKI_INFO("LOCAL_RANK is not set: using rank %d of %d as the local rank too", job->rank,
                 job->world);
    if (rank >= world)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "LOCAL_RANK %ld of LOCAL_WORLD_SIZE %ld", rank,
                         world);
    job->local_rank = (int)rank;
    job->local_world = (int)world;
    return YK_OK;
}

static const char *text_env(const char *name, const char *otherwise)
{
    const char *text = getenv(name);
    return text && *text ? text : otherwise;
}

static yk_status read_address(yki_init_method *m, const char *host, size_t host_size,
                              const char *port, const char *where)
{
    long number;
    if (host_size == 0 || host_size >= sizeof m->host || !yki_parse_int(port, 1, 65535, &number))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: expected a host and a port from 1 to 65535", where);
    memcpy(m->host, host, host_size);
    m->host[host_size] = '\0';
    m->port = (int)number;
    return YK_OK;
}

static yk_status read_tcp(yki_init_method *m, const char *method)
{
    const char *host = method + strlen("tcp://"), *colon = strrchr(host, ':');
    if (!colon)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: expected tcp://HOST:PORT", method);
    return read_address(m, host, (size_t)(colon - host), colon + 1, method);
}

/* Reads an init method other than env://. */
static yk_status read_url(yki_init_method *m, const char *method)
{
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

/* torchrun's agent is the parent of all its ranks and holds MASTER_PORT. */
static void agent_path(yki_init_method *m)
{
    snprintf(m->path, sizeof m->path, "%s/yoke-torchrun-%u-%d-%s-%s",
             text_env("XDG_RUNTIME_DIR", "/tmp"), geteuid(), getppid(),
             text_env("MASTER_PORT", "0"), text_env("TORCHELASTIC_RESTART_COUNT", "0"));
    YKI_INFO("torchrun's agent listens on MASTER_PORT: using the file %s instead", m->path);
}

static yk_status read_env(yki_job *job, yki_init_method *m)
{
    if (!job->launcher && strcmp(text_env("TORCHELASTIC_USE_AGENT_STORE", ""), "True") == 0) {
        agent_path(m);
        return check_path(m);
    }
    const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    if (!host || !*host || !port || !*port)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "WORLD_SIZE is %d but %s is not set: set MASTER_ADDR and MASTER_PORT, or "
                         "start with yoke run",
                         job->world, host && *host ? "MASTER_PORT" : "MASTER_ADDR");
    return read_address(m, host, strlen(host), port, "MASTER_ADDR and MASTER_PORT");
}

yk_status yki_init_method_read(yki_init_method *m, yki_job *job, const yk_group_options *options)
{
    const char *method = options->init_method ? options->init_method : "env://";
    const char *secret = text_env("YOKE_SECRET", "");
    if (strlen(secret) >= sizeof m->secret)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "YOKE_SECRET is longer than %zu bytes",
                         sizeof m->secret - 1);
    snprintf(m->secret, sizeof m->secret, "%s", secret);
    job->launcher = strcmp(text_env("YOKE_USE_LAUNCHER_STORE", "0"), "1") == 0;
    if (strncmp(method, "env://", 6) == 0)
        return read_env(job, m);
    YK_TRY(read_url(m, method));
    if (m->path[0])
        job->launcher = false;
    return check_path(m);
}

yk_status yki_init_method_check(const yk_group_options *options)
{
    yki_init_method unused = {.path = ""};
    const char *method = options->init_method ? options->init_method : "env://";
    return strncmp(method, "env://", 6) == 0 ? YK_OK : read_url(&unused, method);
}

yk_status yki_init_method_read_ranks(yki_job *job, const yk_group_options *options)
{
    YK_TRY(read_timeout(job, options));
    YK_TRY(read_ranks(job, options));
    return read_local_ranks(job);
}

/* ---- rendezvous through a file --------------------------------------------------------------- */

static yk_status write_file(const yki_init_method *m)
{
    char temporary[sizeof m->path + 32], text[64 + sizeof m->secret];
    snprintf(temporary, sizeof temporary, "%s.%d", m->path, getpid());
    int size = snprintf(text, sizeof text, "yoke-store 1 %d %s\n", m->port, m->secret);
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

bool yki_init_method_read_file(yki_init_method *m)
{
    char text[64 + sizeof m->secret] = "";
    struct stat info;
    int fd = open(m->path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool sound = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
                 read(fd, text, sizeof text - 1) > 0 &&
                 sscanf(text, "yoke-store 1 %d %255s", &m->port, m->secret) == 2;
    close(fd);
    snprintf(m->host, sizeof m->host, "127.0.0.1");
    return sound;
}

yk_status yki_init_method_serve(yki_init_method *m, yki_job *job)
{
    YK_TRY(yk_store_secret(m->secret, sizeof m->secret));
    snprintf(m->host, sizeof m->host, "127.0.0.1");
    m->port = 0;
    YK_TRY(yk_store_serve(&job->server, m->host, &m->port, m->secret));
    return write_file(m);
}
