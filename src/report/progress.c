/*
 * The progress line. On a terminal it is redrawn in place on stderr, at most ten times a second and
 * never wider than the terminal; elsewhere a plain line is printed every ten seconds. Under a
 * launcher that owns the terminal, YOKE_TERMINAL gives its columns.
 */
#define _GNU_SOURCE
#include <yoke/report.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/memory.h"

enum { BAR = 20, LINE = 512 };

static const double REDRAW_S = 0.1, PLAIN_S = 10;

struct yk_progress {
    int64_t epochs, steps_per_epoch, max_steps;
    bool terminal;
    int columns;         /* given by YOKE_TERMINAL; 0: ask the terminal */
    double start_s;      /* of the steps counted below */
    int64_t steps_done;  /* since start_s */
    double shown_s;      /* when the line was last drawn */
    bool drawn;          /* a line stands on the terminal */
    double images_per_s; /* smoothed */
};

yk_status yk_progress_create(yk_progress **progress, int64_t epochs, int64_t steps_per_epoch,
                             int64_t max_steps)
{
    *progress = NULL;
    long columns = 0;
    bool given;
    YK_TRY(yki_env_int("YOKE_TERMINAL", 0, 10000, &columns, &given));
    yk_progress *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "the progress line");
    *made = (yk_progress){.epochs = epochs,
                          .steps_per_epoch = steps_per_epoch,
                          .max_steps = max_steps,
                          .terminal = given || isatty(STDERR_FILENO),
                          .columns = (int)columns,
                          .start_s = yki_now(),
                          .shown_s = yki_now()};
    *progress = made;
    return YK_OK;
}

static int terminal_columns(const yk_progress *progress)
{
    struct winsize size;
    if (progress->columns)
        return progress->columns;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        return size.ws_col;
    const char *columns = getenv("COLUMNS");
    long given;
    return columns && yki_parse_int(columns, 2, 10000, &given) ? (int)given : 80;
}

/* ---- the line -------------------------------------------------------------------------------- */

/* "47 s", "3:05 min" or "2:03 h". */
static void format_duration(char *text, size_t size, double seconds)
{
    long s = seconds > 0 ? (long)(seconds + 0.5) : 0;
    if (s < 60)
        snprintf(text, size, "%ld s", s);
    else if (s < 3600)
        snprintf(text, size, "%ld:%02ld min", s / 60, s % 60);
    else
        snprintf(text, size, "%ld:%02ld h", s / 3600, s / 60 % 60);
}

/* Seconds to the end of the run, from the pace of this process so far. */
static double time_left(const yk_progress *progress, const yk_step_record *record,
                        int64_t step_in_epoch)
{
    if (progress->steps_done == 0)
        return 0;
    double pace = (yki_now() - progress->start_s) / (double)progress->steps_done;
    int64_t epochs_left = progress->epochs - record->epoch;
    int64_t steps_left =
        epochs_left * progress->steps_per_epoch + progress->steps_per_epoch - step_in_epoch;
    if (progress->max_steps && steps_left > progress->max_steps - record->step)
        steps_left = progress->max_steps - record->step;
    return pace * (double)steps_left;
}

/* A NaN has a sign, which printf shows. */
static double without_sign_if_nan(double loss)
{
    return isnan(loss) ? (double)NAN : loss;
}

static void format_bar(char *bar, int64_t done, int64_t all)
{
    int64_t full = all > 0 ? done * BAR / all : 0;
    for (int i = 0; i < BAR; i++)
        bar[i] = i < full ? '=' : i == full ? '>' : ' ';
    bar[BAR] = '\0';
}

/* A piece of the line; where room is short, those of the highest rank go first. */
typedef struct piece {
    int rank;
    char text[96];
} piece;

enum { PIECES = 7 };

static void format_pieces(const yk_progress *progress, piece pieces[PIECES],
                          const yk_step_record *r, int64_t step_in_epoch)
{
    char bar[BAR + 1], left[32];
    format_bar(bar, step_in_epoch, progress->steps_per_epoch);
    format_duration(left, sizeof left, time_left(progress, r, step_in_epoch));
    for (int i = 0; i < PIECES; i++)
        pieces[i].rank = (const int[PIECES]){0, 5, 1, 2, 4, 3, 6}[i];
    enum { SIZE = sizeof pieces->text };
    snprintf(pieces[0].text, SIZE, "epoch %lld/%lld", (long long)r->epoch,
             (long long)progress->epochs);
    snprintf(pieces[1].text, SIZE, "[%s]", bar);
    snprintf(pieces[2].text, SIZE, "%lld/%lld", (long long)step_in_epoch,
             (long long)progress->steps_per_epoch);
    snprintf(pieces[3].text, SIZE, "loss %.4f", without_sign_if_nan(r->loss));
    snprintf(pieces[4].text, SIZE, "%.0f images/s", progress->images_per_s);
    snprintf(pieces[5].text, SIZE, "%s left", left);
    snprintf(pieces[6].text, SIZE, "(ms: data %.1f, compute %.0f, exposed comm %.1f)",
             1e3 * r->data_s, 1e3 * r->compute_s, 1e3 * r->exposed_comm_s);
}

/* Joins the pieces of a rank below the limit, two spaces apart; returns the length. */
static size_t join(char line[LINE], const piece pieces[PIECES], int limit)
{
    size_t at = 0;
    line[0] = '\0';
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].rank < limit && at < LINE)
            at += (size_t)snprintf(line + at, LINE - at, "%s%s", at ? "  " : "", pieces[i].text);
    return at;
}

/* As many pieces as fit into the columns, the first one in any case. */
static void format_line(const yk_progress *progress, char line[LINE], const yk_step_record *r,
                        int64_t step_in_epoch, size_t columns)
{
    piece pieces[PIECES];
    format_pieces(progress, pieces, r, step_in_epoch);
    for (int limit = PIECES; join(line, pieces, limit) > columns && limit > 1;)
        limit--;
}

static void erase(yk_progress *progress)
{
    if (progress->drawn)
        fputs("\r\033[K", stderr);
    progress->drawn = false;
}

void yk_progress_step(yk_progress *progress, const yk_step_record *record, int64_t step_in_epoch)
{
    double now = yki_now();
    progress->steps_done++;
    bool first = progress->images_per_s == 0;
    progress->images_per_s =
        first ? record->images_per_s : 0.9 * progress->images_per_s + 0.1 * record->images_per_s;
    if (!first && now - progress->shown_s < (progress->terminal ? REDRAW_S : PLAIN_S))
        return;
    progress->shown_s = now;
    char line[LINE];
    int columns = progress->terminal ? terminal_columns(progress) - 1 : LINE;
    format_line(progress, line, record, step_in_epoch, (size_t)columns);
    if (progress->terminal) {
        fprintf(stderr, "\r%.*s\033[K", columns, line);
        progress->drawn = true;
    } else {
        fprintf(stderr, "%s\n", line);
    }
    fflush(stderr);
}

/* ---- the end of an epoch --------------------------------------------------------------------- */

void yk_progress_epoch(yk_progress *progress, const yk_epoch_record *r)
{
    char took[32];
    format_duration(took, sizeof took, r->epoch_s);
    erase(progress);
    fflush(stderr);
    double all = r->data_s + r->compute_s + r->exposed_comm_s;
    double share = all > 0 ? 100 / all : 0;
    char average[64] = "";
    if (r->has_ema)
        snprintf(average, sizeof average, "  averaged %.2f %%", 100 * r->ema_val_accuracy);
    printf("epoch %lld/%lld  train loss %.4f  validation loss %.4f  accuracy %.2f %%%s  %s  "
           "(data %.1f %%, compute %.1f %%, exposed comm %.1f %%)\n",
           (long long)r->epoch, (long long)progress->epochs, without_sign_if_nan(r->train_loss),
           without_sign_if_nan(r->val_loss), 100 * r->val_accuracy, average, took,
           share * r->data_s, share * r->compute_s, share * r->exposed_comm_s);
    fflush(stdout);
}

void yk_progress_destroy(yk_progress *progress)
{
    if (!progress)
        return;
    erase(progress);
    fflush(stderr);
    free(progress);
}
