/* `yoke checkpoint show`: what a .pth or safetensors file holds, as a table or as JSON. */
#include "cli.h"
#include "common/json.h"
#include "common/plural.h"
#include "common/size.h"
#include "common/terminal.h"
#include "options/options.h"
#include "options/paths.h"
#include "setup/setup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <yoke/checkpoint.h>
#include <yoke/model_info.h>
#include <yoke/tensor_file.h>

enum { PATH_SIZE = 4096 };

static const char summary[] =
    "Lists the contents of FILE: the name, dtype, shape and 2-norm of every tensor of the\n"
    "model, then everything else, such as epoch, step, seed and hyperparameters. FILE is a .pth\n"
    "file written by yoke or PyTorch, a safetensors file, or the output folder of a training\n"
    "run, whose newest checkpoint is then shown. Code in a file is never executed.";

static const char examples[] = "  yoke checkpoint show runs/a\n"
                               "  yoke checkpoint show --json model.safetensors | jq .tensors[0]";

typedef struct show_options {
    bool json, norms;
} show_options;

/* A text of a file, made fit for a line of a terminal. */
static const char *printable(char *text)
{
    for (char *at = text; (at = strchr(at, '\n'));)
        *at = ' ';
    cli_make_printable(text);
    return text;
}

/* The entry of tensor `index`; *known is false for a kind that yoke does not read, of which only
 * the name and the kind are shown. */
static bool read_entry(const yk_tensor_file *file, size_t index, yk_tensor_entry *entry,
                       bool *known)
{
    yk_status status = yk_tensor_file_entry(file, index, entry);
    *known = status == YK_OK;
    return (status == YK_ERROR_UNSUPPORTED && *entry->dtype) || cli_ok(status);
}

/* ---- as a table ----------------------------------------------------------------------------- */

enum { ITEM_TEXT = 512 }; /* of which more is not shown */

typedef struct widths {
    int name, shape;
} widths;

static int wider(int width, char *text)
{
    int own = cli_text_width(printable(text));
    return own > width ? own : width;
}

static bool measure(widths *columns, const yk_tensor_file *file)
{
    char shape[128];
    bool known;
    yk_tensor_entry entry;
    for (size_t i = 0; i < yk_tensor_file_count(file); i++) {
        if (!read_entry(file, i, &entry, &known))
            return false;
        yk_tensor_entry_shape(&entry, shape, sizeof shape);
        columns->name = wider(columns->name, entry.name);
        columns->shape = wider(columns->shape, shape);
    }
    return true;
}

/* A name in a column as wide as the widest. */
static void print_name(char *name, int width)
{
    printf("  %s%*s", printable(name), width - cli_text_width(name), "");
}

typedef struct totals {
    double elements, bytes;
} totals;

static bool print_tensor(totals *all, yk_tensor_file *file, size_t index, const widths *columns,
                         bool norms)
{
    yk_tensor_entry entry;
    char shape[128];
    bool known;
    double norm = 0;
    if (!read_entry(file, index, &entry, &known) ||
        (known && norms && !cli_ok(yk_tensor_file_norm(file, index, &norm))))
        return false;
    print_name(entry.name, columns->name);
    if (!known) {
        printf("  %-8s  (yoke does not read this kind)\n", entry.dtype);
        return true;
    }
    yk_tensor_entry_shape(&entry, shape, sizeof shape);
    printf("  %-8s  %-*s", entry.dtype, norms ? columns->shape : 0, shape);
    if (norms)
        printf("  %12.6g", norm);
    printf("\n");
    all->elements += (double)entry.count;
    all->bytes += (double)entry.bytes;
    return true;
}

static bool print_tensors(yk_tensor_file *file, bool norms)
{
    widths columns = {.name = 4, .shape = 5};
    totals all = {0, 0};
    char size[CLI_SIZE_TEXT];
    size_t count = yk_tensor_file_count(file);
    if (!measure(&columns, file))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!print_tensor(&all, file, i, &columns, norms))
            return false;
    printf("%s%zu %s, %.0f %s, %s\n", count ? "\n" : "", count,
           cli_plural((int64_t)count, "tensor", "tensors"), all.elements,
           cli_plural((int64_t)all.elements, "element", "elements"),
           cli_size_text(size, all.bytes));
    return true;
}

typedef struct items {
    int width, count;
} items;

static void measure_item(void *context, const char *name, const char *value)
{
    items *all = context;
    char shown[ITEM_TEXT];
    (void)value;
    snprintf(shown, sizeof shown, "%s", name);
    all->width = wider(all->width, shown);
    all->count++;
}

static void print_item(void *context, const char *name, const char *value)
{
    char left[ITEM_TEXT], right[ITEM_TEXT];
    snprintf(left, sizeof left, "%s", name);
    snprintf(right, sizeof right, "%s", value);
    print_name(left, ((items *)context)->width);
    printf("  %s\n", printable(right));
}

static bool print_table(yk_tensor_file *file, const char *path, const show_options *o)
{
    items all = {0};
    const yk_model_info *info;
    if (!cli_ok(yk_tensor_file_info(file, &info)))
        return false;
    printf("%s (%s", path, yk_tensor_file_format(file));
    if (info && info->arch)
        printf(", %s", info->arch);
    if (info && info->classes)
        printf(", %lld %s", (long long)info->classes,
               cli_plural(info->classes, "class", "classes"));
    printf(")\n\n");
    if (!print_tensors(file, o->norms))
        return false;
    yk_tensor_file_items(file, measure_item, &all);
    if (all.count)
        printf("\n");
    yk_tensor_file_items(file, print_item, &all);
    return true;
}

/* ---- as JSON -------------------------------------------------------------------------------- */

static void print_json_item(void *context, const char *name, const char *value)
{
    int *count = context;
    printf("%s\n    ", (*count)++ ? "," : "");
    cli_json_string(stdout, name);
    printf(": ");
    cli_json_string(stdout, value);
}

static bool print_json_tensor(yk_tensor_file *file, size_t index, const show_options *o)
{
    yk_tensor_entry entry;
    bool known;
    double norm = 0;
    if (!read_entry(file, index, &entry, &known) ||
        (known && o->norms && !cli_ok(yk_tensor_file_norm(file, index, &norm))))
        return false;
    printf("%s\n    {\"name\": ", index ? "," : "");
    cli_json_string(stdout, entry.name);
    printf(", \"dtype\": \"%s\"", entry.dtype);
    if (!known) {
        printf(", \"shape\": null}");
        return true;
    }
    printf(", \"shape\": [");
    for (int i = 0; i < entry.ndim; i++)
        printf("%s%lld", i ? ", " : "", (long long)entry.dims[i]);
    printf("]");
    if (o->norms && isfinite(norm))
        printf(", \"norm\": %.9g", norm);
    else if (o->norms)
        printf(", \"norm\": null");
    printf("}");
    return true;
}

static bool print_json(yk_tensor_file *file, const char *path, const show_options *o)
{
    int count = 0;
    printf("{\n  \"file\": ");
    cli_json_string(stdout, path);
    printf(",\n  \"format\": \"%s\",\n  \"tensors\": [", yk_tensor_file_format(file));
    for (size_t i = 0; i < yk_tensor_file_count(file); i++)
        if (!print_json_tensor(file, i, o))
            return false;
    printf("\n  ],\n  \"items\": {");
    yk_tensor_file_items(file, print_json_item, &count);
    printf("\n  }\n}\n");
    return true;
}

/* ---- the command ---------------------------------------------------------------------------- */

static bool show(const char *operand, const show_options *o)
{
    char path[PATH_SIZE];
    yk_tensor_file *file;
    if (!cli_find_checkpoint(path, sizeof path, operand))
        return false;
    if (!cli_ok(yk_tensor_file_open(&file, path)))
        return false;
    bool fine = o->json ? print_json(file, path, o) : print_table(file, path, o);
    yk_tensor_file_close(file);
    return fine;
}

int cli_cmd_checkpoint(const char *name, int argc, char **argv)
{
    show_options o = {.norms = true};
    const cli_option options[] = {
        CLI_SWITCH(0, "json", "print one JSON object instead of a table", &o.json),
        CLI_SWITCH_ON("norms", "omit the norms, so that no tensor data is read", &o.norms, NULL),
    };
    const cli_command command = {.name = name,
                                 .operands = "show FILE",
                                 .summary = summary,
                                 .examples = examples,
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .max_operands = 2};
    char *operands[2] = {NULL};
    int count = 0, code = cli_options_parse(&command, argc, argv, operands, &count);
    if (code >= 0)
        return code;
    if (count == 0 || strcmp(operands[0], "show") != 0)
        return cli_usage_error(name, "expected show FILE, found %s",
                               count ? operands[0] : "nothing");
    if (count < 2)
        return cli_usage_error(name, "show: missing FILE");
    if (!cli_check_readable(name, "", operands[1]))
        return CLI_EXIT_USAGE;
    return show(operands[1], &o) ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}
