/*
 * Fetches one file over the network with libcurl. An interrupted transfer is resumed; one that does
 * not connect within 10 s, receives nothing for 30 s, or does not end within 1 GiB, is given up.
 */
#define _GNU_SOURCE
#include "data/download/download.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/transfer.h"
#include "io/atomic_file.h"

enum { CONNECT_S = 10, STALL_S = 30, MAX_BYTES = 1 << 30 };

/* ---- progress ------------------------------------------------------------------------------- */

typedef struct progress {
    const yk_download_options *options;
    curl_off_t before; /* bytes that an earlier attempt has left */
} progress;

/* Called by libcurl a few times a second. */
static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up_now)
{
    (void)up_total, (void)up_now;
    const progress *meter = user;
    if (total > 0 && meter->options->progress)
        meter->options->progress(meter->options->user, meter->before + now, meter->before + total);
    return 0;
}

/* ---- one transfer --------------------------------------------------------------------------- */

typedef struct sink {
    int fd;
    curl_off_t left; /* bytes that it still takes; -1: there were more */
} sink;

/* libcurl itself only limits files whose size the server tells. */
static size_t on_data(char *data, size_t one, size_t count, void *user)
{
    (void)one;
    sink *s = user;
    s->left = (curl_off_t)count <= s->left ? s->left - (curl_off_t)count : -1;
    if (s->left < 0)
        return 0; /* libcurl reports CURLE_WRITE_ERROR */
    for (size_t done = 0; done < count;) {
        ssize_t wrote = write(s->fd, data + done, count - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return 0; /* errno says why */
        done += (size_t)wrote;
    }
    return count;
}

static CURL *new_transfer(const char *url, sink *to, progress *meter, char *reason)
{
    CURL *curl = yki_transfer_create(url, CONNECT_S, reason);
    if (!curl)
        return NULL;
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
    curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)MAX_BYTES);
    curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, meter->before);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, to);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, meter);
    return curl;
}

/* Appends to the open file from byte `before` on. */
static CURLcode transfer(const char *url, int fd, curl_off_t before,
                         const yk_download_options *options, char reason[CURL_ERROR_SIZE])
{
    progress meter = {.options = options, .before = before};
    sink to = {.fd = fd, .left = before < MAX_BYTES ? MAX_BYTES - before : 0};
    CURL *curl = new_transfer(url, &to, &meter, reason);
    if (!curl)
        return CURLE_OUT_OF_MEMORY;
    errno = 0;
    CURLcode code = curl_easy_perform(curl);
    int error = errno;
    long answer = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer);
    curl_easy_cleanup(curl);
    if (to.left < 0) {
        snprintf(reason, CURL_ERROR_SIZE, "it has more than %d bytes", MAX_BYTES);
        return CURLE_FILESIZE_EXCEEDED;
    }
    if (code == CURLE_WRITE_ERROR && error)
        snprintf(reason, CURL_ERROR_SIZE, "cannot write: %s", strerror(error));
    if (!reason[0])
        snprintf(reason, CURL_ERROR_SIZE, "%s", curl_easy_strerror(code));
    /* 416: the source has no such range, so what we have is not the beginning of it. */
    return code == CURLE_HTTP_RETURNED_ERROR && answer == 416 ? CURLE_RANGE_ERROR : code;
}

bool yk_download_supported(void)
{
    return true;
}

yk_status yki_fetch(const char *url, const char *path, const yk_download_options *options)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    char reason[CURL_ERROR_SIZE] = "";
    struct stat info = {0};
    fstat(fd, &info);
    CURLcode code = transfer(url, fd, info.st_size, options, reason);
    bool cannot_resume = code == CURLE_RANGE_ERROR || code == CURLE_BAD_DOWNLOAD_RESUME;
    if (cannot_resume && info.st_size > 0 && ftruncate(fd, 0) == 0) {
        reason[0] = '\0';
        code = transfer(url, fd, 0, options, reason);
    }
    yk_status status = YK_OK;
    if (code == CURLE_FILESIZE_EXCEEDED && ftruncate(fd, 0)) /* so that nothing is resumed */
        unlink(path);
    if (code == CURLE_WRITE_ERROR)
        status = yki_error(YK_ERROR_IO, "%s: %s", path, reason);
    else if (code != CURLE_OK)
        status = yki_error(YK_ERROR_NETWORK, "%s: %s", url, reason);
    else if (!yki_sync_file(fd))
        status = yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    close(fd);
    return status;
}
