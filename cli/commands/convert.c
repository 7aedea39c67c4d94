/* `yoke convert`: writes a state_dict in the other file format, or in another dtype. */
#include "cli.h"
#include "common/files.h"
#include "common/plural.h"
#include "common/size.h"
#include "options/options.h"
#include "options/paths.h"
#include "setup/setup.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yoke/tensor_file.h>

static const char summary[] =
    "Converts the weights in IN and writes them to OUT, a .pth file for torch.load or a\n"
    "safetensors file. The format of IN is detected from its content. IN may be a state_dict or\n"
    "a whole checkpoint, of which only the weights are converted, or the output folder of a run,\n"
    "of which the newest checkpoint is read. An existing OUT is replaced atomically, unless it\n"
    "is a whole checkpoint; if it is a symbolic link, the file that it leads to is replaced.\n\n"
    "The prefixes \"module.\" (DataParallel, DDP) and \"_orig_mod.\" (torch.compile) are removed\n"
    "from the names; use --prefix module. to add one.";

static const char examples[] = "  yoke convert runs/a/model.pth model.safetensors\n"
                               "  yoke convert --dtype bf16 checkpoint-10.pth small.pth\n"
                               "  yoke convert --prefix module. model.safetensors for-ddp.pth";

typedef struct convert_options {
    const char *format, *dtype, *prefix;
} convert_options;

static int parse_convert_options(convert_options *o, const char *name, int argc, char **argv,
                                 char **operands, int *count)
{
    const cli_option options[] = {
        CLI_CHOICE(0, "to", "pth|safetensors", "format of OUT [from the extension of its name]",
                   &o->format, NULL),
        CLI_CHOICE(0, "dtype", "f32|f16|bf16",
                   "dtype of floating-point tensors; integer tensors\nstay as they are [as in IN]",
                   &o->dtype, NULL),
        CLI_TEXT(0, "prefix", "TEXT", "prepend TEXT to every name [none]", &o->prefix, NULL),
    };
    const cli_command command = {.name = name,
                                 .operands = "IN OUT",
                                 .summary = summary,
                                 .examples = examples,
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .max_operands = 2};
    return cli_options_parse(&command, argc, argv, operands, count);
}

static bool ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path), wanted = strlen(ending);
    return length > wanted && strcmp(path + length - wanted, ending) == 0;
}

/* What the name promises, or NULL. */
static const char *format_by_name(const char *path)
{
    return ends_in(path, ".safetensors")                   ? "safetensors"
           : ends_in(path, ".pth") || ends_in(path, ".pt") ? "pth"
                                                           : NULL;
}

static void count_item(void *context, const char *name, const char *value)
{
    (void)name, (void)value;
    ++*(int *)context;
}

/* Such as a checkpoint, from which a run is resumed. */
static bool holds_more_than_weights(const char *path)
{
    yk_tensor_file *file;
    struct stat found;
    int items = 0;
    if (stat(path, &found) || !S_ISREG(found.st_mode) || yk_tensor_file_open(&file, path) != YK_OK)
        return false;
    if (strcmp(yk_tensor_file_format(file), "pth") == 0)
        yk_tensor_file_items(file, count_item, &items);
    yk_tensor_file_close(file);
    return items > 0;
}

static int check_convert_options(const char *name, const convert_options *o, char **operands,
                                 int count)
{
    if (count < 2)
        return cli_usage_error(name, "expected two files, IN and OUT, found %d", count);
    const char *out = operands[1], *ending = format_by_name(out);
    if (!o->format && !ending)
        return cli_usage_error(
            name, "%s: expected a name in .pth, .pt or .safetensors, or --to FORMAT", out);
    if (o->format && ending && strcmp(o->format, ending) != 0)
        return cli_usage_error(name, "--to %s contradicts the name %s, which means %s", o->format,
                               out, ending);
    if (!cli_check_readable(name, "", operands[0]) || !cli_check_writable(name, "", out))
        return CLI_EXIT_USAGE;
    if (holds_more_than_weights(out))
        return cli_usage_error(
            name, "%s: holds more than weights, which would be lost: choose another name", out);
    return -1;
}

/* Reads the new file again, so that what is printed is what it holds. */
static bool print_written(const char *path, bool replaced)
{
    yk_tensor_file *file;
    yk_tensor_entry entry;
    char size[CLI_SIZE_TEXT];
    double bytes = 0;
    if (!cli_ok(yk_tensor_file_open(&file, path)))
        return false;
    size_t count = yk_tensor_file_count(file);
    for (size_t i = 0; i < count; i++)
        if (yk_tensor_file_entry(file, i, &entry) == YK_OK)
            bytes += (double)entry.bytes;
    printf("%s: %zu %s, %s%s\n", path, count, cli_plural((int64_t)count, "tensor", "tensors"),
           cli_size_text(size, bytes), replaced ? " (the existing file was replaced)" : "");
    yk_tensor_file_close(file);
    return true;
}

int cli_cmd_convert(const char *name, int argc, char **argv)
{
    convert_options o = {.prefix = NULL};
    char *operands[2] = {NULL};
    int count = 0, code = parse_convert_options(&o, name, argc, argv, operands, &count);
    if (code >= 0)
        return code;
    code = check_convert_options(name, &o, operands, count);
    if (code >= 0)
        return code;
    yk_convert_options options = YK_CONVERT_OPTIONS_INIT;
    options.format = o.format;
    options.dtype = o.dtype;
    options.prefix = o.prefix;
    char in[4096], out[PATH_MAX];
    bool replaces = access(operands[1], F_OK) == 0;
    if (!cli_find_checkpoint(in, sizeof in, operands[0]) || !cli_follow_links(out, operands[1]) ||
        !cli_ok(yk_tensor_file_convert(in, out, &options)))
        return CLI_EXIT_FAILED;
    return print_written(operands[1], replaces) ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}
