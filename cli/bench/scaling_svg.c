/*
 * The scaling table as a picture for a report, in two panels: the speed-up of each row beside the
 * ideal for its ranks, and how its time was spent. Plain SVG 1.1 with a style sheet, which follows
 * the viewer's dark mode; text is stored as text, not as outlines.
 */
#define _GNU_SOURCE
#include "bench/scaling.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "common/files.h"
#include "common/utf8.h"

enum {
    WIDTH = 880,
    LABELS = 190, /* the labels end here */
    PLOT = 204,   /* the bars begin here */
    PLOT_WIDTH = 450,
    ROW = 30,
    BAR = 18,
    HEADER = 96,
    PANEL_TITLE = 34,
    AXIS = 30,
    GAP = 40,
    FOOTER = 44
};

static const char style[] =
    "<style>\n"
    "  text { font-family: system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; font-size: 13px;\n"
    "         fill: #1f2328 }\n"
    "  .title { font-size: 20px; font-weight: 600 }\n"
    "  .heading { font-size: 15px; font-weight: 600 }\n"
    "  .quiet { fill: #59636e; font-size: 12px }\n"
    "  .paper { fill: #ffffff }\n"
    "  .grid { stroke: #d8dee4; stroke-width: 1 }\n"
    "  .ideal { fill: #dbe4ee }\n"
    "  .speed, .compute { fill: #2f6fb3 }\n"
    "  .shared { fill: #8fb4dc }\n"
    "  .waiting { fill: #b39ddb } .exposed { fill: #d9822b }\n"
    "  .data { fill: #8b949e }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    text { fill: #e6edf3 } .quiet { fill: #9198a1 } .paper { fill: #0d1117 }\n"
    "    .grid { stroke: #30363d } .ideal { fill: #2b3440 }\n"
    "    .speed, .compute { fill: #5b9bdf } .shared { fill: #34587f }\n"
    "    .waiting { fill: #7e6bb0 } .exposed { fill: #e89b4c }\n"
    "    .data { fill: #6e7681 }\n"
    "  }\n"
    "</style>\n";

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Prints the character that text begins with, as XML wants it, and returns its bytes. What is no
 * character becomes "?". */
static int put_character(FILE *file, const char *text)
{
    int length = cli_utf8_length(text);
    if (length == 0)
        fputc('?', file);
    else if (*text == '<')
        fputs("&lt;", file);
    else if (*text == '&')
        fputs("&amp;", file);
    else
        fwrite(text, 1, (size_t)length, file);
    return length ? length : 1;
}

/* Escaped text at a point; anchor: start, middle or end. */
static void put_text(FILE *file, double x, double y, const char *class, const char *anchor,
                     const char *format, ...) __attribute__((format(printf, 6, 7)));
static void put_text(FILE *file, double x, double y, const char *class, const char *anchor,
                     const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y, class,
            anchor);
    for (const char *at = line; *at;)
        at += put_character(file, at);
    fputs("</text>\n", file);
}

static void put_bar(FILE *file, const char *class, double x, double y, double width, double height)
{
    fprintf(file, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
            class, x, y, width > 0 ? width : 0, height);
}

/* A mark of the legend; returns where the next one begins. */
static double put_legend(FILE *file, double x, double y, const char *class, const char *label)
{
    put_bar(file, class, x, y - 10, 12, 12);
    put_text(file, x + 18, y, "quiet", "start", "%s", label);
    return x + 36 + 6.6 * (double)strlen(label);
}

/* 1, 2 or 5 times a power of ten, so that there are at most about six steps to the limit. */
static double nice_step(double limit)
{
    double power = pow(10, floor(log10(limit / 6)));
    double rest = limit / 6 / power;
    return power * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10);
}

/* Vertical lines with their numbers below; unit follows each number. */
static void put_axis(FILE *file, double top, double height, double limit, double step,
                     const char *unit)
{
    for (int i = 0; i * step <= limit * 1.0001; i++) {
        double x = PLOT + PLOT_WIDTH * i * step / limit;
        fprintf(file, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x,
                top, x, top + height + 4);
        put_text(file, x, top + height + 20, "quiet", "middle", "%g%s", i * step, unit);
    }
}

static double row_top(double top, int row)
{
    return top + ROW * row + (ROW - BAR) / 2.0;
}

static void put_label(FILE *file, const cli_scaling_row *row, double top)
{
    put_text(file, LABELS, top + 13, "label", "end", "%s%s", row->name,
             row->oversubscribed ? " *" : "");
}

/* ---- the panels ------------------------------------------------------------------------------ */

/* The ideal speed-up of the row: its ranks, or less if they share cores. */
static double ideal(const cli_scaling *s, const cli_scaling_row *row)
{
    double devices = fmax(1, (double)s->cores / (double)s->options.threads);
    return row->oversubscribed ? fmin(row->ranks, devices) : row->ranks;
}

static void put_speed_up(FILE *file, const cli_scaling *s, double top)
{
    double limit = 1;
    for (int i = 0; i < s->count; i++)
        limit = fmax(limit,
                     fmax(s->rows[i].unreliable ? 0 : s->rows[i].speed_up, ideal(s, &s->rows[i])));
    double step = limit <= 3 ? 0.5 : nice_step(limit);
    limit = step * ceil(limit / step - 1e-9);
    put_text(file, 24, top + 16, "heading", "start", "Speed-up over a single device");
    double x = put_legend(file, PLOT + 130, top + 16, "speed", "measured");
    x = put_legend(file, x, top + 16, "ideal", "ideal for its cores");
    put_legend(file, x, top + 16, "shared", "measured, cores shared *");
    top += PANEL_TITLE;
    put_axis(file, top, (double)ROW * s->count, limit, step, "\u00d7");
    for (int i = 0; i < s->count; i++) {
        const cli_scaling_row *row = &s->rows[i];
        double y = row_top(top, i), scale = PLOT_WIDTH / limit, most = ideal(s, row);
        put_label(file, row, y);
        put_bar(file, "ideal", PLOT, y - 3, scale * most, BAR + 6);
        if (row->unreliable) {
            put_text(file, PLOT + PLOT_WIDTH + 14, y + 13, "quiet", "start", "unreliable");
            continue;
        }
        put_bar(file, row->oversubscribed ? "shared" : "speed", PLOT, y, scale * row->speed_up,
                BAR);
        put_text(file, PLOT + PLOT_WIDTH + 14, y + 13, "value", "start", "%.2f\u00d7",
                 row->speed_up);
        put_text(file, WIDTH - 24, y + 13, "quiet", "end", "efficiency %.0f %%",
                 100 * row->efficiency);
    }
}

static void put_seconds(FILE *file, const cli_scaling *s, double top)
{
    double limit = 0;
    for (int i = 0; i < s->count; i++)
        limit = fmax(limit, s->rows[i].result.seconds);
    double step = nice_step(limit);
    limit = step * ceil(limit / step - 1e-9);
    put_text(file, 24, top + 16, "heading", "start", "Where the seconds go");
    double x = put_legend(file, PLOT + 130, top + 16, "compute", "compute");
    x = put_legend(file, x, top + 16, "waiting", "waiting for ranks");
    x = put_legend(file, x, top + 16, "exposed", "exposed communication");
    put_legend(file, x, top + 16, "data", "data wait");
    top += PANEL_TITLE;
    put_axis(file, top, (double)ROW * s->count, limit, step, " s");
    for (int i = 0; i < s->count; i++) {
        const cli_scaling_row *row = &s->rows[i];
        const cli_scaling_result *r = &row->result;
        double y = row_top(top, i), all = PLOT_WIDTH * r->seconds / limit;
        double data = all * r->data_share, exposed = all * r->exposed_share;
        double waiting = all * r->waiting_share, compute = all - data - exposed - waiting;
        put_label(file, row, y);
        put_bar(file, "compute", PLOT, y, compute, BAR);
        put_bar(file, "waiting", PLOT + compute, y, waiting, BAR);
        put_bar(file, "exposed", PLOT + all - data - exposed, y, exposed, BAR);
        put_bar(file, "data", PLOT + all - data, y, data, BAR);
        put_text(file, PLOT + PLOT_WIDTH + 14, y + 13, "value", "start",
                 r->seconds < 100 ? "%.2f s" : "%.0f s", r->seconds);
        if (r->accuracy >= 0)
            put_text(file, WIDTH - 24, y + 13, "quiet", "end", "accuracy %.1f %%",
                     100 * r->accuracy);
    }
}

/* ---- the picture ----------------------------------------------------------------------------- */

static void put_picture(FILE *file, const cli_scaling *s)
{
    double panel = PANEL_TITLE + (double)ROW * s->count + AXIS;
    double height = HEADER + 2 * panel + GAP + FOOTER;
    char description[CLI_SCALING_TEXT];
    bool oversubscribed = false;
    for (int i = 0; i < s->count; i++)
        oversubscribed |= s->rows[i].oversubscribed;
    cli_scaling_describe(s, description);
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
            "viewBox=\"0 0 %d %.0f\" role=\"img\">\n<title>Data-parallel scaling</title>\n%s",
            WIDTH, height, WIDTH, height, style);
    fprintf(file, "<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n");
    put_text(file, 24, 38, "title", "start", "Data-parallel scaling: %s", s->options.arch);
    put_text(file, 24, 62, "quiet", "start", "%s", description);
    put_speed_up(file, s, HEADER);
    put_seconds(file, s, HEADER + panel + GAP);
    put_text(file, 24, height - 18, "quiet", "start",
             "yoke %s. Efficiency: speed-up / ranks. Seconds of training alone.%s", yk_version(),
             oversubscribed ? " *: more threads than cores." : "");
    fputs("</svg>\n", file);
}

bool cli_scaling_write_svg(const cli_scaling *s, const char *path)
{
    cli_file file;
    if (!cli_file_create(&file, path))
        return false;
    put_picture(file.stream, s);
    return cli_file_close(&file);
}
