/* `yoke convert`: a state_dict from one file format into the other, or into another dtype. */
#include "cli.h"
#include "options.h"
#include "setup.h"

#include <stdio.h>
#include <string.h>

#include <yoke/tensor_file.h>

static const char summary[] =
    "Writes the tensors of IN into the new file OUT: a .pth file, which torch.load reads, or\n"
    "safetensors. IN is either of them, told by its content, be it a state_dict or a whole\n"
    "checkpoint. Only the weights are taken: optimizer and training state stay behind.\n\n"
    "\"module.\" (from DataParallel or DDP) and \"_orig_mod.\" (from torch.compile) before all\n"
    "names are left off; --prefix module. puts it back.";

static const char examples[] = "  yoke convert runs/a/model.pth model.safetensors\n"
                               "  yoke convert --dtype bf16 checkpoint-10.pth small.pth\n"
                               "  yoke convert --prefix module. model.safetensors for-ddp.pth";

typedef struct convert_options {
    const char *format, *dtype, *prefix;
} convert_options;

static int parse(convert_options *o, int argc, char **argv, char **operands, int *count)
{
    const cli_option options[] = {
        CLI_GROUP("Options"),
        CLI_CHOICE(0, "to", "pth|safetensors", "format of OUT [what its name ends in]", &o->format,
                   NULL),
        CLI_CHOICE(0, "dtype", "f32|f16|bf16",
                   "of all floating tensors; integers stay as\nthey are [as in IN]", &o->dtype,
                   NULL),
        CLI_TEXT(0, "prefix", "TEXT", "put before every name [nothing]", &o->prefix, NULL),
    };
    const cli_command command = {.name = argv[0],
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

static int check(const char *name, const convert_options *o, char **operands, int count)
{
    if (count < 2)
        return cli_usage_error(name, "expected two files, IN and OUT, found %d", count);
    const char *out = operands[1], *ending = format_by_name(out);
    if (!o->format && !ending)
        return cli_usage_error(
            name, "%s: expected a name in .pth, .pt or .safetensors, or --to FORMAT", out);
    if (o->format && ending && strcmp(o->format, ending) != 0)
        return cli_usage_error(name, "--to %s, but %s ends as %s does", o->format, out, ending);
    bool fine = cli_check_readable(name, "", operands[0]) && cli_check_writable(name, "", out);
    return fine ? -1 : CLI_EXIT_USAGE;
}

/* Reads the new file again: what is said of it is what is in it. */
static bool print_written(const char *path)
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
    printf("%s: %zu tensors, %s\n", path, count, cli_size_text(size, bytes));
    yk_tensor_file_close(file);
    return true;
}

int cli_cmd_convert(int argc, char **argv)
{
    convert_options o = {.prefix = NULL};
    char *operands[2] = {NULL};
    int count = 0, code = parse(&o, argc, argv, operands, &count);
    if (code < 0)
        code = check(argv[0], &o, operands, count);
    if (code >= 0)
        return code;
    yk_convert_options options = YK_CONVERT_OPTIONS_INIT;
    options.format = o.format;
    options.dtype = o.dtype;
    options.prefix = o.prefix;
    if (!cli_ok(yk_tensor_file_convert(operands[0], operands[1], &options)))
        return CLI_EXIT_FAILED;
    return print_written(operands[1]) ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}
