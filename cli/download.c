/* See download.h: redraws one line on a terminal; elsewhere prints a line per tenth. */
#define _GNU_SOURCE
#include "download.h"

#include <stdio.h>
#include <sys/stat.h>

#include "clock.h"
#include "terminal.h"

typedef struct download_meter {
    double start_s, shown_s;
    int64_t first; /* bytes that were there before this attempt; -1 until the first report */
    int tenth;     /* last shown, where lines are not redrawn */
    bool redraws, drawn;
} download_meter;

static void show_meter(download_meter *meter, int64_t done, int64_t total)
{
    double seconds = cli_clock_s() - meter->start_s;
    double rate = seconds > 0 ? (double)(done - meter->first) / seconds : 0;
    fprintf(stderr, "%scifar10: %3.0f %% of %.0f MB, %.1f MB/s, %.0f s left%s",
            meter->redraws ? "\r" : "", 100 * (double)done / (double)total, (double)total / 1e6,
            rate / 1e6, rate > 0 ? (double)(total - done) / rate : 0.0,
            meter->redraws ? "\033[K" : "\n");
    fflush(stderr);
    meter->drawn = meter->redraws;
}

static void show_progress(void *user, int64_t done, int64_t total)
{
    download_meter *meter = user;
    int tenth = (int)(10 * done / total);
    if (meter->first < 0) {
        meter->first = done;
        meter->tenth = tenth;
    }
    double now = cli_clock_s();
    bool due = meter->redraws ? now - meter->shown_s > 0.2 || done == total : tenth > meter->tenth;
    if (!due)
        return;
    meter->shown_s = now;
    meter->tenth = tenth;
    show_meter(meter, done, total);
}

/* "cifar10" means the cached download, but the user may have meant a folder of that name. */
static void mention_folder(void)
{
    struct stat info;
    if (stat("cifar10", &info) == 0 && S_ISDIR(info.st_mode))
        fprintf(stderr, "yoke: cifar10 means the data set in the cache; to use the folder of that "
                        "name, write ./cifar10\n");
}

yk_status cli_cifar10_download(char *path, size_t path_size)
{
    mention_folder();
    download_meter meter = {
        .start_s = cli_clock_s(), .first = -1, .redraws = cli_terminal_redraws()};
    yk_download_options options = YK_DOWNLOAD_OPTIONS_INIT;
    options.progress = show_progress;
    options.user = &meter;
    yk_status status = yk_cifar10_download(path, path_size, &options);
    if (meter.drawn)
        fputc('\n', stderr);
    return status;
}
