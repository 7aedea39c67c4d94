/*
 * One file over the network, by libcurl: resumed where it stopped, given up when nobody answers
 * within 10 s or nothing comes for 30 s. The only file that includes curl.
 */
#define _GNU_SOURCE
#include "data/download.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

enum { CONNECT_S = 10, STALL_S = 30, MAX_BYTES = 1 << 30 };

/* ---- progress ----------------------------------------------------------------------------------
 */

typedef struct progress {
    double start, shown_at;
    curl_off_t before; /* bytes that lay there already */
    int tenth;         /* last shown, where stderr is no terminal */
    bool terminal, shown;
} progress;

static void show(progress *meter, curl_off_t total, curl_off_t now)
{
    double seconds = yki_now() - meter->start, rate = seconds > 0 ? (double)now / seconds : 0;
    double done = (double)(meter->before + now), all = (double)(meter->before + total);
    dprintf(STDERR_FILENO, "%scifar10: %3.0f %% of %.0f MB, %.1f MB/s, %.0f s left%s",
            meter->terminal ? "\r" : "", 100 * done / all, all / 1e6, rate / 1e6,
            rate > 0 ? (double)(total - now) / rate : 0.0, meter->terminal ? "   " : "\n");
    meter->shown = true;
}

/* Called by libcurl a few times a second: a line that is overwritten, or one line a tenth. */
static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up_now)
{
    (void)up_total, (void)up_now;
    progress *meter = user;
    if (total <= 0)
        return 0;
    int tenth = (int)(10 * (meter->before + now) / (meter->before + total));
    bool due =
        meter->terminal ? yki_now() - meter->shown_at > 0.2 || now == total : tenth > meter->tenth;
    if (due) {
        meter->shown_at = yki_now();
        meter->tenth = tenth;
        show(meter, total, now);
    }
    return 0;
}

/* ---- one transfer ------------------------------------------------------------------------------
 */

static size_t on_data(char *data, size_t one, size_t count, void *user)
{
    (void)one;
    int fd = *(int *)user;
    for (size_t done = 0; done < count;) {
        ssize_t wrote = write(fd, data + done, count - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return 0; /* libcurl reports CURLE_WRITE_ERROR; errno says why */
        done += (size_t)wrote;
    }
    return count;
}

/* libcurl's own sockets would be inherited by programs that we start. */
static curl_socket_t on_open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)user, (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void initialise_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static CURL *new_transfer(const char *url, int *fd, progress *meter, char *reason)
{
    pthread_once(&curl_once, initialise_curl);
    CURL *curl = curl_easy_init();
    if (!curl)
        return NULL;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "yoke");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
    curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)MAX_BYTES);
    curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, meter->before);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, fd);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, meter);
    return curl;
}

/* Appends to the open file from byte `before` on. */
static CURLcode transfer(const char *url, int fd, curl_off_t before, char reason[CURL_ERROR_SIZE])
{
    progress meter = {.start = yki_now(), .before = before, .terminal = isatty(STDERR_FILENO) == 1};
    CURL *curl = new_transfer(url, &fd, &meter, reason);
    if (!curl)
        return CURLE_OUT_OF_MEMORY;
    errno = 0;
    CURLcode code = curl_easy_perform(curl);
    int error = errno;
    long answer = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer);
    curl_easy_cleanup(curl);
    if (meter.shown && meter.terminal)
        dprintf(STDERR_FILENO, "\n");
    if (code == CURLE_WRITE_ERROR && error)
        snprintf(reason, CURL_ERROR_SIZE, "cannot write: %s", strerror(error));
    if (!reason[0])
        snprintf(reason, CURL_ERROR_SIZE, "%s", curl_easy_strerror(code));
    /* 416: nothing comes after what we have, so what we have is of no use to go on from. */
    return code == CURLE_HTTP_RETURNED_ERROR && answer == 416 ? CURLE_RANGE_ERROR : code;
}

yk_status yki_fetch(const char *url, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    char reason[CURL_ERROR_SIZE] = "";
    struct stat info = {0};
    fstat(fd, &info);
    CURLcode code = transfer(url, fd, info.st_size, reason);
    bool cannot_resume = code == CURLE_RANGE_ERROR || code == CURLE_BAD_DOWNLOAD_RESUME;
    if (cannot_resume && info.st_size > 0 && ftruncate(fd, 0) == 0) {
        reason[0] = '\0';
        code = transfer(url, fd, 0, reason);
    }
    yk_status status = YK_OK;
    if (code == CURLE_WRITE_ERROR)
        status = yki_error(YK_ERROR_IO, "%s: %s", path, reason);
    else if (code != CURLE_OK)
        status = yki_error(YK_ERROR_NETWORK, "%s: %s", url, reason);
    else if (fsync(fd) != 0)
        status = yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    close(fd);
    return status;
}
