/*
 * See progress.h. The line is redrawn at most ten times a second and never wider than the terminal;
 * without a terminal, a plain line is printed every ten seconds. Results of an epoch are laid out
 * for 80 columns, or fewer where the terminal is narrower.
 */
#define _GNU_SOURCE
#include "common/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/duration.h"
#include "common/terminal.h"

enum { BAR = 20, LINE = 512 };

static const double REDRAW_S = 0.1, PLAIN_S = 10;

struct cli_progress {
    int64_t epochs, steps_per_epoch, max_steps;
    bool redraws;        /* the line is redrawn in place */
    double start_s;      /* when the first step counted in steps_done began */
    int64_t steps_done;  /* by this process */
    double shown_s;      /* when a line was last shown */
    bool drawn;          /* a line is on the terminal */
    double images_per_s; /* smoothed */
};

cli_progress *cli_progress_create(int64_t epochs, int64_t steps_per_epoch, int64_t max_steps)
{
    cli_progress *progress = calloc(1, sizeof *progress);
    if (!progress)
        return NULL;
    *progress = (cli_progress){.epochs = epochs,
                               .steps_per_epoch = steps_per_epoch,
                               .max_steps = max_steps,
                               .redraws = cli_terminal_redraws(),
                               .start_s = cli_clock_s(),
                               .shown_s = cli_clock_s()};
    return progress;
}

/* ---- the line -------------------------------------------------------------------------------- */

/* Seconds to the end of the run, from the pace of this process so far. */
static double time_left(const cli_progress *progress, const yk_step_record *record,
                        int64_t step_in_epoch)
{
    if (progress->steps_done == 0)
        return 0;
    double pace = (cli_clock_s() - progress->start_s) / (double)progress->steps_done;
    int64_t epochs_left = progress->epochs - record->epoch;
    int64_t steps_left =
        epochs_left * progress->steps_per_epoch + progress->steps_per_epoch - step_in_epoch;
    if (steps_left > progress->max_steps - record->step)
        steps_left = progress->max_steps - record->step;
    return pace * (double)steps_left;
}

/* printf shows the sign of a NaN, which means nothing. */
static double without_sign_if_nan(double loss)
{
    return isnan(loss) ? (double)NAN : loss;
}

static void format_bar(char bar[BAR + 1], int64_t done, int64_t all)
{
    int64_t full = all > 0 ? done * BAR / all : 0;
    for (int i = 0; i < BAR; i++)
        bar[i] = i < full ? '=' : i == full ? '>' : ' ';
    bar[BAR] = '\0';
}

/* A piece of the line. Where room is short, pieces with the highest numbers are left out first. */
typedef struct piece {
    int dispensability;
    char text[96];
} piece;

enum { PIECES = 7 };

static void set_piece(piece *made, int dispensability, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void set_piece(piece *made, int dispensability, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(made->text, sizeof made->text, format, arguments);
    va_end(arguments);
    made->dispensability = dispensability;
}

static void format_training(const cli_progress *progress, piece pieces[PIECES],
                            const yk_step_record *r, int64_t step_in_epoch)
{
    char bar[BAR + 1], left[CLI_DURATION_TEXT];
    format_bar(bar, step_in_epoch, progress->steps_per_epoch);
    set_piece(&pieces[0], 0, "epoch %lld/%lld", (long long)r->epoch, (long long)progress->epochs);
    set_piece(&pieces[1], 5, "[%s]", bar);
    set_piece(&pieces[2], 1, "%lld/%lld", (long long)step_in_epoch,
              (long long)progress->steps_per_epoch);
    set_piece(&pieces[3], 2, "loss %.4f", without_sign_if_nan(r->loss));
    set_piece(&pieces[4], 4, "%.0f images/s", progress->images_per_s);
    set_piece(&pieces[5], 3, "%s left",
              cli_duration_text(left, time_left(progress, r, step_in_epoch)));
    set_piece(&pieces[6], 6, "(ms: data %.1f, compute %.0f, waiting %.1f, exposed comm %.1f)",
              1e3 * r->data_s, 1e3 * r->compute_s, 1e3 * r->waiting_s, 1e3 * r->exposed_comm_s);
}

/* Joins the pieces that are less dispensable than the limit, two spaces apart; its length. */
static size_t join_pieces(char line[LINE], const piece *pieces, int count, int limit)
{
    size_t at = 0;
    line[0] = '\0';
    for (int i = 0; i < count; i++)
        if (pieces[i].dispensability < limit && at < LINE)
            at += (size_t)snprintf(line + at, LINE - at, "%s%s", at ? "  " : "", pieces[i].text);
    return at;
}

/* Shows as many pieces as fit, always including the least dispensable one. */
static void show_line(cli_progress *progress, const piece *pieces, int count)
{
    char line[LINE];
    int columns = progress->redraws ? cli_terminal_columns(STDERR_FILENO) - 1 : LINE;
    for (int limit = count; join_pieces(line, pieces, count, limit) > (size_t)columns && limit > 1;)
        limit--;
    if (progress->redraws)
        fprintf(stderr, "\r%.*s\033[K", columns, line);
    else
        fprintf(stderr, "%s\n", line);
    progress->drawn = progress->redraws;
    progress->shown_s = cli_clock_s();
    fflush(stderr);
}

static bool is_line_due(const cli_progress *progress)
{
    return cli_clock_s() - progress->shown_s >= (progress->redraws ? REDRAW_S : PLAIN_S);
}

static void erase_line(cli_progress *progress)
{
    if (progress->drawn)
        fputs("\r\033[K", stderr);
    progress->drawn = false;
    fflush(stderr);
}

void cli_progress_step(cli_progress *progress, const yk_step_record *record, int64_t step_in_epoch)
{
    if (!progress)
        return;
    bool first = progress->steps_done++ == 0;
    progress->images_per_s =
        first ? record->images_per_s : 0.9 * progress->images_per_s + 0.1 * record->images_per_s;
    if (!first && !is_line_due(progress))
        return;
    piece pieces[PIECES];
    format_training(progress, pieces, record, step_in_epoch);
    show_line(progress, pieces, PIECES);
}

void cli_progress_evaluation(cli_progress *progress, int64_t epoch, int64_t done, int64_t all)
{
    enum { SHOWN = 3 };
    if (!progress || !is_line_due(progress))
        return;
    char bar[BAR + 1];
    piece pieces[SHOWN];
    format_bar(bar, done, all);
    if (progress->epochs > 0)
        set_piece(&pieces[0], 0, "epoch %lld/%lld", (long long)epoch, (long long)progress->epochs);
    else
        set_piece(&pieces[0], 0, "evaluating");
    set_piece(&pieces[1], 2, "[%s]", bar);
    set_piece(&pieces[2], 1, "%s%lld/%lld", progress->epochs > 0 ? "validation " : "",
              (long long)done, (long long)all);
    show_line(progress, pieces, SHOWN);
}

/* ---- the end of an epoch --------------------------------------------------------------------- */

static void print_wrapped_after(const char *label, int indent, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void print_wrapped_after(const char *label, int indent, const char *format, ...)
{
    char line[LINE];
    int length = snprintf(line, sizeof line, "%-*s", indent, label);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + length, sizeof line - (size_t)length, format, arguments);
    va_end(arguments);
    cli_print_wrapped(stdout, line, cli_text_columns(STDOUT_FILENO), indent);
}

void cli_progress_epoch(cli_progress *progress, const yk_epoch_record *r)
{
    char took[CLI_DURATION_TEXT], label[64];
    if (!progress)
        return;
    erase_line(progress);
    if (r->epoch_s < 1)
        snprintf(took, sizeof took, "%.1f s", r->epoch_s);
    else
        cli_duration_text(took, r->epoch_s);
    int indent = snprintf(label, sizeof label, "epoch %lld/%lld  ", (long long)r->epoch,
                          (long long)progress->epochs);
    double all = r->data_s + r->compute_s + r->waiting_s + r->exposed_comm_s;
    double percent = all > 0 ? 100 / all : 0;
    print_wrapped_after(label, indent, "train loss %.4f, validation loss %.4f, accuracy %.2f %%",
                        without_sign_if_nan(r->train_loss), without_sign_if_nan(r->val_loss),
                        100 * r->val_accuracy);
    if (r->has_ema)
        print_wrapped_after("", indent, "averaged weights: loss %.4f, accuracy %.2f %%",
                            without_sign_if_nan(r->ema_val_loss), 100 * r->ema_val_accuracy);
    if (r->has_tta)
        print_wrapped_after("", indent, "with test-time augmentation: accuracy %.2f %%",
                            100 * r->tta_val_accuracy);
    print_wrapped_after("", indent,
                        "%s: data %.1f %%, compute %.1f %%, waiting %.1f %%, exposed comm %.1f %%",
                        took, percent * r->data_s, percent * r->compute_s, percent * r->waiting_s,
                        percent * r->exposed_comm_s);
    if (r->slowest_rank >= 0 && r->waited_s >= 0.05) /* less is chance, and would be 0.0 s */
        print_wrapped_after("", indent, "rank %d is slower: the other ranks waited %.1f s for it",
                            r->slowest_rank, r->waited_s);
    fflush(stdout);
}

void cli_progress_skipped(const cli_progress *progress, int64_t epoch, int64_t training,
                          int64_t validation)
{
    if (!progress || training + validation == 0)
        return;
    char label[64];
    int indent = snprintf(label, sizeof label, "epoch %lld/%lld  ", (long long)epoch,
                          (long long)progress->epochs);
    print_wrapped_after("", indent, "damaged images skipped: %lld in training, %lld in validation",
                        (long long)training, (long long)validation);
    fflush(stdout);
}

void cli_progress_destroy(cli_progress *progress)
{
    if (!progress)
        return;
    erase_line(progress);
    free(progress);
}
