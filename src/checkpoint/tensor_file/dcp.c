/* See dcp.h. */
#define _GNU_SOURCE
#include "checkpoint/tensor_file/dcp.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/text.h"

/* Whether it is a folder that has a .metadata. */
static bool is_checkpoint_folder(const char *path)
{
    char inside[PATH_MAX];
    int length = snprintf(inside, sizeof inside, "%s/.metadata", path);
    return length < PATH_MAX && yki_is_folder(path) && access(inside, F_OK) == 0;
}

yk_status yki_refuse_dcp(const char *path)
{
    bool folder = is_checkpoint_folder(path);
    if (!folder && !yki_ends_in(path, ".distcp") && !yki_ends_in(path, "/.metadata"))
        return YK_OK;
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "%s: is %sa distributed checkpoint of PyTorch: convert it with python -m "
                     "torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE.pth",
                     path, folder ? "" : "a file of ");
}
