/*
 * See page.h. The page is one file: its style, its program, and what the runs have recorded as
 * JSON, from which the program draws everything. Curves of many steps are reduced to as many points
 * as a screen can show, each the mean over its steps; those of many runs to fewer, so that the page
 * stays light.
 */
#define _GNU_SOURCE
#include "report/page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/step_seconds.h"

/* Points of a curve, and of the curves of all runs. */
enum { MAX_POINTS = 800, ALL_POINTS = 48000 };

/* ---- numbers --------------------------------------------------------------------------------- */

static void put_number(FILE *file, double value)
{
    if (isfinite(value))
        fprintf(file, "%.10g", value);
    else
        fputs("null", file);
}

static void put_member(FILE *file, const char *name, double value)
{
    fprintf(file, "\"%s\":", name);
    put_number(file, value);
    fputc(',', file);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* A step without times counts as 0 s, so that the curves continue after it. */
static double known_seconds(const yk_step_record *step)
{
    double seconds = cli_step_seconds(step);
    return isfinite(seconds) ? seconds : 0;
}

/* What a curve shows of a step. */
typedef double (*step_value)(const yk_step_record *step);

static double step_loss(const yk_step_record *step)
{
    return step->loss;
}

static double step_lr(const yk_step_record *step)
{
    return step->lr;
}

static double step_images_per_s(const yk_step_record *step)
{
    return step->images_per_s;
}

static double step_exposed(const yk_step_record *step)
{
    double all = cli_step_seconds(step);
    return all > 0 ? step->exposed_comm_s / all : (double)NAN;
}

/* The steps of a run, as so many points. */
typedef struct points {
    const yk_metrics_history *h;
    size_t count;
} points;

static points choose_points(const yk_metrics_history *h, int runs)
{
    size_t most = ALL_POINTS / (size_t)runs;
    most = most < MAX_POINTS ? most : MAX_POINTS;
    return (points){h, h->step_count < most ? h->step_count : most};
}

/* The first step of a point; that of the point after the last one is the number of steps. */
static size_t point_begin(const points *p, size_t point)
{
    return (size_t)((double)point * (double)p->h->step_count / (double)p->count);
}

/* The mean over the finite values of a point's steps. */
static double point_mean(const points *p, size_t point, step_value value)
{
    double sum = 0, count = 0;
    for (size_t i = point_begin(p, point); i < point_begin(p, point + 1); i++) {
        double one = value(&p->h->steps[i]);
        if (isfinite(one)) {
            sum += one;
            count++;
        }
    }
    return count > 0 ? sum / count : (double)NAN;
}

static void put_curve(FILE *file, const points *p, const char *name, step_value value)
{
    fprintf(file, "\"%s\":[", name);
    for (size_t i = 0; i < p->count; i++) {
        fputs(i ? "," : "", file);
        put_number(file, point_mean(p, i, value));
    }
    fputs("],", file);
}

/* Where the points lie: their last steps, and the seconds of training until then. */
static void put_positions(FILE *file, const points *p)
{
    double seconds = 0;
    fputs("\"step\":[", file);
    for (size_t i = 0; i < p->count; i++)
        fprintf(file, "%s%lld", i ? "," : "",
                (long long)p->h->steps[point_begin(p, i + 1) - 1].step);
    fputs("],\"time\":[", file);
    for (size_t i = 0; i < p->count; i++) {
        for (size_t step = point_begin(p, i); step < point_begin(p, i + 1); step++)
            seconds += known_seconds(&p->h->steps[step]);
        fputs(i ? "," : "", file);
        put_number(file, seconds);
    }
    fputs("]", file);
}

static void put_points(FILE *file, const points *p)
{
    fputs("\"points\":{", file);
    put_curve(file, p, "loss", step_loss);
    put_curve(file, p, "lr", step_lr);
    put_curve(file, p, "images_per_s", step_images_per_s);
    put_curve(file, p, "exposed", step_exposed);
    put_positions(file, p);
    fputs("},", file);
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static void put_epochs(FILE *file, const yk_metrics_history *h)
{
    static const char *const names[] = {"step", "time", "val_loss", "accuracy", "ema_accuracy"};
    enum { NAMES = sizeof names / sizeof *names };
    fputs("\"epochs\":{", file);
    for (int name = 0; name < NAMES; name++) {
        double seconds = 0; /* that the steps up to the end of the epoch took */
        size_t step = 0;
        fprintf(file, "%s\"%s\":[", name ? "," : "", names[name]);
        for (size_t i = 0; i < h->epoch_count; i++) {
            const yk_epoch_record *epoch = &h->epochs[i];
            for (; step < h->step_count && h->steps[step].step <= epoch->step; step++)
                seconds += known_seconds(&h->steps[step]);
            const double values[NAMES] = {(double)epoch->step, seconds, epoch->val_loss,
                                          epoch->val_accuracy,
                                          epoch->has_ema ? epoch->ema_val_accuracy : (double)NAN};
            fputs(i ? "," : "", file);
            put_number(file, values[name]);
        }
        fputs("]", file);
    }
    fputs("},", file);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void put_results(FILE *file, const cli_run *run)
{
    const cli_results *r = &run->results;
    fputs("\"results\":{", file);
    put_member(file, "accuracy", r->accuracy);
    put_member(file, "best_accuracy", r->best_accuracy);
    put_member(file, "val_loss", r->val_loss);
    put_member(file, "train_loss", r->train_loss);
    put_member(file, "images_per_s", r->images_per_s);
    put_member(file, "data", r->data);
    put_member(file, "compute", r->compute);
    put_member(file, "waiting", r->waiting);
    put_member(file, "exposed_comm", r->exposed_comm);
    put_member(file, "slowest_rank", r->slowest_rank);
    put_member(file, "slowest_epochs", r->slowest_epochs);
    put_member(file, "waited", r->waited_s);
    fputs("\"seconds\":", file);
    put_number(file, r->seconds);
    fputs("},", file);
}

static void put_settings(FILE *file, const cli_run *run)
{
    fputs("\"settings\":{", file);
    for (size_t i = 0; i < run->setting_count; i++) {
        fputs(i ? "," : "", file);
        cli_json_string(file, run->settings[i].name);
        fputc(':', file);
        cli_json_string(file, run->settings[i].value);
    }
    fputs("},", file);
}

static void put_base64(FILE *file, const uint8_t *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16 |
                         (i + 1 < size ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (i + 2 < size ? bytes[i + 2] : 0);
        fputc(digits[group >> 18], file);
        fputc(digits[group >> 12 & 63], file);
        fputc(i + 1 < size ? digits[group >> 6 & 63] : '=', file);
        fputc(i + 2 < size ? digits[group & 63] : '=', file);
    }
}

static void put_mistakes(FILE *file, const cli_mistakes *m)
{
    if (!m->note[0])
        return;
    fputs("\"mistakes\":[", file);
    for (int i = 0; i < m->count; i++) {
        fprintf(file, "%s{\"truth\":", i ? "," : "");
        cli_json_string(file, m->items[i].truth);
        fputs(",\"guess\":", file);
        cli_json_string(file, m->items[i].guess);
        fputs(",\"name\":", file);
        cli_json_string(file, m->items[i].name);
        fputs(",\"confidence\":", file);
        put_number(file, m->items[i].confidence);
        fputs(",\"png\":\"", file);
        put_base64(file, m->items[i].png.bytes, m->items[i].png.size);
        fputs("\"}", file);
    }
    fputs("],\"mistakes_note\":", file);
    cli_json_string(file, m->note);
    fputc(',', file);
}

static void put_run(FILE *file, const cli_run *run, const cli_mistakes *mistakes, int count)
{
    points p = choose_points(run->history, count);
    fputs("{\"name\":", file);
    cli_json_string(file, run->name);
    fputs(",\"folder\":", file);
    cli_json_string(file, run->folder);
    fputc(',', file);
    put_settings(file, run);
    put_results(file, run);
    put_points(file, &p);
    put_epochs(file, run->history);
    put_mistakes(file, mistakes);
    size_t steps = run->history->step_count;
    fprintf(file, "\"ranks\":%lld,\"steps\":%lld}", (long long)run->history->header.ranks,
            steps ? (long long)run->history->steps[steps - 1].step : 0LL);
}

static bool put_data(FILE *file, const cli_run *runs, const cli_mistakes *mistakes, int count)
{
    size_t names;
    const char **differing = cli_runs_settings(runs, count, true, &names);
    fputs("{\"runs\":[", file);
    for (int i = 0; i < count; i++) {
        fputs(i ? ",\n" : "", file);
        put_run(file, &runs[i], &mistakes[i], count);
    }
    fputs("],\"differing\":[", file);
    for (size_t i = 0; differing && i < names; i++) {
        fputs(i ? "," : "", file);
        cli_json_string(file, differing[i]);
    }
    fputs("]}", file);
    free(differing);
    return differing != NULL;
}

/* ---- the page -------------------------------------------------------------------------------- */

/* Inside of <script> a "<" may begin "</script>": in JSON it is only found in strings. */
static void put_escaped(FILE *file, const char *json)
{
    for (; *json; json++)
        if (*json == '<')
            fputs("\\u003c", file);
        else
            fputc(*json, file);
}

static void put_html(FILE *file, const char *text)
{
    for (; *text; text++)
        if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '&')
            fputs("&amp;", file);
        else
            fputc(*text, file);
}

static bool is_same(const cli_run *runs, int count, const char *name)
{
    for (int i = 1; i < count; i++)
        if (strcmp(cli_run_setting(&runs[i], name), cli_run_setting(&runs[0], name)) != 0)
            return false;
    return true;
}

/* "resnet18 on cifar10"; every run has both settings. */
static void put_subject(FILE *file, const cli_run *runs, int count)
{
    put_html(file,
             is_same(runs, count, "arch") ? cli_run_setting(&runs[0], "arch") : "several networks");
    fputs(" on ", file);
    put_html(file, is_same(runs, count, "data") ? cli_run_setting(&runs[0], "data")
                                                : "several data sets");
}

static void put_head(FILE *file, const cli_run *runs, int count)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          file);
    put_html(file, runs[0].name);
    if (count > 1)
        fprintf(file, " and %d more", count - 1);
    fprintf(file, " · yoke report</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>",
            cli_page_css);
    if (count == 1)
        put_html(file, runs[0].name);
    else
        fprintf(file, "%d training runs", count);
    fputs("</h1>\n<p class=\"by\">", file);
    put_subject(file, runs, count);
    fprintf(file,
            " · yoke %s</p>\n<noscript>This page draws its curves with JavaScript.</noscript>\n",
            yk_version());
}

bool cli_page_write(FILE *file, const cli_run *runs, const cli_mistakes *mistakes, int count)
{
    char *json = NULL;
    size_t size;
    FILE *stream = open_memstream(&json, &size);
    bool fine = stream && put_data(stream, runs, mistakes, count);
    if (stream && fclose(stream) != 0)
        fine = false;
    if (fine) {
        put_head(file, runs, count);
        fputs("</main>\n<script type=\"application/json\" id=\"data\">\n", file);
        put_escaped(file, json);
        fprintf(file, "\n</script>\n<script>\n%s</script>\n</body>\n</html>\n", cli_page_js);
    }
    free(json);
    return fine;
}
