/* `yoke export`: a trained network as an ONNX file. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "common/files.h"
#include "common/plural.h"
#include "common/size.h"
#include "options/options.h"
#include "options/paths.h"
#include "setup/setup.h"

static const char summary[] =
    "Writes the network of CHECKPOINT as an ONNX file, for ONNX Runtime, OpenVINO, TensorRT and\n"
    "others. CHECKPOINT is a .pth file written by yoke or PyTorch, a safetensors file, or the\n"
    "output folder of a training run, whose newest checkpoint is then used.\n\n"
    "The input is called images, (batch, C, H, W) float32 with a batch of any size, the output\n"
    "logits, (batch, classes). The file's metadata has the names of the classes, the mean and\n"
    "deviation of pixels, and what is done to pictures before (transforms). An existing file is\n"
    "replaced atomically.";

static const char examples[] = "  yoke export runs/a a.onnx\n"
                               "  yoke export --image-size 320 resnet50.pth resnet50.onnx";

typedef struct export_options {
    const char *arch;   /* NULL: the file's */
    int64_t image_size; /* 0: that of the training run */
    bool ema;
} export_options;

static bool export_checkpoint(const export_options *o, const char *checkpoint, const char *to)
{
    cli_trained trained = {.file = NULL}; /* closed in any case */
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    struct stat written;
    char size[CLI_SIZE_TEXT], target[PATH_MAX];
    bool fine = cli_follow_links(target, to) &&
                cli_trained_open(&trained, checkpoint, o->arch, o->image_size) &&
                cli_check_pictures(trained.path, trained.info) &&
                cli_trained_load(&trained, &options, o->ema) &&
                cli_ok(yk_model_export_onnx(trained.model, target));
    if (fine && stat(target, &written) == 0)
        printf("%s: %s for %lldx%lldx%lld pictures and %lld %s, %s\n", to, trained.arch,
               (long long)trained.size[0], (long long)trained.size[1], (long long)trained.size[2],
               (long long)trained.classes, cli_plural(trained.classes, "class", "classes"),
               cli_size_text(size, (double)written.st_size));
    cli_trained_close(&trained);
    return fine;
}

/* The name must say what is written, so that no checkpoint is overwritten by mistake. */
static int check_operands(const char *name, char **operands, int count)
{
    if (count < 2)
        return cli_usage_error(name, "expected CHECKPOINT and FILE.onnx");
    const char *dot = strrchr(operands[1], '.');
    if (!dot || strcmp(dot, ".onnx") != 0)
        return cli_usage_error(name, "%s: expected a name that ends in .onnx", operands[1]);
    bool fine =
        cli_check_readable(name, "", operands[0]) && cli_check_writable(name, "", operands[1]);
    return fine ? -1 : CLI_EXIT_USAGE;
}

int cli_cmd_export(const char *name, int argc, char **argv)
{
    export_options o = {.ema = false};
    const cli_option options[] = {
        CLI_INT(0, "image-size", "N",
                "sides of the pictures in the network [as in the training\nrun; else 224, or 32 "
                "for networks for small images]",
                &o.image_size, NULL, 8, 4096),
        CLI_ARCH("network in the file [read from the file]", &o.arch, NULL),
        CLI_SWITCH(0, "ema", "use the averaged weights that --ema has saved", &o.ema),
    };
    const cli_command command = {.name = name,
                                 .operands = "CHECKPOINT FILE.onnx",
                                 .summary = summary,
                                 .examples = examples,
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .max_operands = 2};
    char *operands[2] = {NULL};
    int count = 0, code = cli_options_parse(&command, argc, argv, operands, &count);
    if (code < 0)
        code = check_operands(name, operands, count);
    if (code < 0)
        code = export_checkpoint(&o, operands[0], operands[1]) ? CLI_EXIT_OK : CLI_EXIT_FAILED;
    return code;
}
