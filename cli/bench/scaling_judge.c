/*
 * Decides which measurements of a scaling table are reliable. On a busy machine, the table would
 * show speed-ups that no hardware can give. A row is unreliable if other processes took CPU time
 * that it needed, if its repeats differ too much, or if its speed-up is impossible.
 */
#include <math.h>
#include <stdlib.h>

#include "bench/scaling.h"

static const double MOST_CONTENTION = 0.25; /* demand for cores beyond those available */
static const double MOST_SPREAD = 1.5;      /* the fastest repeat over the slowest */
static const double MOST_EFFICIENCY = 1.3;  /* caches add up, so slightly more than 1 is possible */

static int compare_pace(const void *a, const void *b)
{
    double x = ((const cli_scaling_result *)a)->images_per_s;
    double y = ((const cli_scaling_result *)b)->images_per_s;
    return (x > y) - (x < y);
}

/* Whether the row's threads and other processes together needed more cores than available. */
static bool was_contended(const cli_scaling *s, const cli_scaling_row *row)
{
    const cli_scaling_result *r = &row->result;
    double wanted = fmin(row->ranks * (double)s->options.threads, s->cores);
    double others = r->wall_s > 0 ? r->others_s / r->wall_s : 0;
    return wanted + others > s->cores + MOST_CONTENTION;
}

/* The results are sorted by pace. */
static const char *judge_row(const cli_scaling *s, const cli_scaling_row *row)
{
    const cli_scaling_result *slowest = &row->results[0];
    const cli_scaling_result *fastest = &row->results[s->options.repeats - 1];
    if (!(slowest->images_per_s > 0) || !isfinite(fastest->images_per_s))
        return "nothing was measured";
    if (was_contended(s, row))
        return "other programs used its cores";
    if (fastest->images_per_s > MOST_SPREAD * slowest->images_per_s)
        return "its repeats differ by more than half";
    if (row->speed_up > MOST_EFFICIENCY * row->ranks)
        return "its speed-up is impossible";
    return NULL;
}

void cli_scaling_conclude(cli_scaling *s)
{
    for (int i = 0; i < s->count; i++) {
        cli_scaling_row *row = &s->rows[i];
        qsort(row->results, (size_t)s->options.repeats, sizeof *row->results, compare_pace);
        row->result = row->results[s->options.repeats / 2];
        double single = s->rows[0].result.images_per_s;
        row->speed_up = single > 0 ? row->result.images_per_s / single : 0;
        row->efficiency = row->speed_up / row->ranks;
        row->unreliable = judge_row(s, row);
        if (!row->unreliable && s->rows[0].unreliable)
            row->unreliable = "the single device is";
    }
}
