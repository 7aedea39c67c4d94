/* See download.h: redraws one line on a terminal; elsewhere prints a line per tenth. */
#define _GNU_SOURCE
#include "setup/download.h"

#include <stdio.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/terminal.h"

typedef struct download_meter {
    double start_s, shown_s;
    int64_t first; /* bytes that were there before this attempt */
    int tenth;     /* last shown, where lines are not redrawn */
    bool redraws, drawn;
    int64_t total;    /* of the file that is arriving */
    const char *name; /* of the data */
} download_meter;

static void show_meter(download_meter *meter, int64_t done, int64_t total)
{
    double seconds = cli_clock_s() - meter->start_s;
    double rate = seconds > 0 ? (double)(done - meter->first) / seconds : 0;
    fprintf(stderr, "%s%s: %3.0f %% of %.0f MB, %.1f MB/s, %.0f s left%s",
            meter->redraws ? "\r" : "", meter->name, 100 * (double)done / (double)total,
            (double)total / 1e6, rate / 1e6, rate > 0 ? (double)(total - done) / rate : 0.0,
            meter->redraws ? "\033[K" : "\n");
    fflush(stderr);
    meter->drawn = meter->redraws;
}

static void show_progress(void *user, int64_t done, int64_t total)
{
    download_meter *meter = user;
    int tenth = (int)(10 * done / total);
    double now = cli_clock_s();
    if (meter->total != total) { /* the first report of a file */
        *meter = (download_meter){.start_s = now,
                                  .first = done,
                                  .tenth = tenth,
                                  .redraws = meter->redraws,
                                  .drawn = meter->drawn,
                                  .total = total,
                                  .name = meter->name};
    }
    bool due = meter->redraws ? now - meter->shown_s > 0.2 || done == total : tenth > meter->tenth;
    if (!due)
        return;
    meter->shown_s = now;
    meter->tenth = tenth;
    show_meter(meter, done, total);
}

/* "cifar10" means the cached download, but the user may have meant a folder of that name. */
static void mention_folder(const char *name)
{
    struct stat info;
    if (stat(name, &info) == 0 && S_ISDIR(info.st_mode))
        fprintf(stderr,
                "yoke: %s means the data set in the cache; to use the folder of that name, write "
                "./%s\n",
                name, name);
}

yk_status cli_download(char *path, size_t path_size, const char *name)
{
    mention_folder(name);
    download_meter meter = {.redraws = cli_terminal_redraws(), .name = name};
    yk_download_options options = YK_DOWNLOAD_OPTIONS_INIT;
    options.progress = show_progress;
    options.user = &meter;
    yk_status status = yk_download_data(path, path_size, name, &options);
    if (meter.drawn)
        fputc('\n', stderr);
    return status;
}
